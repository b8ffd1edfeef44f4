"""Encoded examples against the protocol buffer library."""

import contextlib

import google.protobuf
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from trainer_utils.format import DatasetError, encode_example
from trainer_utils.format.example import bytes_features

INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(width=32)
BYTES = st.binary(max_size=300)
VALUES = st.one_of(
    INTS, FLOATS, BYTES, st.lists(INTS, max_size=5), st.lists(FLOATS, max_size=5), st.lists(BYTES)
)
LISTS = {int: "int64_list", float: "float_list", bytes: "bytes_list"}


def by_protobuf(features) -> bytes:
    example = tf.train.Example()
    for name, value in features.items():
        values = value if isinstance(value, list) else [value]
        if values:
            feature = example.features.feature[name]
            getattr(feature, LISTS[type(values[0])]).value.extend(values)
    return example.SerializeToString(deterministic=True)


@given(st.dictionaries(st.text(max_size=20), VALUES, max_size=6))
def test_examples_are_the_bytes_of_the_protocol_buffer_library(features):
    expected, encoded = by_protobuf(features), b"".join(encode_example(features))
    read = [tf.train.Example.FromString(data) for data in (encoded, expected)]
    assert len({example.SerializeToString(deterministic=True) for example in read}) == 1
    # Newer ones sort by more than the name.
    sorts_by_name = google.protobuf.__version__.startswith("3.")
    if sorts_by_name and any(value != [] for value in features.values()):
        assert encoded == expected


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 2_097_152])
def test_lengths_of_every_width_are_encoded(size):
    features = {"image": bytes(size), "label": size}
    assert b"".join(encode_example(features)) == by_protobuf(features)


def test_a_large_value_is_not_copied():
    image = bytes(1 << 20)
    assert any(part is image for part in encode_example({"a": 1, "image": image, "z": b"z"}))


@given(st.dictionaries(st.text(max_size=20), VALUES, max_size=6))
def test_bytes_are_read_from_what_the_protocol_buffer_library_wrote(features):
    expected = {}
    for name, value in features.items():
        values = value if isinstance(value, list) else [value]
        if values:
            expected[name] = values if isinstance(values[0], bytes) else []
    found = bytes_features(by_protobuf(features))
    assert {name: list(map(bytes, values)) for name, values in found.items()} == expected


def test_unpacked_numbers_and_unknown_fields_are_passed_over():
    record = by_protobuf({"a": [1, 2], "b": b"x"})
    unknown = b"\x18\x96\x01" + b"\x21" + bytes(8) + b"\x2d" + bytes(4) + b"\x32\x01y"
    assert list(map(bytes, bytes_features(record + unknown)["b"])) == [b"x"]


@pytest.mark.parametrize(
    "record",
    [b"\x0a", b"\x0a\x05ab", b"no example", b"\xff" * 12, b"\x0b\x0a", b"\x0a\x04\x0a\x02\x0a\x7f"],
    ids=["no length", "cut", "text", "endless number", "group", "cut inside"],
)
def test_other_bytes_are_refused(record):
    with pytest.raises(DatasetError, match=r"expected a tf\.train\.Example"):
        bytes_features(record)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(record):
    with contextlib.suppress(DatasetError):
        bytes_features(record)
