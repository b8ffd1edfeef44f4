"""Test that features are inferred from records, and that facts of parts can be merged."""

import io
import pickle
from typing import Any

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tests.make import frame_records
from trainer_utils.core.errors import DatasetError
from trainer_utils.dataset.inspection import DatasetFacts, features_of_facts
from trainer_utils.format import Feature, RecordBlock, read_blocks

LISTS = {"int": "int64_list", "float": "float_list", "string": "bytes_list"}
PNG = tf.io.encode_png(tf.zeros((3, 5, 3), tf.uint8)).numpy()
LARGER = tf.io.encode_jpeg(tf.zeros((4, 5, 3), tf.uint8)).numpy()
TEXTS = st.sampled_from([b"one two three four", b"", "zwölf".encode(), b"\xff", PNG, LARGER])
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "a": st.tuples(st.just("int"), st.lists(st.integers(0, 9), max_size=3)),
        "b": st.tuples(st.just("float"), st.lists(st.floats(width=32), max_size=2)),
        "c": st.tuples(st.just("string"), st.lists(TEXTS, max_size=2)),
        "image": st.tuples(st.just("string"), st.sampled_from([[PNG], [LARGER]])),
        "a_shape": st.tuples(st.just("int"), st.just([1, 2])),
    },
)


def block(examples: list[dict[str, tuple[str, list[Any]]]]) -> RecordBlock:
    records = []
    for example in examples:
        made = tf.train.Example()
        for name, (kind, values) in example.items():
            getattr(made.features.feature[name], LISTS[kind]).value.extend(values)
            getattr(made.features.feature[name], LISTS[kind]).SetInParent()
        records.append(made.SerializeToString())
    return next(read_blocks(io.BytesIO(frame_records(records)), path="x"))


def facts_of(*blocks: RecordBlock) -> DatasetFacts:
    facts = DatasetFacts()
    for each in blocks:
        facts.add(each, path="x")
    return facts


@given(st.lists(VALUES, min_size=1, max_size=8), st.integers(0, 7))
def test_merged_facts_of_parts_match_the_whole(examples, cut):
    whole = facts_of(block(examples))
    parts = [part for part in (examples[:cut], examples[cut:]) if part]
    together = DatasetFacts()
    for part in parts:
        together.merge(pickle.loads(pickle.dumps(facts_of(block(part)))), where="x")
    assert features_of_facts(together) == features_of_facts(whole)
    assert together.texts == whole.texts
    assert facts_of(*map(block, parts)) == together


def test_companion_feature_determines_the_shape_if_valid(subtests):
    for shape, expected in (([2, 3], (2, 3)), ([-1, 2], (6,)), ([1] * 9, (6,)), ([2], (6,))):
        with subtests.test(shape=shape):
            examples = [
                {"x": ("float", [0.5] * count), "x_shape": ("int", shape)} for count in (6, 4)
            ]
            found = features_of_facts(facts_of(block(examples)))["x"]
            assert found == Feature(type="float", shape=expected, dense=False)


def test_two_types_of_a_feature_raise_with_the_location():
    one, other = block([{"x": ("int", [1])}]), block([{"x": ("string", [b"1"])}])
    facts = facts_of(one)
    with pytest.raises(DatasetError, match=r"'x': expected int in all .* string \(there\.bin"):
        facts.add(other, path="there.bin")
    mixed = block([{"x": ("int", [1])}, {"x": ("string", [b"1"])}])
    with pytest.raises(DatasetError, match="feature 'x': expected"):
        facts_of(mixed)


def test_text_needs_a_mean_of_three_words():
    rows = [b"two words", b"these are four words"]
    assert facts_of(block([{"x": ("string", [row])} for row in rows])).texts == {"x"}
    assert facts_of(block([{"x": ("string", [b"two words"])}])).texts == frozenset()
