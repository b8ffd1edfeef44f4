"""A pair that was added is not new, unless another has taken its place; all others are."""

import numpy as np

from trainer_utils.auditing.compared_pairs import ComparedPairs


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


def test_no_pairs_are_none():
    compared = ComparedPairs()
    none = np.empty((0, 2), np.int64)
    compared.add(none)
    assert compared.new(none).shape == (0, 2)
