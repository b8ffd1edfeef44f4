"""Test SchemaExport and the schemas that it writes."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import tensorflow as tf
from apache_beam.options.pipeline_options import PipelineOptions
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx.types import standard_artifacts
from tfx.types.experimental import simple_artifacts
from tfx.utils import io_utils

import trainer_utils
from components import steps
from components.runtime.beam import IN_PROCESS_RUNNER
from components.schema.describing import datum_limits
from components.schema.tfmd import schema_from_features
from components.schema_export import Executor
from tests.components.balancing.test_executor import balance
from tests.make import write_records
from trainer_utils.core.errors import DatasetError
from trainer_utils.format import Feature
from trainer_utils.format.datum import parse_features

GOLDEN = Path(__file__).parents[2] / "golden"

LISTS = {int: "int64_list", float: "float_list", bytes: "bytes_list"}


def write_examples(folder: Path, examples: list[dict], suffix: str = ".gz") -> None:
    records = []
    for values in examples:
        example = tf.train.Example()
        for name, value in values.items():
            feature = example.features.feature[name]
            getattr(feature, LISTS[type(value[0])]).value.extend(value)
        records.append(example.SerializeToString())
    path = folder / f"Split-train/data_tfrecord-00000-of-00001{suffix}"
    write_records(path, records, "GZIP" if suffix else "")


def export(examples: Path, target: Path, **given: Any) -> schema_pb2.Schema:
    uris = {name: str(value) for name, value in given.items() if isinstance(value, Path)}
    steps.export_schema(
        str(examples), str(target), schema_uri=f"{target}-schema", **{**given, **uris}
    )
    text = Path(io_utils.get_only_uri_in_dir(f"{target}-schema")).read_text()  # found as by TFX
    assert text == (target / "schema.pbtxt").read_text()
    return text_format.Parse(text, schema_pb2.Schema())


@pytest.fixture
def stock(tmp_path) -> Path:
    """Write examples with a scalar, a vector, a list of any length and an optional feature."""
    examples = [{"id": [n], "vector": [0.5, float(n)], "tokens": [1] * (n + 1)} for n in range(3)]
    examples[1]["sometimes"] = [b"here"]
    write_examples(tmp_path / "in", examples)
    return tmp_path / "in"


def described(folder: Path) -> dict:
    return json.loads((folder / "datum_to_type_and_shape_mapping.json").read_text())


@pytest.fixture
def kinds(tmp_path, photos) -> Path:
    """Write 6 examples with a feature of each kind."""
    examples = []
    for n in range(6):
        rows = n % 3 + 1
        examples.append(
            {
                "scalar": [n],
                "vector": [0.5, float(n), 1.5],
                "tokens": list(range(n + 1)),
                "text": [b"three or more words"],
                "code": [b"\xff\xfe"],
                "words": [b"a"] * (n + 1),
                "fixed": [tf.io.encode_jpeg(photos[n]).numpy()],
                "mixed": [tf.io.encode_png(photos[n][: 20 + n]).numpy()],
                "grey": [tf.io.encode_png(photos[n][:, :, :1]).numpy()],
                "matrix": [float(k) for k in range(2 * rows)],
                "matrix_shape": [rows, 2],
                **({"sometimes": [b"here"]} if n else {}),
            }
        )
    write_examples(tmp_path / "in", examples, suffix="")
    return tmp_path / "in"


def test_each_kind_of_feature_is_described_for_datum(kinds, tmp_path):
    export(kinds, tmp_path / "out")
    assert described(tmp_path / "out") == {
        "scalar": {"type": "int", "shape": [], "dense": True},
        "vector": {"type": "float", "shape": [3], "dense": True},
        "tokens": {"type": "int", "shape": [6], "dense": False},
        "text": {"type": "string", "shape": [], "dense": True},
        "code": {"type": "string", "shape": [], "dense": True},
        "words": {"type": "string", "shape": [6], "dense": False},
        "fixed": {"type": "string", "shape": [40, 48, 3], "dense": True, "sizes": "fixed"},
        "mixed": {"type": "string", "shape": [20, 48, 3], "dense": True, "sizes": "mixed"},
        "grey": {"type": "string", "shape": [40, 48], "dense": True, "sizes": "fixed"},
        "matrix": {"type": "float", "shape": [1, 2], "dense": False},
        "matrix_shape": {"type": "int", "shape": [2], "dense": True},
        "sometimes": {"type": "string", "shape": [1], "dense": False},
    }


def test_datum_reads_the_dataset_from_the_schema_folder(kinds, tmp_path):
    from datum.reader import load

    export(kinds, tmp_path / "out")
    rows = list(load(str(tmp_path / "out"))._read("train").as_numpy_iterator())
    rows.sort(key=lambda row: row["scalar"])
    assert [row["scalar"] for row in rows] == list(range(6))
    assert [row["tokens"].tolist() for row in rows] == [list(range(n + 1)) for n in range(6)]
    assert [row["matrix"].shape for row in rows] == [(n % 3 + 1, 2) for n in range(6)]
    assert [row["mixed"].shape for row in rows] == [(20 + n, 48, 3) for n in range(6)]
    assert {row["grey"].shape for row in rows} == {(40, 48, 1)}
    assert [row["text"] for row in rows] == [b"three or more words"] * 6


def test_json_schema_accepts_examples_of_input_fn(kinds, tmp_path):
    export(kinds, tmp_path / "out")
    schema = json.loads((tmp_path / "out/example.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    parsed = trainer_utils.input_fn(str(tmp_path / "out"), batch_size=None, shuffle=False)
    examples = [{k: listed(v) for k, v in e.items()} for e in parsed.as_numpy_iterator()]
    assert len(examples) == 6
    for example in examples:
        validator.validate(example)
        assert not validator.is_valid({**example, "fixed": listed(np.zeros((40, 47, 3)))})
        assert not validator.is_valid({**example, "mixed": listed(np.full((4, 4, 3), 256))})


def listed(value: object) -> object:
    """Return a value as JSON has it, with bytes as strings of one character per byte."""
    array = np.asarray(value)
    if array.dtype.kind in "OS":
        array = np.vectorize(lambda data: data.decode("latin-1"), otypes=[object])(array)
    return array.tolist()


def tfx_schema(examples: Path, target: Path) -> tuple[Path, Path]:
    """Write statistics and schema with the code of TFX's own components (TFDV)."""
    import tensorflow_data_validation as tfdv

    stats = tfdv.generate_statistics_from_tfrecord(
        str(examples / "Split-train/*"),
        pipeline_options=PipelineOptions([f"--runner={IN_PROCESS_RUNNER}"]),
    )
    (target / "stats/Split-train").mkdir(parents=True)
    (target / "stats/Split-train/FeatureStats.pb").write_bytes(stats.SerializeToString())
    (target / "schema").mkdir()
    tfdv.write_schema_text(tfdv.infer_schema(stats), str(target / "schema/schema.pbtxt"))
    return target / "stats", target / "schema"


def test_schema_and_statistics_of_tfx_are_kept(kinds, tmp_path):
    statistics, schema = tfx_schema(kinds, tmp_path)
    given = text_format.Parse((schema / "schema.pbtxt").read_text(), schema_pb2.Schema())
    made = export(kinds, tmp_path / "out", schema=schema, statistics=statistics)
    by_name = {entry.name: entry for entry in made.feature}
    for entry in given.feature:
        assert by_name[entry.name].presence == entry.presence
        if entry.domain:
            assert by_name[entry.name].domain == entry.domain
    assert by_name["fixed"].HasField("image_domain")
    assert list(made.string_domain) == list(given.string_domain)
    features = parse_features(
        (tmp_path / "out/datum_to_type_and_shape_mapping.json").read_text(), path=""
    )
    back = {entry.name: entry for entry in schema_from_features(features).feature}
    assert back == by_name


def test_given_schema_distinguishes_matrices_from_vectors(stock, tmp_path):
    _, schema = tfx_schema(stock, tmp_path)
    path = schema / "schema.pbtxt"
    message = text_format.Parse(path.read_text(), schema_pb2.Schema())
    entry = next(e for e in message.feature if e.name == "vector")
    entry.ClearField("value_count")
    entry.shape.CopyFrom(schema_pb2.FixedShape())
    entry.shape.dim.add(size=2)
    entry.shape.dim.add(size=1)
    path.write_text(text_format.MessageToString(message))
    export(stock, tmp_path / "out", schema=schema)
    assert described(tmp_path / "out")["vector"]["shape"] == [2, 1]


def test_schema_that_contradicts_the_data_raises_by_feature(kinds, tmp_path, subtests):
    _, schema = tfx_schema(kinds, tmp_path)
    text = (schema / "schema.pbtxt").read_text()
    for name, change in (
        ("sometimes", lambda entry: setattr(entry.presence, "min_fraction", 1.0)),
        ("tokens", lambda entry: setattr(entry.value_count, "max", 5)),
        ("tokens", lambda entry: setattr(entry.value_count, "min", 2)),
        ("vector", lambda entry: entry.shape.dim.add(size=4)),
        ("scalar", lambda entry: setattr(entry, "type", schema_pb2.FLOAT)),
        ("words", lambda entry: entry.shape.SetInParent()),
        ("text", lambda entry: setattr(entry, "name", "other")),
    ):
        with subtests.test(name=name):
            message = text_format.Parse(text, schema_pb2.Schema())
            change(next(entry for entry in message.feature if entry.name == name))
            (schema / "schema.pbtxt").write_text(text_format.MessageToString(message))
            with pytest.raises(DatasetError, match=f"feature '{name}'|feature 'other'"):
                export(kinds, tmp_path / "out", schema=schema)


def test_statistics_of_other_examples_raise(kinds, tmp_path, subtests):
    write_examples(tmp_path / "more", [{"scalar": [n]} for n in range(7)], suffix="")
    write_examples(tmp_path / "kind", [{"scalar": [0.5]}], suffix="")
    write_examples(tmp_path / "name", [{"other": [1]}], suffix="")
    for folder, message in [
        ("more", "split 'train': expected at most its 6 examples in the statistics, got 7"),
        ("kind", "feature 'scalar': expected float as the statistics say, got int"),
        ("name", "feature 'other': expected .*, got none"),
    ]:
        with subtests.test(folder=folder):
            statistics, _ = tfx_schema(tmp_path / folder, tmp_path / f"tfx-{folder}")
            with pytest.raises(DatasetError, match=message):
                export(kinds, tmp_path / "out", statistics=statistics)


def test_limits_of_datum_are_reported_with_the_fix(stock, tmp_path):
    statistics, schema = tfx_schema(stock, tmp_path)
    given = standard_artifacts.Examples(), standard_artifacts.Schema()
    given += (standard_artifacts.ExampleStatistics(),)
    made, dataset = standard_artifacts.Schema(), simple_artifacts.Dataset()
    places = (stock, schema, statistics, tmp_path / "out", tmp_path / "datum")
    for artifact, uri in zip((*given, made, dataset), places, strict=True):
        artifact.uri = str(uri)
    inputs = {n: [one] for n, one in zip(("examples", "schema", "statistics"), given, strict=True)}
    Executor().Do(inputs, {"datum_schema": [made], "datum_dataset": [dataset]}, {"tfds": 0})
    assert (tmp_path / "datum/schema.pbtxt").read_text() == (
        tmp_path / "out/schema.pbtxt"
    ).read_text()
    told = made.get_string_custom_property("datum_limits").split("\n")
    assert [line.partition(":")[0] for line in told] == ["shards", "feature 'sometimes'"]
    features = {
        "raw": Feature(type="string", extra={"encoding": "raw", "image_shape": [2, 2, 3]}),
        "bmp": Feature(type="string", shape=(2, 2, 3), extra={"formats": ["BMP", "JPEG"]}),
        "gaps": Feature(type="string", shape=(2, 2, 3), dense=False),
        "ragged": Feature(type="float", shape=(2, 2), dense=False),
        "good": Feature(type="float", shape=(2, 2)),
    }
    notes = datum_limits(features, ["/a/x"])
    assert [note.split("'")[1] for note in notes] == ["bmp", "gaps", "ragged", "raw"]


@pytest.mark.parametrize("source", ["datum", "tfds"])
def test_tfds_opens_the_exported_dataset(tmp_path, datum_photos, source):
    tfds = pytest.importorskip("tensorflow_datasets", reason="of the extra `bench`")
    balance(Path(datum_photos) if source == "datum" else GOLDEN / "tfds", tmp_path / "examples")
    export(tmp_path / "examples", tmp_path / "schema", tfds=True)
    builder = tfds.builder_from_directory(str(tmp_path / "schema"))
    rows = list(builder.as_dataset(split="train").as_numpy_iterator())
    assert builder.info.splits["train"].num_examples == len(rows)
    if source == "datum":
        assert sorted(row["id"] for row in rows) == list(range(23))
        assert all(row["image"].shape == (40, 48, 3) for row in rows)
    else:
        assert sorted(row["nested/a"] for row in rows) == list(range(20))
        assert {row["image"].shape for row in rows} == {(10, 12, 3), (11, 12, 3)}
        assert builder.info.features["label"].names == ["cat", "dog", "owl"]
    assert len(list(builder.as_dataset(split="train[:50%]"))) == round(len(rows) / 2)
