"""Batches made in threads ahead of whoever takes them, in order.

for step, batch in read_ahead(batches, epoch=0, steps=range(100)):
    ...
"""

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from trainer_utils.reading.batches import Batches


def read_ahead(
    batches: Batches, *, epoch: int, steps: Sequence[int]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The batches of some steps of an epoch in order, with the step of each.

    Args:
        batches: what makes them; `prefetch` of its options says how many are made ahead.
        epoch: counted from 0.
        steps: rising ones.
    """
    at_once = batches.steps_at_once
    groups = [steps[first : first + at_once] for first in range(0, len(steps), at_once)]
    ahead = max(batches.options.prefetch, batches.options.processes)

    def make(group: Sequence[int]) -> list[dict[str, Any]]:
        for step in group:
            batches.upcoming(epoch, step)
        return batches.batches(epoch, group)

    if not ahead:
        for group in groups:
            yield from zip(group, make(group), strict=True)
        return
    waiting: deque[tuple[Sequence[int], Future[list[dict[str, Any]]]]] = deque()
    pool = ThreadPoolExecutor(batches.calls_at_once, thread_name_prefix="tfx-shards-batches")
    left = iter(groups)
    try:
        while True:
            for group in itertools.islice(left, max(1, ahead // at_once) + 1 - len(waiting)):
                waiting.append((group, pool.submit(make, group)))
            if not waiting:
                return
            group, future = waiting.popleft()
            yield from zip(group, future.result(), strict=True)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
