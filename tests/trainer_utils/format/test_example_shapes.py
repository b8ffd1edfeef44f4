"""What examples hold, counted without decoding them: against TensorFlow's own parser."""

import collections
import io
import random
from typing import Any

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from trainer_utils.format import DatasetError, frame_records, read_blocks
from trainer_utils.format.example_shapes import KINDS, scan_examples

LISTS = {"int": "int64_list", "float": "float_list", "string": "bytes_list"}
VALUES = st.one_of(
    st.tuples(st.just("int"), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=200)),
    st.tuples(st.just("float"), st.lists(st.floats(width=32), max_size=200)),
    st.tuples(st.just("string"), st.lists(st.binary(max_size=200), max_size=40)),
    st.none(),
)
EXAMPLES = st.lists(
    st.dictionaries(st.text(max_size=140), VALUES, max_size=5), min_size=1, max_size=6
)


def feature(value: Any) -> tf.train.Feature:
    made = tf.train.Feature()
    if value is not None:
        kind, values = value
        getattr(made, LISTS[kind]).SetInParent()
        getattr(made, LISTS[kind]).value.extend(values)
    return made


def scan(records: list[bytes]) -> Any:
    (block,) = read_blocks(io.BytesIO(frame_records(records)), path="x")
    return scan_examples(block)


def counted(records: list[bytes]) -> dict[tuple[str, str], list[int]]:
    """How many values each feature has, by TensorFlow's parser."""
    counts: dict[tuple[str, str], list[int]] = collections.defaultdict(list)
    for record in records:
        for name, value in tf.train.Example.FromString(record).features.feature.items():
            for kind, key in LISTS.items():
                if value.WhichOneof("kind") == key:
                    counts[name, kind].append(len(getattr(value, key).value))
    return dict(counts)


def found(records: list[bytes]) -> dict[tuple[str, str], list[int]]:
    columns = scan(records).features
    return {(n.decode(), KINDS[k]): c.counts for (n, k), c in columns.items() if c.counts}


@given(EXAMPLES)
def test_values_are_counted_as_tensorflow_parses_them(examples):
    records = []
    for example in examples:
        made = tf.train.Example()
        for name, value in example.items():
            made.features.feature[name].CopyFrom(feature(value))
        records.append(made.SerializeToString())
    assert found(records) == counted(records)
    texts = [
        value
        for example in examples
        for kind, values in filter(None, example.values())
        if kind == "string"
        for value in values
    ]
    columns = scan(records).features.values()
    assert sorted(v for c in columns for v in c.values) == sorted(texts)


def field(number: int, content: bytes) -> bytes:
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


INTS, FLOATS = field(3, field(1, b"\x07\x08")), field(2, field(1, bytes(8)))
ONE = field(1, field(1, b"a") + field(2, INTS))
# Written as protocol buffers may be, and as TensorFlow never does.
UNUSUAL = {
    "the value first": field(1, field(1, field(2, INTS) + field(1, b"a"))),
    "twice the same name": field(1, ONE + field(1, field(1, b"a") + field(2, field(3, b"")))),
    "features in two parts": field(1, ONE) + field(1, field(1, field(1, b"b") + field(2, FLOATS))),
    "numbers one by one": field(
        1, field(1, field(1, b"a") + field(2, field(3, b"\x08\x07\x08\x80\x01")))
    ),
    "floats one by one": field(
        1, field(1, field(1, b"a") + field(2, field(2, b"\x0d\0\0\0\0\x0d\0\0\0\0")))
    ),
    "a field that nobody knows": field(9, b"?") + field(1, ONE),
    "a kind that nobody knows": field(1, field(1, field(1, b"a") + field(2, field(7, b"?")))),
    "no name": field(1, field(1, field(2, INTS))),
    "no value": field(1, field(1, field(1, b"a"))),
    "the last kind counts": field(1, field(1, field(1, b"a") + field(2, INTS + FLOATS))),
    "nothing": b"",
    "no features": field(1, b""),
}


@pytest.mark.parametrize("record", UNUSUAL.values(), ids=UNUSUAL)
def test_what_is_written_otherwise_is_read_as_tensorflow_reads_it(record):
    usual = tf.train.Example()
    usual.features.feature["a"].int64_list.value.extend([1, 2, 3])
    records = [usual.SerializeToString(), record, usual.SerializeToString()]
    assert found(records) == counted(records)


def test_any_damage_is_our_error_or_read_as_tensorflow_reads_it():
    made = tf.train.Example()
    made.features.feature["image"].bytes_list.value.extend([b"x" * 200, b"y"])
    made.features.feature["label"].int64_list.value.extend([3, -1, 2**40])
    made.features.feature["weight"].float_list.value.extend([0.5, 1.5])
    good = made.SerializeToString(deterministic=True)
    source = random.Random(0)
    read = refused = 0
    for _ in range(3000):
        bad = bytearray(good)
        for _ in range(source.randrange(1, 3)):
            bad[source.randrange(len(bad))] = source.randrange(256)
        del bad[source.choice([len(bad), source.randrange(len(bad))]) :]
        try:
            mine = found([bytes(bad)])
        except (DatasetError, UnicodeDecodeError):
            refused += 1
            continue
        try:
            theirs = counted([bytes(bad)])
        except Exception:  # of things beside the values, such as a group without its end
            continue
        if any(name == "" for name, _ in mine):
            # An entry whose key became an unknown field: C++ gives it an empty key, as we do, and
            # protobuf 4 and newer in Python set the whole entry aside.
            continue
        read += 1
        assert mine == theirs, bytes(bad)
    assert read > 500 < refused


def test_lists_of_a_sequence_example_are_counted_by_step():
    made = tf.train.SequenceExample()
    made.context.feature["id"].int64_list.value.append(1)
    for length in (3, 0, 2):
        made.feature_lists.feature_list["frames"].feature.add().float_list.value.extend(
            [0.5] * length
        )
    columns = scan([made.SerializeToString()] * 2)
    assert {(n, KINDS[k]): c.counts for (n, k), c in columns.features.items()} == {
        (b"id", "int"): [1, 1]
    }
    assert {(n, KINDS[k]): c.counts for (n, k), c in columns.lists.items()} == {
        (b"frames", "float"): [3, 0, 2] * 2
    }


def test_what_is_no_example_is_named_with_its_byte():
    with pytest.raises(DatasetError, match=r"expected a tf\.train\.Example.*\(byte 16\)"):
        scan([b"", b"\xff\xff\xff not a message"])
