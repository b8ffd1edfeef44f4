"""Batches of examples against the protocol buffer library, TensorFlow's parser and its reader."""

from typing import Any

import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from components.example_gen.row_pieces import encode_batch

INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(width=32)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
BYTES = st.binary(max_size=300)
KINDS = {
    "int": (INTS, pa.int64()),
    "float": (FLOATS, pa.float32()),
    "string": (TEXTS, pa.string()),
    "binary": (BYTES, pa.binary()),
}
LISTS = {int: "int64_list", float: "float_list", bytes: "bytes_list"}
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)

Table = tuple[list[dict[str, list[Any]]], dict[str, Any]]


@st.composite
def tables(draw) -> Table:
    """Rows of lists, and the same as Arrow arrays; some of these are slices of longer ones."""
    rows = draw(st.integers(0, 8))
    columns: dict[str, Any] = {}
    values: dict[str, list[list[Any]]] = {}
    for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        strategy, kind = KINDS[draw(st.sampled_from(sorted(KINDS)))]
        before, after = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        if draw(st.booleans()):
            strategy, kind = st.lists(strategy, max_size=4), pa.list_(kind)
        size = rows + before + after
        drawn = draw(st.lists(st.none() | strategy, min_size=size, max_size=size))
        columns[name] = pa.array(drawn, kind).slice(before, rows)
        values[name] = [as_list(value) for value in drawn[before : before + rows]]
    return [{name: values[name][row] for name in values} for row in range(rows)], columns


def as_list(value: Any) -> list[Any]:
    """What an example keeps: nothing of a null, and bytes of a text."""
    parts = [] if value is None else value if isinstance(value, list) else [value]
    return [part.encode() if isinstance(part, str) else part for part in parts]


def by_protobuf(features: dict[str, list[Any]]) -> bytes:
    """By the library, a feature at a time: its versions order the features in different ways."""
    entries = b""
    for name in sorted(features, key=str.encode):
        if features[name]:
            values = {LISTS[type(features[name][0])]: {"value": features[name]}}
            one = tf.train.Features(feature={name: tf.train.Feature(**values)})
            entries += one.SerializeToString()
    # A message in field 1 is the same bytes as a string there.
    return tf.train.BytesList(value=[entries]).SerializeToString() if entries else b""


@given(tables())
def test_examples_are_the_bytes_of_the_protocol_buffer_library(table):
    rows, columns = table
    assert encode_batch(columns).to_pylist() == [by_protobuf(row) for row in rows]


# Every width of the lengths that stand before a text, its list, its feature and its map entry.
@pytest.mark.parametrize("around", [0, 127, 16_384, 2_097_151])
def test_lengths_of_every_width_are_encoded(around):
    sizes = [max(0, around + step) for step in range(-24, 2)]
    texts = [b"x" * size for size in sizes]
    lists = [[text, b""] for text in texts] if around < 1 << 20 else [[b""]] * len(texts)
    columns = {
        "text": pa.array(texts, pa.binary()),
        "list": pa.array(lists, pa.list_(pa.binary())),
        "size": pa.array(sizes, pa.int64()),
    }
    rows = [
        {"text": [text], "list": values, "size": [size]}
        for text, values, size in zip(texts, lists, sizes, strict=True)
    ]
    assert encode_batch(columns).to_pylist() == [by_protobuf(row) for row in rows]
