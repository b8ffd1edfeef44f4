"""Tasks and buckets: every place once, and never more held than allowed."""

import itertools
import random

import numpy as np
import pytest

from components.shuffle.layout import SplitLayout, plan_tasks, shuffle_seed


def layout_of(bounds: list[int], seed: int | None = None) -> SplitLayout:
    return SplitLayout(split="train", bounds=tuple(bounds), seed=seed)


def test_buckets_cover_all_places_and_keep_to_the_limit():
    source = random.Random(0)
    for _ in range(300):
        records = source.randint(1, 200)
        inner = sorted(source.sample(range(1, records), source.randint(0, min(9, records - 1))))
        layout = layout_of([0, *inner, records])
        sizes = np.array([int(10 ** source.uniform(0, 3)) for _ in range(records)])
        memory = source.choice([10, 500, 5000, 10**6])
        tasks = plan_tasks(layout, [sizes[:7], sizes[7:]], memory_bytes=memory)
        shards = [s for t in tasks for s in range(t.first_shard, t.stop_shard)]
        assert shards == list(range(layout.num_shards))
        places = []
        for task in tasks:
            assert task.cuts[0] == layout.bounds[task.first_shard]
            assert task.cuts[-1] == layout.bounds[task.stop_shard]
            for start, stop in itertools.pairwise(task.cuts):
                places += range(start, stop)
                assert sizes[start:stop].sum() <= memory or stop - start == 1
        assert places == list(range(records))


@pytest.mark.parametrize("records", [5, 70_000])
def test_every_record_is_equally_likely_in_every_part_of_the_order(records):
    """Where some records go, over 400 seeds: eight parts of the order get them alike."""
    followed = np.array([0, 1, records // 2, records - 1])
    parts = min(8, records)
    hits = np.zeros((4, parts))
    for seed in range(400):
        layout = layout_of([0, records], seed=shuffle_seed("train", seed))
        places = np.array([layout.positions(n, n + 1)[0] for n in followed.tolist()])
        hits[np.arange(4), places * parts // records] += 1
    share = np.diff(np.ceil(np.arange(parts + 1) * records / parts)) / records
    expected = 400 * share
    statistic = ((hits - expected) ** 2 / expected).sum(axis=1)
    # Chi-squared with parts - 1 degrees of freedom: beyond 32 once in 25,000 for seven.
    assert (statistic < 32).all()
