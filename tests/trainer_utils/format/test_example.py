"""Encoded examples against the protocol buffer library."""

import google.protobuf
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from trainer_utils.format import encode_example

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


def test_lengths_of_every_width_are_encoded():
    for size in (0, 1, 127, 128, 16_383, 16_384, 2_097_152):
        features = {"image": bytes(size), "label": size}
        assert b"".join(encode_example(features)) == by_protobuf(features)


def test_a_large_value_is_not_copied():
    image = bytes(1 << 20)
    assert any(part is image for part in encode_example({"a": 1, "image": image, "z": b"z"}))
