"""Going on with another number of workers: every record once an epoch, in the batches of one.

Read by the real `input_fn`, one context a worker; the plans alone are tested by the thousands in
`test_order_plans.py`.
"""

import collections
import itertools
from typing import Any

import pytest
import tensorflow as tf

from trainer_utils import input_fn
from trainer_utils.format import Feature

IDS = {"id": Feature(type="int")}


def write_ids(write_dataset, folder, sizes: list[int]) -> str:
    """A dataset of so many numbered records in each shard."""
    bounds = itertools.pairwise([0, *itertools.accumulate(sizes)])
    shards = [[{"id": [number]} for number in range(start, stop)] for start, stop in bounds]
    return write_dataset(folder, {"train": shards}, IDS)


@pytest.fixture(scope="module")
def of_909(tmp_path_factory, write_dataset) -> str:
    """909 records in shards of very different sizes, two of them empty."""
    sizes = [200, 0, 3, 301, 1, 150, 0, 254]
    return write_ids(write_dataset, tmp_path_factory.mktemp("resized"), sizes)


def read(uri: str, workers: int, start: Any = None, stop: int | None = None, **options: Any) -> Any:
    """The records of each global batch from a token on, up to a step; and the token there."""
    datasets = [
        input_fn(
            uri,
            options.get("split"),
            input_context=tf.distribute.InputContext(workers, worker, workers),
            features="id",
            state=start,
            **{name: value for name, value in options.items() if name != "split"},
        )
        for worker in range(workers)
    ]
    begun = datasets[0].input_start.epoch * datasets[0].input_steps + datasets[0].input_start.step
    taken = None if stop is None else stop - begun
    read = [list(itertools.islice(one.as_numpy_iterator(), taken)) for one in datasets]
    assert len({len(batches) for batches in read}) == 1, "workers take different numbers of steps"
    batches = [sorted(itertools.chain(*map(real_rows, step))) for step in zip(*read, strict=True)]
    return batches, None if stop is None else datasets[-1].state(stop).to_json()


def real_rows(element: Any) -> list[int]:
    """What counts of an element: all of it, or where its mask is 1."""
    if isinstance(element, tuple):
        ids, mask = element
        return [int(n) for n, weight in zip(ids, mask, strict=True) if weight]
    return [int(n) for n in element]


@pytest.mark.parametrize("remainder", ["pad", "balance", None])
@pytest.mark.parametrize(("seed", "before", "after", "step"), [(1, 6, 1, 40), (2, 4, 1, 60)])
def test_a_smaller_job_sees_the_rest_of_the_epoch_once(
    of_909, remainder, seed, before, after, step
):
    options = {"batch_size": 12, "seed": seed, "remainder": remainder}
    first, token = read(of_909, before, stop=step, **options)
    rest, _ = read(of_909, after, token, **options)
    assert sorted(itertools.chain(*first, *rest)) == list(range(909))


def test_a_larger_job_sees_the_rest_of_both_epochs_once(of_909):
    options = {"batch_size": 16, "split": "train[:900]", "repeat": 2}
    first, token = read(of_909, 2, stop=72, **options)
    rest, _ = read(of_909, 8, token, **options)
    assert len(first) + len(rest) == 2 * 57
    seen = collections.Counter(itertools.chain(*first, *rest))
    assert seen == collections.Counter(dict.fromkeys(range(900), 2))
    first, _ = read(of_909, 2, stop=72, **options)
    rest, _ = read(of_909, 8, start_step_token(72, of_909, options), **options)
    assert collections.Counter(itertools.chain(*first, *rest)) == seen


def start_step_token(step: int, uri: str, options: dict[str, Any]) -> Any:
    """A token of one worker's, as nobody but the number of the step tells it."""
    split = options.get("split")
    rest = {name: value for name, value in options.items() if name != "split"}
    return input_fn(uri, split, features="id", **rest).state(step)
