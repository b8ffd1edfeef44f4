"""`InputOrder` against what the real `input_fn` yields, and against the orders of past releases."""

import hashlib
import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trainer_utils.format import ConfigError, Feature
from trainer_utils.format.file_ranges import RecordName
from trainer_utils.order import FileRange, InputOrder, OrderOptions, mix_ranges

REPOSITORY = Path(__file__).parents[3]
SIZES = [30, 0, 1, 22]


def ranges_of(sizes: list[int], folder: str = "") -> list[FileRange]:
    return [FileRange(f"{folder}{n}", 0, size, to_end=True) for n, size in enumerate(sizes)]


def test_the_order_needs_no_tensorflow():
    code = """
import sys
from trainer_utils.order import FileRange, InputOrder, OrderOptions, plan_workers
shards = [FileRange("a.tfrecord", skip=0, take=1000, to_end=True)]
for shuffle in (True, 100, "global", False):
    options = OrderOptions(batch_size=64, shuffle=shuffle, seed=7)
    order = InputOrder(shards, options, num_workers=4, mean_record_bytes=100)
    print(len(order.records(epoch=2, step=10, worker=3)), plan_workers(order).steps)
print([name for name in ("tensorflow", "tfx", "apache_beam", "pyarrow") if name in sys.modules])
"""
    finished = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert finished.stdout.splitlines() == ["16 16"] * 4 + ["[]"]


ORDERS = [
    {"batch_size": 8},
    {"batch_size": 8, "shuffle": "global", "seed": 5},
    {"batch_size": 8, "shuffle": 12, "remainder": "drop"},
    {"batch_size": 8, "shuffle": False, "remainder": "drop"},
    {"batch_size": 8, "shuffle": False, "remainder": "balance"},
    {"batch_size": 8, "shuffle": 12, "remainder": "pad", "echoing": 2},
    {"batch_size": 12, "shuffle": "global", "drop_remainder": True},
    {"batch_size": None, "shuffle": 20},
    {"batch_size": None, "shuffle": False},
    {"batch_size": None, "shuffle": "global", "echoing": 2},
]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("settings", ORDERS, ids=str)
def test_records_are_those_that_input_fn_yields(tmp_path, write_dataset, settings, workers):
    import tensorflow as tf

    from trainer_utils import input_fn

    bounds = itertools.pairwise([0, *itertools.accumulate(SIZES)])
    shards = [[{"id": [n]} for n in range(start, stop)] for start, stop in bounds]
    uri = write_dataset(tmp_path / "ids", {"train": shards}, {"id": Feature(type="int")})
    paths = sorted(str(path) for path in Path(uri, "Split-train").iterdir())
    first = dict(zip(paths, itertools.accumulate(SIZES, initial=0), strict=False))
    order = InputOrder(
        [FileRange(p, 0, size, to_end=True) for p, size in zip(paths, SIZES, strict=True)],
        OrderOptions(**settings),
        num_workers=workers,
        mean_record_bytes=sum(Path(path).stat().st_size for path in paths) / sum(SIZES),
    )
    for worker in range(workers):
        context = tf.distribute.InputContext(workers, worker, workers)
        dataset = input_fn(uri, features="id", input_context=context, repeat=2, **settings)
        assert dataset.input_steps == order.steps_per_epoch
        elements = dataset.as_numpy_iterator()
        for epoch, step in itertools.product(range(2), range(order.steps_per_epoch)):
            element = next(elements)
            rows = element[0][element[1] == 1] if isinstance(element, tuple) else element
            records = order.records(epoch=epoch, step=step, worker=worker)
            assert [first[path] + n for path, n in records] == np.ravel(rows).tolist()
        assert next(elements, None) is None


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("settings", [*ORDERS, {"batch_size": 8, "weights": [1, 2]}], ids=str)
def test_the_steps_of_a_record_are_those_that_it_is_listed_at(settings, workers):
    parts = ranges_of(SIZES)
    ranges = mix_ranges([parts[:2], parts[2:]], settings.get("weights"))
    order = InputOrder(
        ranges, OrderOptions(**settings), num_workers=workers, mean_record_bytes=1 << 22
    )
    for epoch in range(2):
        listed: dict[RecordName, set[int]] = {
            RecordName(part.path, n): set() for part in parts for n in range(part.take)
        }
        for step, worker in itertools.product(range(order.steps_per_epoch), range(workers)):
            for record in order.records(epoch=epoch, step=step, worker=worker):
                listed[record].add(step)
        for record, steps in listed.items():
            assert order.steps(epoch=epoch, record=record) == sorted(steps), record
    assert order.steps(epoch=0, record=RecordName("0", 30)) == []


# Of version 2 of the order, by the release that began it: any other is a new version of tokens.
PINNED = {
    "windowed": ({"shuffle": 100, "batch_size": 12, "seed": 3}, "7bdc28e0e5a47ab0"),
    "bytes": ({"batch_size": 16, "seed": -7, "shuffle_bytes": 40_000}, "4a72e6cdb4b186c5"),
    "global": ({"shuffle": "global", "batch_size": 12, "seed": 1 << 70}, "efd4e1a8c8d8c266"),
    "in order": ({"shuffle": False, "batch_size": 16, "remainder": "drop"}, "8747e18562e0de7f"),
    "balanced": ({"batch_size": 24, "remainder": "balance", "weights": [1, 2]}, "88d9e42b8036f900"),
    "single": ({"batch_size": None, "shuffle": 50}, "f2cc54c6fb650f71"),
}


def digest_of(settings: dict) -> str:
    datasets = [ranges_of([100, 7, 0, 93], "a"), ranges_of([41, 60], "b")]
    ranges = mix_ranges(datasets, settings.get("weights"))
    order = InputOrder(ranges, OrderOptions(**settings), num_workers=4, mean_record_bytes=100)
    steps = [
        [tuple(name) for name in order.records(epoch=epoch, step=step, worker=worker)]
        for epoch in range(2)
        for step in range(order.steps_per_epoch)
        for worker in range(4)
    ]
    return hashlib.blake2b(repr(steps).encode(), digest_size=8).hexdigest()


@pytest.mark.parametrize("name", PINNED)
def test_the_order_of_a_seed_stays(name):
    settings, digest = PINNED[name]
    assert digest_of(settings) == digest


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"epoch": 0, "step": 7, "worker": 0}, r"step: expected one of 7 .*, got 7 of epoch 0"),
        ({"epoch": -1, "step": 0, "worker": 0}, r"step: .*, got 0 of epoch -1"),
        ({"epoch": 0, "step": 0, "worker": 2}, r"worker: expected one of 2, from 0, got 2"),
    ],
)
def test_what_no_worker_reads_is_refused(asked, message):
    order = InputOrder(ranges_of(SIZES), OrderOptions(batch_size=8, shuffle=9), num_workers=2)
    with pytest.raises(ConfigError, match=message):
        order.records(**asked)


def test_a_window_in_bytes_needs_the_size_of_a_record():
    order = InputOrder(ranges_of(SIZES), OrderOptions(batch_size=8))
    with pytest.raises(ConfigError, match=r"mean_record_bytes: expected .*, got None\. Or set"):
        order.records(epoch=0, step=0, worker=0)


def test_a_token_goes_on_where_it_says():
    order = InputOrder(ranges_of(SIZES), OrderOptions(batch_size=8, shuffle="global"))
    token = order.state(order.steps_per_epoch + 3).to_json()
    options = OrderOptions(batch_size=8, shuffle="global", state=token)
    resumed = InputOrder(ranges_of(SIZES), options, num_workers=4)
    assert (resumed.start.epoch, resumed.start.step) == (1, 3)
    rows = [resumed.records(epoch=1, step=3, worker=worker) for worker in range(4)]
    assert list(itertools.chain(*rows)) == order.records(epoch=1, step=3, worker=0)
