"""Test columns of serialized examples, together and one by one, against TensorFlow's parser."""

import random

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from trainer_utils.core.errors import DatasetError
from trainer_utils.format import example_columns
from trainer_utils.format.example_columns import find_lists, parse_examples, parse_feature_lists
from trainer_utils.format.varints import VarintList

LISTS = {"int": "int64_list", "float": "float_list", "string": "bytes_list"}
INTEGERS = st.sampled_from([0, 1, -1, 127, 128, 2**40, -(2**63), 2**63 - 1])
VALUES = {
    "int": st.lists(INTEGERS | st.integers(-(2**63), 2**63 - 1), max_size=40),
    "float": st.lists(st.floats(width=32, allow_nan=False), max_size=40),
    "string": st.lists(st.binary(max_size=200), max_size=15),
}
NAMES = {"n": "int", "longer" * 30: "int", "x": "float", "s": "string", "é": "string"}
EXAMPLES = st.lists(
    st.fixed_dictionaries({}, optional={n: VALUES[kind] for n, kind in NAMES.items()}),
    min_size=1,
    max_size=20,
)


def example_of(values):
    made = tf.train.Example()
    for name, found in values.items():
        kind = getattr(made.features.feature[name], LISTS[NAMES[name]])
        kind.SetInParent()
        kind.value.extend(found)
    return made.SerializeToString()


def bounds(records):
    ends = np.cumsum([len(record) for record in records], dtype=np.int64)
    return b"".join(records), ends - [len(record) for record in records], ends


def found(records, names=None, **settings):
    columns = parse_examples(*bounds(records), names, **settings)
    return {
        name: (column.kind, column.counts.tolist(), [*map(plain, column.values)])
        for name, column in columns.items()
        if column.counts.any()
    }


def plain(value):
    return bytes(value) if isinstance(value, (bytes, memoryview)) else value.item()


def by_tensorflow(records):
    parsed = [tf.train.Example.FromString(record).features.feature for record in records]
    columns = {}
    for name in dict.fromkeys(name for one in parsed for name in one):
        lists = [(one[name].WhichOneof("kind"), one[name]) for one in parsed]
        values = [[*getattr(one, kind).value] if kind else [] for kind, one in lists]
        kinds = {kind for kind, _ in lists} & {*LISTS.values()}
        if any(values):
            (kind,) = (short for short, kind in LISTS.items() if kind in kinds)
            columns[name] = (kind, [*map(len, values)], [v for own in values for v in own])
    return columns


@pytest.mark.parametrize("is_general", [False, True])
@given(EXAMPLES)
def test_columns_match_tensorflow(is_general, examples):
    records = [*map(example_of, examples)]
    with pytest.MonkeyPatch.context() as patch:
        if is_general:
            patch.setattr(example_columns, "_walk", lambda *_: [][0])
        assert found(records) == by_tensorflow(records)
        wanted = ["n", "s", "absent"]
        expected = {n: c for n, c in by_tensorflow(records).items() if n in wanted}
        assert found(records, wanted, views=["s"]) == expected
        assert not parse_examples(*bounds(records), ["absent"])["absent"].counts.any()


@given(EXAMPLES)
def test_lists_are_found_where_numbers_are_packed(examples):
    records = [*map(example_of, examples)]
    buffer, begins, ends = bounds(records)
    for name, kind in NAMES.items():
        column = parse_examples(buffer, begins, ends, [name])[name]
        lists = find_lists(buffer, begins, ends, name)
        if kind == "string" and column.kind:
            assert lists is None
        if lists is None or not lists.kind:
            assert not column.counts.any() or kind == "string"
            continue
        assert lists.kind == kind
        for row, (begin, end) in enumerate(zip(lists.begins, lists.ends, strict=True)):
            data = np.frombuffer(buffer, np.uint8)[begin:end]
            own = data.view("<f4") if kind == "float" else VarintList(data).part(0, 100)
            start = column.counts[:row].sum()
            np.testing.assert_array_equal(own, column.values[start : start + column.counts[row]])


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


INTS, FLOATS = field(3, field(1, b"\x07\x08")), field(2, field(1, bytes(8)))
ONE = field(1, field(1, b"n") + field(2, INTS))
# Valid protocol buffers that TensorFlow never writes.
UNUSUAL = {
    "the value first": field(1, field(1, field(2, INTS) + field(1, b"n"))),
    "twice the same name": field(1, ONE + field(1, field(1, b"n") + field(2, field(3, b"")))),
    "features in two parts": field(1, ONE) + field(1, field(1, field(1, b"b") + field(2, FLOATS))),
    "numbers one by one": field(
        1, field(1, field(1, b"n") + field(2, field(3, b"\x08\x07\x08\x80\x01")))
    ),
    "floats one by one": field(
        1, field(1, field(1, b"x") + field(2, field(2, b"\x0d\0\0\0\0\x0d\0\0\0\0")))
    ),
    "a field that nobody knows": field(9, b"?") + field(1, ONE),
    "a kind that nobody knows": field(1, field(1, field(1, b"n") + field(2, field(7, b"?")))),
    "no name": field(1, field(1, field(2, INTS))),
    "no value": field(1, field(1, field(1, b"n"))),
    "the last kind counts": field(1, field(1, field(1, b"x") + field(2, INTS + FLOATS))),
    "nothing": b"",
    "no features": field(1, b""),
}


def test_numbers_of_unusual_encodings_are_not_located(subtests):
    usual = example_of({"n": [1, 2, 3]})
    for what, record in UNUSUAL.items():
        with subtests.test(what=what):
            lists = find_lists(*bounds([usual, record]), "n")
            if lists is not None:
                n = parse_examples(*bounds([usual, record]), ["n"])["n"]
                assert ((lists.ends - lists.begins) == n.counts).all()  # a byte a number


def test_unusual_encodings_match_tensorflow(subtests):
    usual = example_of({"n": [1, 2, 3]})
    for what, record in UNUSUAL.items():
        with subtests.test(what=what):
            assert found([usual, record, usual]) == by_tensorflow([usual, record, usual]), what


def test_damaged_examples_raise_or_match_tensorflow():
    good = example_of({"s": [b"x" * 200, b"y"], "n": [3, -1, 2**40], "x": [0.5, 1.5]})
    source = random.Random(0)
    read = refused = 0
    for _ in range(3000):
        bad = bytearray(good)
        for _ in range(source.randrange(1, 3)):
            bad[source.randrange(len(bad))] = source.randrange(256)
        del bad[source.choice([len(bad), source.randrange(len(bad))]) :]
        try:
            mine = found([bytes(bad)])
        except DatasetError:
            refused += 1
            continue
        try:
            theirs = by_tensorflow([bytes(bad)])
        except Exception:  # damage outside the values, such as a group without its end
            continue
        if "" in mine:  # protobuf 4 and newer in Python set an entry without a key aside
            continue
        read += 1
        assert repr(mine) == repr({name: theirs[name] for name in mine}), bytes(bad)
        assert mine.keys() == theirs.keys()
    assert read > 500 < refused


def test_feature_lists_have_a_list_per_step():
    made = tf.train.SequenceExample()
    made.context.feature["n"].int64_list.value.append(1)
    for length in (3, 0, 2):
        step = made.feature_lists.feature_list["frames"].feature.add()
        step.float_list.value.extend([0.5] * length)
    records = [made.SerializeToString()] * 2
    assert found(records) == {"n": ("int", [1, 1], [1, 1])}
    frames = parse_feature_lists(*bounds(records))["frames"]
    assert (frames.kind, frames.counts.tolist()) == ("float", [3, 3])
    assert frames.values.tolist() == [[[0.5] * 3, [], [0.5] * 2]] * 2
    assert parse_feature_lists(*bounds([example_of({"n": [1]})])) == {}


@pytest.mark.parametrize(
    "bad",
    [
        example_of({"s": [b"a"]})[:-1],
        b"\xff" * 12,  # a varint without an end
        b"\x0b\x0a",  # a group
        field(1, field(1, field(1, b"\xff"))),
        field(1, field(1, field(1, b"x") + field(2, field(2, field(1, b"abc"))))),  # cut float
    ],
)
def test_invalid_example_raises_with_its_index(bad):
    with pytest.raises(DatasetError) as caught:
        found([b"", bad])
    assert caught.value.record == 1


def test_feature_of_two_kinds_raises(serialize):
    with pytest.raises(DatasetError, match="'n'") as caught:
        found([serialize(n=[1]), serialize(n=[b"x"])])
    assert caught.value.record == 1
