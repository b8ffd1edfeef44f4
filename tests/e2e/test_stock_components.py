"""The TFX tutorial, unchanged: all stock components of TFX on the output of our components."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

pytest.importorskip("tfx", reason="TFX's own components")
import tensorflow_model_analysis as tfma
from datum.reader import load
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2

import trainer_utils
from tests.docs.markdown import REPOSITORY, blocks

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
AFTER = """ShardBalancer(
    examples=transform.outputs["transformed_examples"], num_shards=2
).with_id("AfterTransform")"""


@pytest.fixture(scope="module")
def uris(tmp_path_factory):
    """Return the uri of the first output of each component; for ours also after Transform."""
    folder = tmp_path_factory.mktemp("tutorial")
    page = blocks(REPOSITORY / "docs/tutorials/tfx.md")
    data, functions, pipeline = [block.text for block in page if block.language == "python"]
    (folder / "functions.py").write_text(functions)
    assert "+ [pusher]" in pipeline
    (folder / "pipeline.py").write_text(pipeline.replace("+ [pusher]", f"+ [pusher, {AFTER}]"))
    (folder / "data.py").write_text(data)
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    for name in ("data.py", "pipeline.py"):
        run = subprocess.run(
            [sys.executable, name], cwd=folder, env=env, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr[-5000:]
    runs = (folder / "artifacts").glob("*/*/[0-9]*")
    found = {f"{run.parts[-3]}.{run.parts[-2]}": run for run in runs}
    (found["serving"],) = (folder / "serving").iterdir()
    return found


def records_of(uris, split):
    shards = [
        str(path) for path in Path(uris["ShardBalancer.balanced_examples"]).glob(f"Split-{split}/*")
    ]
    return [record.numpy() for record in tf.data.TFRecordDataset(shards)]


def test_the_schema_is_one_file_that_tfx_reads(uris):
    (path,) = uris["SchemaExport.datum_schema"].iterdir()
    schema = text_format.Parse(path.read_text(), schema_pb2.Schema())
    assert {feature.name for feature in schema.feature} == {"id", "text", "label"}


def test_example_validator_finds_no_anomaly(uris):
    files = sorted(uris["ExampleValidator.anomalies"].rglob("SchemaDiff.pb"))
    assert len(files) == 2  # one each for train and eval
    for path in files:
        anomalies = anomalies_pb2.Anomalies.FromString(path.read_bytes())
        assert not anomalies.anomaly_info


def test_the_pushed_model_serves_raw_examples(uris):
    serve = tf.saved_model.load(str(uris["serving"])).signatures["serving_default"]
    records = records_of(uris, "eval")
    examples = [tf.train.Example.FromString(record) for record in records]
    labels = [example.features.feature["label"].int64_list.value[0] for example in examples]
    predictions = serve(examples=tf.constant(records))["predictions"][:, 0].numpy()
    assert set(labels) == {0, 1}
    assert [int(prediction > 0.5) for prediction in predictions] == labels


@pytest.mark.parametrize(
    ("text", "is_good"), [("The cast is a joy!", True), ("the cast is DULL", False)]
)
def test_the_pushed_model_judges_by_the_words(uris, text, is_good):
    serve = tf.saved_model.load(str(uris["serving"])).signatures["serving_default"]
    example = tf.train.Example.FromString(records_of(uris, "eval")[0])
    example.features.feature["text"].bytes_list.value[:] = [text.encode()]
    prediction = serve(examples=tf.constant([example.SerializeToString()]))["predictions"][0, 0]
    assert (float(prediction) > 0.5) == is_good


def test_evaluator_measures_the_model(uris):
    result = tfma.load_eval_result(str(uris["Evaluator.evaluation"]))
    ((_, metrics),) = result.slicing_metrics
    values = metrics[""][""]
    assert values["auc"]["doubleValue"] == pytest.approx(1, abs=1e-3)


def test_dataset_balanced_after_transform_has_labels(uris):
    labels = (uris["TextExampleGen.examples"] / "vocab/label.txt").read_text().split()
    after = uris["AfterTransform.balanced_examples"]
    assert (after / "vocab/label.txt").read_text().split() == labels == ["bad", "good"]
    options = {"features": ["words"], "label": "label", "labels": {"one_hot": True}}
    dataset = trainer_utils.input_fn(str(after), "train", batch_size=5, **options)
    features, label = next(iter(dataset))
    assert features["words"].shape == (5, 16)
    assert label.shape == (5, 2)


def test_datum_opens_the_exported_dataset(uris):
    folder = str(uris["SchemaExport.datum_dataset"])
    loaded = load(folder)
    loaded.dataset_configs.batch_size_val = 1
    assert sum(1 for _ in loaded.val_fn("train")) == len(records_of(uris, "train"))
