"""Pairs of equal keys, against all pairs."""

import itertools

import numpy as np

from trainer_utils.auditing.neighbours import neighbours_of_equals


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


def test_all_pairs_of_equals_among_many_that_are_alone():
    keys = np.random.default_rng(1).permutation(2**31 - np.arange(20_000)).astype(np.uint32)
    keys[[5, 700, 19_999]] = keys[[800, 6, 6]]
    assert pairs_of(keys.tolist(), 8) == {(5, 800), (6, 700), (6, 19_999), (700, 19_999)}
