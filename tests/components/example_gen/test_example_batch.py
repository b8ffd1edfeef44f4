"""Test batches of examples against the protobuf library and TensorFlow's parser and reader."""

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
    """Draw rows of lists and the equal Arrow arrays, including slices of longer arrays."""
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
    """Return the values that an example stores: none for a null, bytes for a string."""
    parts = [] if value is None else value if isinstance(value, list) else [value]
    return [part.encode() if isinstance(part, str) else part for part in parts]


def by_protobuf(features: dict[str, list[Any]]) -> bytes:
    """Serialize an example with the protobuf library, one feature at a time.

    Versions of the library order the features of a map differently.
    """
    entries = b""
    for name in sorted(features, key=str.encode):
        if features[name]:
            values = {LISTS[type(features[name][0])]: {"value": features[name]}}
            one = tf.train.Features(feature={name: tf.train.Feature(**values)})
            entries += one.SerializeToString()
    # A message in field 1 has the same bytes as a string in field 1.
    return tf.train.BytesList(value=[entries]).SerializeToString() if entries else b""


@given(tables())
def test_examples_equal_the_protobuf_librarys_bytes(table):
    rows, columns = table
    assert encode_batch(columns).to_pylist() == [by_protobuf(row) for row in rows]


# Every width of the length prefix of a string, its list, its feature and its map entry.
@pytest.mark.parametrize("around", [0, 127, 16_384, 2_097_151])
def test_length_prefixes_of_every_width_are_encoded(around):
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
