"""All of TFX's stock components on what ours make: statistics, schema, examples, model, metrics."""

from pathlib import Path

import pytest
import tensorflow as tf

pytest.importorskip("tfx", reason="TFX's own components")
import tensorflow_model_analysis as tfma
from datum.reader import load
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2
from tfx import v1 as tfx

import trainer_utils
from components import SchemaExport, ShardBalancer, TextExampleGen
from pipelines.tools.conversion.runs import run_here

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
FUNCTIONS = "tests.e2e.stock_functions"


@pytest.fixture(scope="module")
def uris(tmp_path_factory):
    """120 rows through a whole pipeline; the uri of each component's output."""
    root = tmp_path_factory.mktemp("stock")
    rows = [f"review number {n},{n % 5 + 0.5},{'good' if n % 5 > 2 else 'bad'}" for n in range(120)]
    (root / "reviews.csv").write_text("\n".join(["text,stars,label", *rows, ""]))
    metadata = str(root / "metadata.sqlite")
    pipeline = tfx.dsl.Pipeline(
        pipeline_name="stock",
        pipeline_root=str(root / "artifacts"),
        components=components_of(str(root / "reviews.csv")),
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
            metadata
        ),
    )
    uris, _ = run_here(pipeline, metadata)
    for name in ("ShardBalancer", "AfterTransform"):  # two of one type
        (folder,) = (root / "artifacts" / name / "balanced_examples").iterdir()
        uris[name] = str(folder)
    return uris


def components_of(source):
    texts = TextExampleGen(input_base=source)
    balanced = ShardBalancer(examples=texts.outputs["examples"], num_shards=2)
    examples = balanced.outputs["balanced_examples"]
    described = SchemaExport(examples=examples)
    schema = described.outputs["datum_schema"]
    statistics = tfx.components.StatisticsGen(examples=examples, schema=schema)
    validator = tfx.components.ExampleValidator(
        statistics=statistics.outputs["statistics"], schema=schema
    )
    transform = tfx.components.Transform(
        examples=examples, schema=schema, preprocessing_fn=f"{FUNCTIONS}.preprocessing_fn"
    )
    trainer = tfx.components.Trainer(
        run_fn=f"{FUNCTIONS}.run_fn",
        examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        schema=schema,
        train_args=tfx.proto.TrainArgs(num_steps=1),
        eval_args=tfx.proto.EvalArgs(num_steps=1),
    )
    config = tfma.EvalConfig(
        model_specs=[tfma.ModelSpec(label_key="label", signature_name="serving_default")],
        slicing_specs=[tfma.SlicingSpec()],
        metrics_specs=tfma.metrics.specs_from_metrics(
            [tfma.metrics.ExampleCount(), tfma.metrics.AUC(num_thresholds=100)]
        ),
    )
    evaluator = tfx.components.Evaluator(
        examples=examples, model=trainer.outputs["model"], schema=schema, eval_config=config
    )
    transformed = transform.outputs["transformed_examples"]
    after = ShardBalancer(examples=transformed, num_shards=2).with_id("AfterTransform")
    return [texts, balanced, described, statistics, validator, transform, trainer, evaluator, after]


def records_of(uris, split):
    shards = [str(path) for path in Path(uris["ShardBalancer"]).glob(f"Split-{split}/*")]
    return [record.numpy() for record in tf.data.TFRecordDataset(shards)]


def test_the_schema_is_one_file_that_tfx_reads(uris):
    (path,) = Path(uris["SchemaExport"]).iterdir()
    schema = text_format.Parse(path.read_text(), schema_pb2.Schema())
    assert {feature.name for feature in schema.feature} == {"id", "text", "stars", "label"}


def test_example_validator_finds_no_anomaly(uris):
    files = sorted(Path(uris["ExampleValidator"]).rglob("SchemaDiff.pb"))
    assert len(files) == 2  # of train and eval
    for path in files:
        anomalies = anomalies_pb2.Anomalies.FromString(path.read_bytes())
        assert not anomalies.anomaly_info


def test_transform_and_trainer_made_a_model_that_serves_raw_examples(uris):
    (folder,) = Path(uris["Trainer"].replace("model_run", "model")).glob("Format-Serving")
    serve = tf.saved_model.load(str(folder)).signatures["serving_default"]
    for record in records_of(uris, "eval"):
        example = tf.train.Example.FromString(record)
        stars = example.features.feature["stars"].float_list.value[0]
        found = float(serve(examples=tf.constant([record]))["predictions"][0, 0])
        assert (found > 0.5) == (stars > 3)


def test_evaluator_measures_it(uris):
    result = tfma.load_eval_result(uris["Evaluator"].replace("/blessing/", "/evaluation/"))
    ((_, metrics),) = result.slicing_metrics
    values = metrics[""][""]
    assert values["example_count"]["doubleValue"] == len(records_of(uris, "eval"))
    assert values["auc"]["doubleValue"] == pytest.approx(1, abs=1e-3)


def test_what_is_balanced_after_transform_knows_its_labels(uris):
    labels = (Path(uris["TextExampleGen"]) / "vocab/label.txt").read_text().split()
    after = Path(uris["AfterTransform"])
    assert (after / "vocab/label.txt").read_text().split() == labels == ["bad", "good"]
    assert set((after / "vocab/made.txt").read_text().split()) == {"good", "bad"}
    options = {"features": ["stars"], "label": "label", "labels": {"one_hot": True}}
    _, label = next(iter(trainer_utils.input_fn(str(after), "train", batch_size=5, **options)))
    assert label.shape == (5, 2)


def test_datum_opens_the_dataset_beside_it(uris):
    folder = uris["SchemaExport"].replace("datum_schema", "datum_dataset")
    loaded = load(folder)
    loaded.dataset_configs.batch_size_val = 1
    assert sum(1 for _ in loaded.val_fn("train")) == len(records_of(uris, "train"))
