"""Random plans: what each worker reads at each step, against what must hold whatever the plan.

Nothing is read here: plans are arithmetic, so that thousands of them are tried. The truth is plain
Python: which records an epoch has, follows from the slices; how many each batch has, from their
number. `test_resized.py` shows that the real `input_fn` reads what the plans say.
"""

import dataclasses
import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from trainer_utils.format import ConfigError
from trainer_utils.format.file_ranges import cut
from trainer_utils.format.slices import resolve_slices
from trainer_utils.order import (
    FileRange,
    GlobalShuffle,
    InputOrder,
    OrderOptions,
    RecordName,
    Sequential,
    Windowed,
    mix_ranges,
)

REMAINDERS = [None, "drop", "pad", "balance"]

# --- A random plan, and what is true of it ---


@dataclasses.dataclass(frozen=True)
class Case:
    """Datasets by their shards' sizes, slices of them, settings, and how a job is resized."""

    sizes: tuple[tuple[int, ...], ...]
    slices: tuple[tuple[tuple[int | None, int | None], ...], ...]
    settings: dict[str, Any]
    jobs: tuple[tuple[int, int], ...]
    """Workers, and replicas of each worker, of one job after the other."""
    stops: tuple[float, ...]
    """When each job but the last ends, as a part of all steps of all epochs."""
    epochs: int


def random_case(rng: random.Random, *, workers: range, records: int = 2000) -> Case:
    """A case whose batch all of its jobs can share."""
    count = rng.choice([1, 1, 2, 3])
    sizes = tuple(random_shards(rng, rng.randint(1, records // count)) for _ in range(count))
    slices = tuple(random_slices(rng, sum(shards)) for shards in sizes)
    weights = [rng.choice([0.5, 1, 2, 3]) for _ in sizes] if rng.random() < 0.5 else None
    if weights and not all(map(len_of, sizes, slices)):
        weights = None
    batch_size = rng.choice([rng.randint(1, 64), 12, 16, 24, 48, 60, 64])
    jobs = []
    for _ in range(3):
        several = rng.choice([n for n in workers if batch_size % n == 0] or [1])
        each = [n for n in (1, 2, 3, 4) if batch_size % (several * n) == 0]
        jobs.append((several, rng.choice([1, 1, *each])))
    return Case(
        sizes=sizes,
        slices=slices,
        settings={
            "batch_size": batch_size,
            "shuffle": rng.choice([True, False, rng.randint(1, 500), "global"]),
            "shuffle_bytes": rng.choice([1, 4000, 40_000, 256 << 20]),
            "remainder": rng.choice(REMAINDERS),
            "seed": rng.choice([0, 1, -7, rng.getrandbits(80)]),
            "weights": weights,
            "echoing": rng.choice([1, 1, 1, 2, 3]),
        },
        jobs=tuple(jobs),
        stops=tuple(rng.choice([0.0, 1.0, 0.5, rng.random(), rng.random()]) for _ in range(2)),
        epochs=rng.choice([1, 2, 3]),
    )


def random_shards(rng: random.Random, records: int) -> tuple[int, ...]:
    """Sizes of 1 to 40 shards: alike, very uneven, some of them empty."""
    count = rng.randint(1, 40)
    cuts = sorted(
        rng.choice([rng.randint(0, records), rng.randint(0, records // 10)])
        for _ in range(count - 1)
    )
    return tuple(b - a for a, b in itertools.pairwise([0, *cuts, records]))


def random_slices(rng: random.Random, size: int) -> tuple[tuple[int | None, int | None], ...]:
    """One or two slices, which may overlap, by records."""

    def one() -> tuple[int | None, int | None]:
        a, b = sorted((rng.randint(0, size), rng.randint(0, size)))
        return rng.choice([(None, None), (a, None), (None, b), (a, b), (None, size - size // 10)])

    return (one(),) if rng.random() < 0.7 else (one(), one())


def len_of(shards: tuple[int, ...], slices: tuple[tuple[int | None, int | None], ...]) -> int:
    return sum(len(range(sum(shards))[a:b]) for a, b in slices)


def truth(case: Case) -> Counter[int]:
    """How often each record comes in an epoch; records of all datasets are numbered through."""
    offsets = itertools.accumulate((sum(shards) for shards in case.sizes), initial=0)
    wanted = [
        [offset + n for a, b in slices for n in range(sum(shards))[a:b]]
        for offset, shards, slices in zip(offsets, case.sizes, case.slices, strict=False)
    ]
    weights = case.settings["weights"]
    if weights is None:
        return Counter(itertools.chain(*wanted))
    longest = max(len(own) / weight for own, weight in zip(wanted, weights, strict=True))
    seen: Counter[int] = Counter()
    for own, weight in zip(wanted, weights, strict=True):
        seen.update(itertools.islice(itertools.cycle(own), round(longest * weight)))
    return seen


def true_sizes(records: int, batch_size: int, remainder: str | None) -> list[int]:
    """How many records each batch of an epoch holds."""
    sizes = [batch_size] * (records // batch_size)
    rest = records % batch_size
    if remainder == "drop" or not rest:
        return sizes
    if remainder == "balance" and sizes:
        both = sizes.pop() + rest
        return [*sizes, math.ceil(both / 2), both // 2]
    return [*sizes, rest]


# --- What the plans say ---


def ranges_of(case: Case) -> list[FileRange]:
    datasets = []
    for index, (shards, slices) in enumerate(zip(case.sizes, case.slices, strict=True)):
        files = [
            FileRange(f"/{index}/{shard}", 0, records, to_end=True)
            for shard, records in enumerate(shards)
        ]
        text = "+".join(
            f"train[{'' if a is None else a}:{'' if b is None else b}]" for a, b in slices
        )
        wanted = resolve_slices(text, {"train": sum(shards)})
        datasets.append([part for one in wanted for part in cut(files, one.start, one.stop)])
    return mix_ranges(datasets, case.settings["weights"])


class Reader:
    """Reads as the graph does, but records are their numbers."""

    def __init__(self, case: Case) -> None:
        self._first: dict[str, int] = {}
        first = 0
        for index, shards in enumerate(case.sizes):
            for shard, records in enumerate(shards):
                self._first[f"/{index}/{shard}"] = first
                first += records

    def read(self, parts: list[FileRange]) -> np.ndarray:
        found = [self._first[p.path] + np.arange(p.skip, p.skip + p.take) for p in parts]
        return np.concatenate([*found, np.zeros(0, np.int64)]).astype(np.int64)

    def batches(self, order: InputOrder, worker: int, epoch: int, step: int) -> Iterator[list[int]]:
        """A worker's rows of each batch of an epoch from a step on."""
        strategy = order.strategy(worker)
        if isinstance(strategy, GlobalShuffle):
            for number in range(step, order.layout.steps):
                yield self.named(strategy.records(epoch, number))
        elif isinstance(strategy, Sequential):
            parts, sizes = strategy.reads(epoch, step)
            records = self.read(parts)
            for size in itertools.cycle(sizes.tolist()):
                if not len(records):
                    return
                batch, records = records[:size], records[size:]
                workers = order.layout.num_workers
                begin = worker * len(batch) // workers
                yield batch[begin : (worker + 1) * len(batch) // workers].tolist()
        else:
            yield from self._windowed(strategy, order, epoch, step)

    def _windowed(
        self, strategy: Windowed, order: InputOrder, epoch: int, step: int
    ) -> Iterator[list[int]]:
        reads = strategy.reads(epoch, step)
        held = self._in_turn([self.read(parts) for parts in reads.lanes], strategy.block)
        skip = step - int(strategy.starts[reads.window])
        bound = max(order.window_records // 3, 3 * order.layout.batch_size)
        for number, size in enumerate(reads.sizes.tolist(), start=reads.window):
            window, held = held[:size], held[size:]
            rows, ends = strategy.places(epoch, number)
            assert size <= bound  # of memory
            steps = int(strategy.starts[number + 1] - strategy.starts[number])
            assert len(ends) == steps
            begins = [0, *ends.tolist()]
            for begin, end in list(itertools.pairwise(begins))[skip:]:
                yield window[rows[begin:end]].tolist()
            skip = 0
        assert not len(held)

    def named(self, records: list[RecordName]) -> list[int]:
        return [self._first[path] + number for path, number in records]

    @staticmethod
    def _in_turn(lanes: list[np.ndarray], block: int) -> np.ndarray:
        """What `interleave` gives: a block of each lane in turn, until all are at their end."""
        rounds = -(-max(map(len, lanes)) // block)
        blocks = [own[n * block : (n + 1) * block] for n in range(rounds) for own in lanes]
        return np.concatenate([np.zeros(0, np.int64), *blocks])


def run(
    case: Case, ranges: list[FileRange], workers: int, replicas: int, token: Any, stop: int | None
) -> tuple[list[list[list[int]]], Any]:
    """Each worker's rows of each step from a token on; and the token at `stop`.

    What strategies read, one batch after the other, is what they say of each step alone.
    """
    options = OrderOptions(**case.settings, state=token)
    order = InputOrder(
        ranges,
        options,
        num_workers=workers,
        num_replicas=workers * replicas,
        mean_record_bytes=100,
        digest="digest",
    )
    start, each = order.start, order.steps_per_epoch
    begun = start.epoch * each + start.step
    end = case.epochs * each if stop is None else stop
    steps: list[list[list[int]]] = []
    reader = Reader(case)
    for epoch in range(start.epoch, case.epochs):
        first = start.step if epoch == start.epoch else 0
        if not each or begun + len(steps) >= end:
            break
        plain = first // options.echoing
        own = [list(reader.batches(order, worker, epoch, plain)) for worker in range(workers)]
        assert len({len(batches) for batches in own}) == 1, (
            "workers take different numbers of steps"
        )
        of_epoch = [[list(rows) for rows in step] for step in zip(*own, strict=True)]
        echoed = [step for step in of_epoch for _ in range(options.echoing)]
        for number in {first, (first + each) // 2, each - 1} if each else ():
            for worker in range(workers):
                records = order.records(epoch=epoch, step=number, worker=worker)
                index = number - first // options.echoing * options.echoing
                assert reader.named(records) == echoed[index][worker]
        steps += echoed[first % options.echoing :]
    return steps[: end - begun], order.state(end).to_json()


def check(case: Case) -> str:
    """Holds a case to the truth; says what kind of case it was."""
    settings = case.settings
    batch_size, remainder, echo = (settings[k] for k in ("batch_size", "remainder", "echoing"))
    expected = truth(case)
    sizes = true_sizes(expected.total(), batch_size, remainder)
    ranges = ranges_of(case)
    least = min(sizes, default=batch_size)
    too_many = [job for job in case.jobs if remainder == "balance" and least < math.prod(job)]
    if too_many or (remainder == "drop" and 0 < expected.total() < batch_size):
        refused = too_many[0] if too_many else case.jobs[0]
        with pytest.raises(ConfigError):
            run(case, ranges, *refused, None, 0)
        return "refused"

    one, _ = run(case, ranges, 1, 1, None, None)
    rows_of_one = [sorted(step[0]) for step in one]
    assert [len(rows) for rows in rows_of_one] == [
        size for size in sizes for _ in range(echo)
    ] * case.epochs
    per_epoch = len(sizes) * echo
    left_out = []
    for epoch in range(case.epochs):
        of_epoch = rows_of_one[epoch * per_epoch : (epoch + 1) * per_epoch : echo]
        seen = Counter(itertools.chain(*of_epoch))
        assert seen <= expected
        left_out.append((expected - seen).total())
    lost = expected.total() % batch_size if remainder == "drop" else 0
    assert left_out == [lost] * case.epochs

    token, begun, resized = None, 0, []
    stops = [*sorted(int(part * len(one)) for part in case.stops), None]
    for (workers, replicas), stop in zip(case.jobs, stops, strict=True):
        if settings["shuffle"] not in ("global", False) and workers > 8 and token is None:
            return check_lanes(case, ranges)
        steps, token = run(case, ranges, workers, replicas, token, stop)
        for step in steps:
            total = sum(map(len, step))
            assert {len(rows) for rows in step} <= {total // workers, -(-total // workers)}
        resized += [sorted(itertools.chain(*step)) for step in steps]
        begun += len(steps)
        assert stop is None or begun == stop
    assert resized == rows_of_one
    return "exact"


def check_lanes(case: Case, ranges: list[FileRange]) -> str:
    """Where the first job has more workers than eight, its lanes are those of all that follow."""
    rows_of_first = None
    token, resized = None, []
    whole, _ = run(case, ranges, *case.jobs[0], None, None)
    rows_of_first = [sorted(itertools.chain(*step)) for step in whole]
    stops = [*sorted(int(part * len(whole)) for part in case.stops), None]
    for (workers, replicas), stop in zip(case.jobs, stops, strict=True):
        steps, token = run(case, ranges, workers, replicas, token, stop)
        resized += [sorted(itertools.chain(*step)) for step in steps]
    assert resized == rows_of_first
    return "exact"


def sweep(seeds: range, **kinds: Any) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in seeds:
        case = random_case(random.Random(seed), **kinds)
        try:
            found[check(case)] += 1
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {case}") from error
    return found


# --- Tests ---


@pytest.mark.parametrize("part", range(3))
def test_jobs_of_one_to_eight_workers_take_turns_on_the_same_batches(part):
    found = sweep(range(part * 100, (part + 1) * 100), workers=range(1, 9), records=1000)
    assert found["exact"] > 80


@pytest.mark.slow
@pytest.mark.parametrize(
    "part",
    [0, *(pytest.param(part, marks=pytest.mark.faults) for part in range(1, 50))],
)
def test_jobs_of_one_to_eight_workers_take_turns_in_thousands_of_plans(part):
    found = sweep(range(1000 + part * 100, 1100 + part * 100), workers=range(1, 9))
    assert found["exact"] > 80


def test_jobs_of_more_than_eight_workers_take_turns_too():
    found = sweep(range(10_000, 10_060), workers=range(1, 33), records=400)
    assert found["exact"] > 50


def test_few_records_for_many_workers():
    found = sweep(range(20_000, 20_300), workers=range(1, 9), records=30)
    assert found["exact"] > 150
