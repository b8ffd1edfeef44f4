"""`schema.pbtxt` as text: protobuf and TFX's own reader of schemas take it."""

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from trainer_utils.format import Feature
from trainer_utils.format.datum import render_schema_text

FEATURES = {
    "image": Feature(type="string", shape=(4, 5, 3), extra={"sizes": "fixed"}),
    'quo"te\\\n\u00e9\u4e2d': Feature(type="float", shape=(2,)),
    "label": Feature(type="int"),
    "list": Feature(type="int", shape=(7,), dense=False),
}


@pytest.fixture(scope="module")
def schema() -> schema_pb2.Schema:
    text = render_schema_text(FEATURES, vocabularies={"label": ["cat", "d\u00f6g"]})
    assert text.isascii()
    return text_format.Parse(text, schema_pb2.Schema())


def test_protobuf_reads_names_types_and_domains(schema: schema_pb2.Schema) -> None:
    by_name = {entry.name: entry for entry in schema.feature}
    assert [*by_name] == sorted(FEATURES)
    assert by_name["label"].int_domain.max == 1
    assert by_name["label"].int_domain.is_categorical
    assert [*schema.string_domain[0].value] == ["cat", "d\u00f6g"]
    assert by_name["image"].HasField("image_domain")
    assert by_name["list"].value_count.min == 0


def test_transforms_parser_takes_it(schema: schema_pb2.Schema) -> None:
    import tensorflow as tf
    from tensorflow_transform.tf_metadata import schema_utils

    spec = schema_utils.schema_as_feature_spec(schema).feature_spec
    assert spec["image"] == tf.io.FixedLenFeature([], tf.string)
    assert spec['quo"te\\\n\u00e9\u4e2d'] == tf.io.FixedLenFeature([2], tf.float32)
    assert spec["list"] == tf.io.VarLenFeature(tf.int64)
