"""Any plan that hypothesis generates reads records exactly once, in equal steps and batches.

The tests use only the names of the records of a step, as seen by a trainer. The expected names
follow from the sizes of the shards.
"""

import dataclasses
import itertools
from collections import Counter
from typing import Any

import hypothesis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.counts import some_or_many
from trainer_utils import ConfigError
from trainer_utils.order import FileRange, InputOrder, OrderOptions
from trainer_utils.order.input_plan import plan_workers

QUICK, LONG = 40, 4000  # plans

Name = tuple[str, int]


@dataclasses.dataclass(frozen=True)
class Job:
    """Workers, replicas per worker, and the fraction of all steps after which they stop."""

    workers: int
    replicas: int
    stop: float


@dataclasses.dataclass(frozen=True)
class Plan:
    sizes: list[int]
    settings: dict[str, Any]
    jobs: list[Job]
    epochs: int
    record_bytes: int = 100  # the mean size, on which the block size of `shuffle=True` depends


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Draw a batch size that one to eight workers can divide, and three successive jobs."""
    batch_size = draw(st.sampled_from([1, 2, 3, 4, 6, 8, 12, 15, 16, 20, 24]))
    jobs = []
    for _ in range(3):
        workers = draw(st.sampled_from([n for n in range(1, 9) if batch_size % n == 0]))
        each = [n for n in (1, 2, 3) if batch_size % (workers * n) == 0]
        jobs.append(Job(workers, draw(st.sampled_from(each)), draw(st.floats(0, 1))))
    return Plan(
        sizes=draw(st.lists(st.integers(0, 9) | st.integers(0, 40), min_size=1, max_size=5)),
        settings={
            "batch_size": batch_size,
            "shuffle": draw(st.sampled_from([True, False, "global"]) | st.integers(1, 80)),
            "seed": draw(st.integers(-(1 << 40), 1 << 40)),
            "remainder": draw(st.sampled_from([None, "drop", "pad", "balance"])),
            "echoing": draw(st.sampled_from([1, 1, 2, 3])),
        },
        jobs=jobs,
        epochs=draw(st.integers(1, 3)),
        record_bytes=draw(st.sampled_from([100, 20 << 20, 1 << 30])),
    )


def batch_sizes(records: int, size: int, remainder: str | None, replicas: int) -> list[int] | None:
    """Return the batch sizes of an epoch before echoing, or None if the plan is to be refused."""
    full, rest = divmod(records, size)
    if remainder == "drop":
        return [size] * full if full or not records else None
    sizes = [size] * full + [rest] * (rest > 0)
    if remainder == "balance" and rest:
        if full:
            sizes[-2:] = [(size + rest + 1) // 2, (size + rest) // 2]
        if replicas > sizes[-1]:
            return None
    return sizes


def order_of(plan: Plan, job: Job, token: str | None) -> InputOrder:
    return InputOrder(
        [FileRange(f"shard-{n}", 0, size) for n, size in enumerate(plan.sizes)],
        OrderOptions(**plan.settings, state=token),
        num_workers=job.workers,
        num_replicas=job.workers * job.replicas,
        mean_record_bytes=plan.record_bytes,
        digest="of the dataset",
    )


def orders_of(plan: Plan) -> list[InputOrder]:
    return [order_of(plan, job, None) for job in plan.jobs]


def steps_of(plan: Plan, job: Job, order: InputOrder, stop: int) -> list[list[list[Name]]]:
    """Return the rows of each worker for each step up to `stop`, counted over all epochs."""
    each = order.steps_per_epoch
    begin = order.start.epoch * each + order.start.step
    return [
        [
            [tuple(name) for name in order.records(epoch=epoch, step=step, worker=worker)]
            for worker in range(job.workers)
        ]
        for epoch, step in (divmod(number, each) for number in range(begin, stop))
    ]


def check_plan(plan: Plan) -> None:
    size, remainder = plan.settings["batch_size"], plan.settings["remainder"]
    replicas = max(job.workers * job.replicas for job in plan.jobs)
    sizes = batch_sizes(sum(plan.sizes), size, remainder, replicas)
    if sizes is None:
        with pytest.raises(ConfigError):
            orders_of(plan)
        return
    echoing = plan.settings["echoing"]
    total = len(sizes) * echoing * plan.epochs
    stops = [*sorted(int(job.stop * total) for job in plan.jobs[1:]), total]
    token, steps = None, []
    for job, stop in zip(plan.jobs, stops, strict=True):
        order = order_of(plan, job, token)
        check_counts(plan, order, sizes)
        assert order.start.epoch * order.steps_per_epoch + order.start.step == len(steps)
        found = steps_of(plan, job, order, stop)
        for rows in found:
            even = sum(map(len, rows)) / job.workers
            assert all(abs(len(own) - even) < 1 for own in rows), "a worker's part is not equal"
        steps += [list(itertools.chain(*rows)) for rows in found]
        token = order.state(stop).to_json()
    one = Job(1, 1, 1.0)
    undisturbed = steps_of(plan, one, order_of(plan, one, None), total)
    assert [sorted(step) for step in steps] == [sorted(rows) for (rows,) in undisturbed]
    check_epochs(plan, steps, sizes)
    assert all(len(step) <= size for step in steps)


def check_counts(plan: Plan, order: InputOrder, sizes: list[int]) -> None:
    """Check the numbers that are known before reading."""
    told, records = plan_workers(order), sum(plan.sizes)
    assert order.steps_per_epoch == told.steps == len(sizes) * plan.settings["echoing"]
    assert {worker.steps for worker in told.workers} == {told.steps}
    assert sum(worker.records for worker in told.workers) == sum(sizes)
    rows = len(sizes) * plan.settings["batch_size"]
    assert told.padded == (rows - sum(sizes) if plan.settings["remainder"] == "pad" else 0)
    if sizes:
        assert told.dropped == records - sum(sizes)


def check_epochs(plan: Plan, steps: list[list[Name]], sizes: list[int]) -> None:
    """Check that each epoch has every record once, except dropped ones, in the expected batches."""
    there = {(f"shard-{n}", k) for n, size in enumerate(plan.sizes) for k in range(size)}
    echoing = plan.settings["echoing"]
    for epoch in range(plan.epochs):
        own = steps[epoch * len(sizes) * echoing : (epoch + 1) * len(sizes) * echoing]
        assert [len(step) for step in own[::echoing]] == sizes
        for first in range(0, len(own), echoing):
            again = own[first : first + echoing]
            assert all(sorted(step) == sorted(again[0]) for step in again), "not echoed"
        seen = Counter(itertools.chain(*own[::echoing]))
        assert set(seen) <= there
        assert set(seen.values()) <= {1}, "a record came twice"
        assert len(seen) == sum(sizes)


@some_or_many(QUICK, LONG)
def test_any_plan_has_every_record_once_in_equal_batches(count, seed):
    """Check random plans; the long part uses a new seed."""
    many = settings(max_examples=count, derandomize=False, database=None)
    hypothesis.seed(seed)(many(given(plans())(check_plan)))()
