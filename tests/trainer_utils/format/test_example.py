"""Test encoding and decoding of examples against the protocol buffer library."""

import contextlib
import math

import google.protobuf
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from trainer_utils.core.errors import DatasetError
from trainer_utils.format import encode_example
from trainer_utils.format.example import decode_example

INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(width=32)
BYTES = st.binary(max_size=300)
VALUE_LISTS = st.one_of(*(st.lists(kind, max_size=5) for kind in (INTS, FLOATS, BYTES)))
VALUES = st.one_of(INTS, FLOATS, BYTES, VALUE_LISTS)
LISTS = {int: "int64_list", float: "float_list", bytes: "bytes_list"}


def by_protobuf(features, *, keeps_empty: bool = False) -> bytes:
    example = tf.train.Example()
    for name, value in features.items():
        values = value if isinstance(value, list) else [value]
        if values or keeps_empty:
            feature = example.features.feature[name]
            for one in values:
                getattr(feature, LISTS[type(one)]).value.append(one)
    return example.SerializeToString(deterministic=True)


@given(st.dictionaries(st.text(max_size=20), VALUES, max_size=6))
def test_encoding_matches_the_protocol_buffer_library(features):
    expected, encoded = by_protobuf(features), b"".join(encode_example(features))
    read = [tf.train.Example.FromString(data) for data in (encoded, expected)]
    assert len({example.SerializeToString(deterministic=True) for example in read}) == 1
    # Newer versions sort by more than the name.
    sorts_by_name = google.protobuf.__version__.startswith("3.")
    if sorts_by_name and any(value != [] for value in features.values()):
        assert encoded == expected


def test_lengths_of_every_varint_size_are_encoded(subtests):
    for size in (0, 1, 127, 128, 16_383, 16_384, 2_097_152):
        with subtests.test(size=size):
            features = {"image": bytes(size), "label": size}
            assert b"".join(encode_example(features)) == by_protobuf(features)


def test_large_value_is_not_copied():
    image = bytes(1 << 20)
    assert any(part is image for part in encode_example({"a": 1, "image": image, "z": b"z"}))


def plain(values):
    """Return comparable values: bytes instead of views, and NaN equal to another NaN."""
    values = [bytes(value) if isinstance(value, memoryview) else value for value in values]
    return ["nan" if isinstance(v, float) and math.isnan(v) else v for v in values]


@given(st.dictionaries(st.text(max_size=20), VALUE_LISTS, min_size=1, max_size=6), st.data())
def test_only_the_wanted_features_are_decoded(features, data):
    names = data.draw(st.sets(st.sampled_from(sorted(features))))
    found = decode_example(by_protobuf(features, keeps_empty=True), names)
    assert {n: plain(v) for n, v in found.items()} == {n: plain(features[n]) for n in names}


@given(st.binary(max_size=60))
def test_arbitrary_bytes_decode_or_raise_dataset_error(record):
    with pytest.raises(DatasetError, match=r"expected a tf\.train\.Example"):
        decode_example(b"no example")
    with contextlib.suppress(DatasetError):
        decode_example(record)
