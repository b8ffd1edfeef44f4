"""SchemaExport and the schemas it makes."""

import json
from pathlib import Path

import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx.types import standard_artifacts

from components.common.tfmd import features_from_schema, schema_from_features
from components.schema_export.executor import Executor
from trainer_utils.format import DatasetError, Feature

LISTS = {int: "int64_list", float: "float_list", bytes: "bytes_list"}


def write_examples(folder: Path, examples: list[dict]) -> None:
    (folder / "Split-train").mkdir(parents=True)
    path = folder / "Split-train/data_tfrecord-00000-of-00001.gz"
    with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions("GZIP")) as writer:
        for values in examples:
            example = tf.train.Example()
            for name, value in values.items():
                feature = example.features.feature[name]
                getattr(feature, LISTS[type(value[0])]).value.extend(value)
            writer.write(example.SerializeToString())


def export(examples: Path, target: Path, schema: Path | None = None) -> schema_pb2.Schema:
    given, made = standard_artifacts.Examples(), standard_artifacts.Schema()
    given.uri, made.uri = str(examples), str(target)
    inputs = {"examples": [given]}
    if schema is not None:
        artifact = standard_artifacts.Schema()
        artifact.uri = str(schema)
        inputs["schema"] = [artifact]
    Executor().Do(inputs, {"datum_schema": [made]}, {})
    return text_format.Parse((target / "schema.pbtxt").read_text(), schema_pb2.Schema())


@pytest.fixture
def stock(tmp_path) -> Path:
    """A scalar, a vector, a list of any length, and one that is not in every example."""
    examples = [{"id": [n], "vector": [0.5, float(n)], "tokens": [1] * (n + 1)} for n in range(3)]
    examples[1]["sometimes"] = [b"here"]
    write_examples(tmp_path / "in", examples)
    return tmp_path / "in"


def test_features_are_worked_out_from_all_examples(stock, tmp_path):
    export(stock, tmp_path / "out")
    mapping = (tmp_path / "out/datum_to_type_and_shape_mapping.json").read_text()
    assert json.loads(mapping) == {
        "id": {"type": "int", "shape": [], "dense": True},
        "vector": {"type": "float", "shape": [2], "dense": True},
        "tokens": {"type": "int", "shape": [3], "dense": False},
        "sometimes": {"type": "string", "shape": [1], "dense": False},
    }


def test_the_schema_says_which_features_are_fixed(stock, tmp_path):
    schema = export(stock, tmp_path / "out")
    by_name = {feature.name: feature for feature in schema.feature}
    assert by_name["id"].type == schema_pb2.INT
    assert by_name["id"].HasField("shape")
    assert [dim.size for dim in by_name["vector"].shape.dim] == [2]
    assert not by_name["tokens"].HasField("shape")


def test_shards_are_found_from_the_schemas_own_folder(stock, tmp_path):
    export(stock, tmp_path / "out")
    info = json.loads((tmp_path / "out/shard_info.json").read_text())
    ((path, records),) = info["train"].items()
    assert records == 3
    assert (tmp_path / "out" / path).resolve().is_file()


def test_a_schema_that_disagrees_is_refused_by_feature(stock, tmp_path):
    types = {"id": "INT", "vector": "FLOAT", "tokens": "BYTES", "sometimes": "BYTES"}
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema/schema.pbtxt").write_text(
        "".join(f'feature {{ name: "{name}" type: {kind} }}\n' for name, kind in types.items())
    )
    with pytest.raises(DatasetError, match="feature 'tokens': expected string"):
        export(stock, tmp_path / "out", tmp_path / "schema")


def test_features_survive_the_way_to_tfmd_and_back():
    features = {
        "scalar": Feature(type="int"),
        "matrix": Feature(type="float", shape=(2, 3)),
        "words": Feature(type="string", dense=False),
    }
    assert features_from_schema(schema_from_features(features)) == features
