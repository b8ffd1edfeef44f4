"""Decoded examples against the protocol buffer library."""

import contextlib
import math

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from trainer_utils.format import DatasetError
from trainer_utils.format.example import decode_example

INTEGERS = st.integers(-(2**63), 2**63 - 1)
VALUES = st.one_of(
    st.lists(INTEGERS, max_size=5),
    st.lists(st.floats(width=32), max_size=5),
    st.lists(st.binary(max_size=300), max_size=5),
)
LISTS = {int: "int64_list", float: "float_list", bytes: "bytes_list"}


def by_protobuf(features) -> bytes:
    example = tf.train.Example()
    for name, values in features.items():
        feature = example.features.feature[name]
        for value in values:
            getattr(feature, LISTS[type(value)]).value.append(value)
    return example.SerializeToString(deterministic=True)


def plain(values):
    """Values that can be compared: of bytes, not of views; a NaN equal to another."""
    values = [bytes(value) if isinstance(value, memoryview) else value for value in values]
    return ["nan" if isinstance(v, float) and math.isnan(v) else v for v in values]


@given(st.dictionaries(st.text(max_size=20), VALUES, min_size=1, max_size=6), st.data())
def test_only_the_wanted_features_are_decoded(features, data):
    names = data.draw(st.sets(st.sampled_from(sorted(features))))
    found = decode_example(by_protobuf(features), names)
    assert {n: plain(v) for n, v in found.items()} == {n: plain(features[n]) for n in names}


def message(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def example_of(feature: bytes) -> bytes:
    return message(1, message(1, message(1, b"x") + message(2, feature)))


@pytest.mark.parametrize(
    "record",
    [
        b"\x0a",
        b"\x0a\x05ab",
        b"no example",
        b"\xff" * 12,
        b"\x0b\x0a",
        b"\x0a\x04\x0a\x02\x0a\x7f",
        example_of(message(2, message(1, b"abc"))),
    ],
    ids=["no length", "cut", "text", "endless number", "group", "cut inside", "cut float"],
)
def test_other_bytes_are_refused(record):
    with pytest.raises(DatasetError, match=r"expected a tf\.train\.Example"):
        decode_example(record)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(record):
    with contextlib.suppress(DatasetError):
        decode_example(record)
