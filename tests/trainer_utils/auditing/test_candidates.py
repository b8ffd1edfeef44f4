"""Pairs of equal keys, against all pairs; and which pairs are new: those that were not added."""

import itertools

import numpy as np

from trainer_utils.auditing.candidates import ComparedPairs, neighbours_of_equals


def pairs_of(keys: list[int], most: int) -> set[tuple[int, int]]:
    parts = [*neighbours_of_equals(np.array(keys), most=most)]
    assert all(len(part) <= len(keys) for part in parts)
    return {(one, other) for part in parts for one, other in part.tolist()}


def test_all_pairs_of_equals_where_they_are_few():
    keys = np.random.default_rng(0).integers(0, 20, 60).tolist()
    every = {(a, b) for a, b in itertools.combinations(range(60), 2) if keys[a] == keys[b]}
    assert pairs_of(keys, 60) == every


def test_all_pairs_of_equals_among_many_that_are_alone():
    keys = np.random.default_rng(1).permutation(2**31 - np.arange(20_000)).astype(np.uint32)
    keys[[5, 700, 19_999]] = keys[[800, 6, 6]]
    assert pairs_of(keys.tolist(), 8) == {(5, 800), (6, 700), (6, 19_999), (700, 19_999)}


def test_what_was_added_is_not_new():
    compared = ComparedPairs()
    pairs = np.array([[0, 1], [3, 17], [5, 2**31 - 1]])
    assert compared.new(pairs).tolist() == pairs.tolist()
    compared.add(pairs)
    others = np.array([[1, 3], [3, 18], [17, 2**31 - 1]])
    both = np.concatenate([others[:1], pairs, others[1:]])
    assert compared.new(both).tolist() == others.tolist()


def test_of_very_many_most_are_held_and_none_that_was_not_added():
    rng = np.random.default_rng(0)
    pairs = np.unique(np.sort(rng.integers(0, 2**31, (200_000, 2)), axis=1), axis=0)
    compared = ComparedPairs()
    compared.add(pairs[::2])
    new = {*map(tuple, compared.new(pairs).tolist())}
    assert new >= {*map(tuple, pairs[1::2].tolist())}
    assert len(new) < 0.6 * len(pairs)
