"""Bucketing and packing against brute force in plain Python."""

import random
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from trainer_utils import ConfigError, input_fn
from trainer_utils.format import Feature
from trainer_utils.frameworks.sequences import pack


def dataset_of(sequences: list[list[int]]) -> tf.data.Dataset:
    return tf.data.Dataset.from_generator(
        lambda: iter(sequences), output_signature=tf.TensorSpec((None,), tf.int64)
    )


def random_sequences(count: int, longest: int, seed: int, shortest: int = 1) -> list[list[int]]:
    """Each token once in all, so that it tells where it comes from."""
    choose = random.Random(seed)
    sizes = [choose.randint(shortest, longest) for _ in range(count)]
    ends = np.cumsum(sizes).tolist()
    return [list(range(end - size + 1, end + 1)) for end, size in zip(ends, sizes, strict=True)]


def first_fit(sequences: list[list[int]], length: int) -> list[list[list[int]]]:
    """Rows of sequences, each in the first row that has room."""
    rows: list[list[list[int]]] = []
    for sequence in filter(None, sequences):
        for row in rows:
            if sum(map(len, row)) + len(sequence) <= length:
                row.append(sequence)
                break
        else:
            rows.append([sequence])
    return rows


def windows(sequences: list[list[int]], size: int) -> list[list[list[int]]]:
    return [sequences[start : start + size] for start in range(0, len(sequences), size)]


def as_rows(rows: list[list[list[int]]], length: int) -> list[dict[str, list[int]]]:
    def filled(values: list[int]) -> list[int]:
        return values + [0] * (length - len(values))

    return [
        {
            "tokens": filled([token for sequence in row for token in sequence]),
            "segment_ids": filled([n for n, s in enumerate(row, start=1) for _ in s]),
            "positions": filled([place for s in row for place in range(len(s))]),
        }
        for row in rows
    ]


def read(dataset: tf.data.Dataset) -> list[Any]:
    return [
        {name: value.tolist() for name, value in row.items()} for row in dataset.as_numpy_iterator()
    ]


# --- Packing ---


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("count", "longest", "length", "window"), [
    (200, 30, 64, 50),
    (200, 30, 30, 1000),
    (7, 5, 100, 3),
    (1, 1, 1, 1),
    (60, 10, 11, 1),
    (0, 5, 8, 4),
])  # fmt: skip
def test_rows_are_filled_first_fit(seed, count, longest, length, window):
    sequences = random_sequences(count, longest, seed, shortest=0)
    dataset = pack(dataset_of(sequences), length, window=window)
    expected = [row for part in windows(sequences, window) for row in first_fit(part, length)]
    assert read(dataset) == as_rows(expected, length)
    assert dataset.element_spec == {
        "tokens": tf.TensorSpec((length,), tf.int64),
        "segment_ids": tf.TensorSpec((length,), tf.int32),
        "positions": tf.TensorSpec((length,), tf.int32),
    }


@pytest.mark.parametrize("seed", range(3))
def test_long_sequences_are_split_and_no_token_is_lost(seed):
    sequences = random_sequences(50, 100, seed)
    parts = [s[start : start + 16] for s in sequences for start in range(0, len(s), 16)]
    assert read(pack(dataset_of(sequences), 16)) == as_rows(first_fit(parts, 16), 16)


def test_long_sequences_are_truncated_where_that_is_asked_for():
    sequences = random_sequences(50, 100, 0)
    expected = first_fit([sequence[:16] for sequence in sequences], 16)
    assert read(pack(dataset_of(sequences), 16, too_long="truncate")) == as_rows(expected, 16)


def test_little_of_a_row_is_left_empty():
    sequences = random_sequences(2000, 100, 1)
    rows = read(pack(dataset_of(sequences), 512))
    assert sum(map(len, sequences)) / (512 * len(rows)) > 0.97


def test_several_features_are_packed_side_by_side():
    """What belongs together has one row and one segment id, and every feature fits."""
    choose = random.Random(0)
    sizes = [(choose.randint(0, 9), choose.randint(1, 5)) for _ in range(80)]
    examples = [
        {"source": [n + 1] * source, "target": [n + 1] * target, "unused": n}
        for n, (source, target) in enumerate(sizes)
    ]
    signature = {
        "source": tf.TensorSpec((None,), tf.int64),
        "target": tf.TensorSpec((None,), tf.int64),
        "unused": tf.TensorSpec((), tf.int64),
    }
    dataset = tf.data.Dataset.from_generator(lambda: iter(examples), output_signature=signature)
    rows = read(pack(dataset, {"source": 20, "target": 12}, too_long="truncate"))
    found: dict[int, dict[str, int]] = {}
    for row in rows:
        assert len(row["source"]) == 20
        assert len(row["target"]) == 12
        segments: dict[int, set[int]] = {}
        for name in ("source", "target"):
            for token, segment in zip(row[name], row[f"{name}_segment_ids"], strict=True):
                assert (token == 0) == (segment == 0)
                if token:
                    segments.setdefault(segment, set()).add(token)
                    counts = found.setdefault(token, {"source": 0, "target": 0})
                    assert row[f"{name}_positions"][row[name].index(token)] == 0
                    counts[name] += 1
        assert all(len(tokens) == 1 for tokens in segments.values())
    assert found == {
        n: {"source": source, "target": target} for n, (source, target) in enumerate(sizes, start=1)
    }
    assert len(rows) < 40


@pytest.fixture(scope="module")
def texts(tmp_path_factory, write_dataset) -> str:
    examples = [{"tokens": list(range(1, n % 13 + 2)), "label": [n]} for n in range(60)]
    features = {
        "tokens": Feature(type="int", shape=(1,), dense=False),
        "label": Feature(type="int"),
    }
    return write_dataset(tmp_path_factory.mktemp("texts"), {"train": [examples]}, features)


def test_examples_of_a_dataset_are_packed(texts):
    lengths = [n % 13 + 1 for n in range(60)]
    examples = input_fn(texts, batch_size=None, shuffle=False, label="label")
    rows = read(pack(examples, {"tokens": 32}))
    assert sum(np.count_nonzero(row["tokens"]) for row in rows) == sum(lengths)
    expected = first_fit([list(range(1, length + 1)) for length in lengths], 32)
    assert [row["tokens"] for row in rows] == [row["tokens"] for row in as_rows(expected, 32)]


@pytest.mark.parametrize(
    ("lengths", "options", "match"),
    [
        (0, {}, "lengths: expected .* got 0"),
        ({}, {}, "lengths: expected .* got {}"),
        (8, {"window": 0}, "window: .* got 0"),
        (8, {"too_long": "drop"}, "too_long: expected one of split, truncate .* got 'drop'"),
        ({"a": 8, "b": 8}, {}, "too_long: expected truncate for 2 features, got 'split'"),
        ({"a": 8}, {}, "feature: .* got 'a'"),
    ],
)
def test_what_cannot_be_packed_is_refused(lengths, options, match):
    with pytest.raises(ConfigError, match=match):
        pack(dataset_of([[1, 2]]), lengths, **options)
