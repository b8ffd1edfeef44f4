"""Columns of serialized examples, against protobuf's own serializer, in any order of features."""

import random

import numpy as np
import pytest
import tensorflow as tf

from trainer_utils.format import DatasetError
from trainer_utils.format.file_ranges import RecordName
from trainer_utils.reading import examples
from trainer_utils.reading.examples import parse_examples
from trainer_utils.reading.record_reader import Rows

NUMBERS = [0, 1, -1, 127, 128, 2**40, -(2**63), 2**63 - 1]


def rows(records):
    ends = np.cumsum([len(record) for record in records], dtype=np.int64)
    begins = ends - [len(record) for record in records]
    data = b"".join([*records, bytes(16)])
    return Rows(data, begins, ends, lambda row: RecordName("shard", row))


def draw(generator):
    """An example of any features, of which some are missing and some have no values."""
    values = {}
    if generator.random() < 0.9:
        values["n"] = generator.choices(NUMBERS, k=generator.choice([0, 1, 1, 5]))
    if generator.random() < 0.9:
        values["x"] = [
            float(np.float32(generator.random())) for _ in range(generator.randint(1, 3))
        ]
    if generator.random() < 0.9:
        sizes = [generator.choice([0, 1, 200, 20_000]) for _ in range(generator.choice([1, 1, 3]))]
        values["s"] = [generator.randbytes(size) for size in sizes]
    items = list(values.items())
    generator.shuffle(items)
    return dict(items)


@pytest.mark.parametrize("is_general", [False, True])
def test_columns_hold_what_protobuf_wrote(serialize, monkeypatch, is_general):
    if is_general:

        def refuse(*_):
            raise examples._UnusualError

        monkeypatch.setattr(examples, "_walk", refuse)
    generator = random.Random(0)
    for _ in range(60):
        drawn = [draw(generator) for _ in range(generator.randint(1, 20))]
        records = [serialize(**one) for one in drawn]
        found = parse_examples(rows(records), ["n", "x", "s", "absent"])
        for name in ("n", "x", "s"):
            lists = [one.get(name, []) for one in drawn]
            assert found[name].counts.tolist() == [len(values) for values in lists]
            assert found[name].values.tolist() == [value for values in lists for value in values]
        assert found["absent"].kind == ""
        assert not found["absent"].counts.any()


def test_what_others_write_otherwise_is_read_too():
    """Values that are not packed, a feature twice, fields that nobody knows."""
    number = tf.train.Example()
    number.features.feature["n"].int64_list.value.append(7)
    twice = number.SerializeToString() + number.SerializeToString()
    unpacked = b"\n\x0e\n\x0c\n\x01n\x12\x07\x1a\x05\x08\x03\x08\xac\x02"
    unknown = number.SerializeToString() + b"\x78\x05"
    found = parse_examples(rows([twice, unpacked, unknown]), ["n"])["n"]
    for record, count in zip((twice, unpacked, unknown), found.counts, strict=True):
        theirs = tf.train.Example.FromString(record).features.feature["n"].int64_list.value
        assert len(theirs) == count
    assert found.values.tolist() == [7, 3, 300, 7]


@pytest.mark.parametrize("cut", [1, 5, 9])
def test_a_record_that_is_cut_short_is_named(serialize, cut):
    good = serialize(n=[1], s=[b"text"])
    with pytest.raises(DatasetError, match="record 1") as caught:
        parse_examples(rows([good, good[:-cut]]), ["n"])
    assert (caught.value.path, caught.value.record) == ("shard", 1)


def test_random_bytes_are_no_examples(serialize):
    generator = random.Random(1)
    good = serialize(n=[1], s=[b"text"])
    for _ in range(300):
        bad = bytearray(good)
        bad[generator.randrange(len(bad))] = generator.randrange(256)
        try:
            parsed = tf.train.Example.FromString(bytes(bad)).features.feature["n"]
        except Exception:
            parsed = None
        try:
            found = parse_examples(rows([good, bytes(bad)]), ["n"])["n"]
        except DatasetError:
            continue
        if parsed is not None:
            assert found.values.tolist()[1:] == list(parsed.int64_list.value)


def test_two_kinds_of_a_feature_are_refused(serialize):
    with pytest.raises(DatasetError, match="feature 'n' of int values in all examples, got string"):
        parse_examples(rows([serialize(n=[1]), serialize(n=[b"x"])]), ["n"])
