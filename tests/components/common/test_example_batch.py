"""Batches of examples against the protocol buffer library, TensorFlow's parser and its reader."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from components.common.example_batch import encode_batch, frame_batch

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


def test_tensorflow_reads_the_frames_and_parses_the_examples(tmp_path):
    columns = {
        "n": pa.array([1, -1, 2**63 - 1], pa.int64()),
        "x": pa.array([0.5, float("inf"), -0.0], pa.float32()),
        "text": pa.array(["straße", "", "\0"], pa.string()),
        "ids": pa.array([[1, 300], None, []], pa.list_(pa.int64())),
        "weights": pa.array([[0.25], [1.5, 2.5], None], pa.list_(pa.float32())),
        "words": pa.array([["a", ""], [], ["é"]], pa.list_(pa.string())),
    }
    path = tmp_path / "records"
    path.write_bytes(b"".join(frame_batch(encode_batch(columns)).to_pylist()))
    records = list(tf.data.TFRecordDataset(str(path)))
    spec = {
        "n": tf.io.FixedLenFeature([], tf.int64),
        "x": tf.io.FixedLenFeature([], tf.float32),
        "text": tf.io.FixedLenFeature([], tf.string),
        "ids": tf.io.RaggedFeature(tf.int64),
        "weights": tf.io.RaggedFeature(tf.float32),
        "words": tf.io.RaggedFeature(tf.string),
    }
    parsed = tf.io.parse_example(records, spec)
    assert parsed["n"].numpy().tolist() == [1, -1, 2**63 - 1]
    assert parsed["x"].numpy().view(np.int32).tolist() == [0x3F000000, 0x7F800000, -(2**31)]
    assert parsed["text"].numpy().tolist() == ["straße".encode(), b"", b"\0"]
    assert parsed["ids"].to_list() == [[1, 300], [], []]
    assert parsed["weights"].to_list() == [[0.25], [1.5, 2.5], []]
    assert parsed["words"].to_list() == [[b"a", b""], [], ["é".encode()]]


# Every width of the lengths that stand before a text, its list, its feature and its map entry.
@pytest.mark.parametrize("around", [0, 64, 127, 128, 16_383, 16_384, 2_097_151])
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
