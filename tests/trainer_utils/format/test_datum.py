"""Test Datum's JSON with Datum as the reader, and `schema.pbtxt` with protobuf and TFT."""

import json

import pytest

from trainer_utils.core.errors import DatasetError
from trainer_utils.format import Feature, parse_shard_info
from trainer_utils.format.datum import (
    parse_features,
    render_features,
    render_schema_text,
    render_shard_info,
)

FEATURES = {
    "image": Feature(type="string", shape=(480, 640, 3), extra={"sizes": "mixed"}),
    "boxes": Feature(type="float", shape=(3, 4), dense=False),
    "label": Feature(type="int", extra={"num_classes": 5}),
}
SHARDS = {"train": {"Split-train/b": 3, "Split-train/a": 4}, "eval": {}}


def test_features_and_shards_survive_a_round_trip():
    assert parse_features(render_features(FEATURES), path="x") == FEATURES
    read = parse_shard_info(render_shard_info(SHARDS), path="x")
    assert (read, [*read["train"]]) == (SHARDS, ["Split-train/b", "Split-train/a"])


def test_datum_reads_the_features(tmp_path):
    pytest.importorskip("datum")  # not installed by `make test-trainer`
    from datum.reader.parser import DatumParser

    path = tmp_path / "datum_to_type_and_shape_mapping.json"
    path.write_text(render_features(FEATURES))
    read = DatumParser(str(tmp_path)).datum_to_type_shape
    assert {name: (e["type"], e["shape"], e["dense"]) for name, e in read.items()} == {
        "image": ("string", [480, 640, 3], True),
        "boxes": ("float", [3, 4], False),
        "label": ("int", [], True),
    }


def test_invalid_features_and_shards_raise_with_the_path(subtests):
    good = {"type": "int", "shape": [], "dense": True}
    wrong = [3, {}, {"type": "int", "shape": [], "dens": True}]
    wrong += [{**good, **change} for change in ({"type": "double"}, {"shape": 3}, {"shape": ["a"]})]
    features = ([], None, *({"x": one} for one in wrong))
    shards = ([], {"train": 3}, {"train": {"a": "3"}}, {"train": {"a": -1}})
    for parse, values in ((parse_features, features), (parse_shard_info, shards)):
        with subtests.test(parse=parse):
            for value in values:
                with pytest.raises(DatasetError, match="some/path"):
                    parse(json.dumps(value), path="some/path")


def test_protobuf_and_transform_parse_the_schema():
    text_format = pytest.importorskip("google.protobuf.text_format")
    schema_pb2 = pytest.importorskip("tensorflow_metadata.proto.v0.schema_pb2")
    schema_utils = pytest.importorskip("tensorflow_transform.tf_metadata.schema_utils")
    import tensorflow as tf

    features = {
        "image": Feature(type="string", shape=(4, 5, 3), extra={"sizes": "fixed"}),
        'quo"te\\\n\u00e9\u4e2d': Feature(type="float", shape=(2,)),
        "label": Feature(type="int"),
        "list": Feature(type="int", shape=(7,), dense=False),
    }
    labels = ["cat", "d\u00f6g", "'\"\t\r\x01"]
    text = render_schema_text(features, vocabularies={"label": labels})
    schema = text_format.Parse(text, schema_pb2.Schema())
    assert text_format.MessageToString(schema) == text
    by_name = {entry.name: entry for entry in schema.feature}
    assert [*by_name] == sorted(features)
    assert by_name["label"].int_domain.max == 2
    assert by_name["label"].int_domain.is_categorical
    assert [*schema.string_domain[0].value] == labels
    assert by_name["image"].HasField("image_domain")
    assert by_name["list"].value_count.min == 0
    spec = schema_utils.schema_as_feature_spec(schema).feature_spec
    assert spec["image"] == tf.io.FixedLenFeature([], tf.string)
    assert spec['quo"te\\\n\u00e9\u4e2d'] == tf.io.FixedLenFeature([2], tf.float32)
    assert spec["list"] == tf.io.VarLenFeature(tf.int64)
