"""Test cuts by bytes and assignment by class against brute force and exact counts."""

import collections
import itertools
import random

import numpy as np
import pytest

from components.balancing.partition import assign_positions_by_class, equal_byte_bounds


def sums(sizes: list[int], bounds: list[int]) -> list[int]:
    return [sum(sizes[start:stop]) for start, stop in itertools.pairwise(bounds)]


def some_sizes(source: random.Random, count: int) -> list[int]:
    kinds = [
        lambda: 17,
        lambda: source.randint(1, 3),
        lambda: source.choice([1, 100_000]),
        lambda: int(10 ** source.uniform(0, 6)),
    ]
    kind = source.choice(kinds)
    return [kind() for _ in range(count)]


def test_shards_differ_by_at_most_the_largest_record():
    source = random.Random(0)
    for _ in range(3000):
        sizes = some_sizes(source, source.randint(1, 40))
        num_shards = source.randint(1, len(sizes))
        bounds = equal_byte_bounds(np.array(sizes, np.int64), num_shards=num_shards).tolist()
        assert bounds[0] == 0
        assert bounds[-1] == len(sizes)
        assert all(start < stop for start, stop in itertools.pairwise(bounds))
        totals = sums(sizes, bounds)
        assert max(totals) - min(totals) <= max(sizes), (sizes, bounds)
        if len(sizes) < 10 and num_shards > 1:  # the smallest shard is as large as any cut allows
            best = max(
                min(sums(sizes, [0, *cuts, len(sizes)]))
                for cuts in itertools.combinations(range(1, len(sizes)), num_shards - 1)
            )
            assert min(totals) == best


@pytest.mark.parametrize(("records", "num_shards"), [(1, 1), (10, 3), (5000, 7), (9, 8)])
def test_each_shard_has_its_class_shares_to_within_one(records, num_shards):
    source = random.Random(3)
    classes = [min(int(source.expovariate(0.7)), 5) for _ in range(records)]
    order = source.sample(range(records), records)
    places, bounds = assign_positions_by_class(
        np.array(classes), num_shards=num_shards, order=np.array(order), seed=0
    )
    assert sorted(places.tolist()) == list(range(records))
    shards = np.searchsorted(bounds, places, side="right") - 1
    by_place = np.argsort(places)
    for start, stop in itertools.pairwise(bounds.tolist()):  # in the given order
        assert (np.diff(np.array(order)[by_place[start:stop]]) > 0).all()
    sizes = collections.Counter(shards.tolist())
    assert len(sizes) == num_shards
    assert max(sizes.values()) - min(sizes.values()) <= 1
    for name, count in collections.Counter(classes).items():
        held = collections.Counter(
            s for s, c in zip(shards.tolist(), classes, strict=True) if c == name
        )
        for shard in range(num_shards):
            assert abs(held[shard] - count / num_shards) < 1
