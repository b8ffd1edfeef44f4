"""Plain values of nodes: times by `datetime`, properties by protobuf's own JSON."""

import datetime
import json

import pytest
from google.protobuf import struct_pb2
from ml_metadata.proto import metadata_store_pb2

from pipelines.lineage.values import one_line, properties_of, time_of


@pytest.mark.parametrize("milliseconds", [1, 999, 1_000, 1_795_269_832_357, 4_102_444_800_000])
def test_a_time_is_read_back_by_datetime(milliseconds):
    text = time_of(milliseconds)
    moment = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z")
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    assert (moment - epoch) / datetime.timedelta(milliseconds=1) == milliseconds


def test_0_is_an_unknown_time():
    assert time_of(0) is None


def test_properties_of_every_kind():
    struct = struct_pb2.Struct()
    struct.update({"a": [1, "b"], "c": None})
    node = metadata_store_pb2.Artifact()
    node.properties["n"].int_value = 3
    node.properties["x"].double_value = 0.5
    node.properties["empty"].SetInParent()
    node.custom_properties["json"].string_value = json.dumps({"k": [1]})
    node.custom_properties["text"].string_value = "[no json"
    node.custom_properties["struct"].struct_value.CopyFrom(struct)
    node.custom_properties["__hidden__"].string_value = "TFX's own"
    assert properties_of(node) == {
        "empty": None,
        "json": {"k": [1]},
        "n": 3,
        "struct": {"a": [1.0, "b"], "c": None},
        "text": "[no json",
        "x": 0.5,
    }


def test_one_line_cuts_what_is_long():
    assert one_line({"a": 1, "b": "x\ny", "c": [1, "é"]}) == 'a=1, b=x y, c=[1, "é"]'
    assert one_line({"a": "x" * 100}) == "a=" + "x" * 100
    assert one_line({"a": "x" * 101}) == "a=" + "x" * 97 + "..."
