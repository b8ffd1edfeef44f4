"""Pairs of equal keys, against all pairs; bits, against Python's own count."""

import itertools

import numpy as np

from trainer_utils.auditing.neighbours import count_bits, neighbours_of_equals


def pairs_of(keys: list[int], most: int) -> set[tuple[int, int]]:
    parts = [*neighbours_of_equals(np.array(keys), most=most)]
    assert all(len(part) <= len(keys) for part in parts)
    return {(one, other) for part in parts for one, other in part.tolist()}


def test_all_pairs_of_equals_where_they_are_few():
    keys = np.random.default_rng(0).integers(0, 20, 60).tolist()
    every = {(a, b) for a, b in itertools.combinations(range(60), 2) if keys[a] == keys[b]}
    assert pairs_of(keys, 60) == every


def test_a_key_of_many_gives_no_square_of_them():
    assert pairs_of([7] * 100, 2) == {(n, n + d) for n in range(100) for d in (1, 2) if n + d < 100}
    assert pairs_of([], 2) == set()


def test_bits_are_counted_over_a_row():
    rows = np.random.default_rng(1).integers(0, 2**32, (50, 4), np.uint32)
    expected = [sum(value.bit_count() for value in row) for row in rows.tolist()]
    assert count_bits(rows).tolist() == expected
    assert count_bits(rows[:0]).tolist() == count_bits(rows[:0, 0]).tolist() == []
    assert count_bits(rows[:, 0].astype(np.uint64)).tolist() == [
        value.bit_count() for value in rows[:, 0].tolist()
    ]
