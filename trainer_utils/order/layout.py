"""Who reads which rows of each global batch: arithmetic on counts alone.

    layout = BatchLayout(num_records=23, batch_size=8, num_workers=2, remainder="pad")
    layout.steps                  # 3
    layout.rows(1, step=2)        # (3, 7): the last batch has 7 records, worker 1 has rows 3 to 6
    layout.share(1)               # Share(start=11, stop=23, used=12, dropped=0, padded=0)

How many records each global batch holds follows from their number, the batch size and the
remainder alone. A worker's rows of a batch are its part of equal ones, one after the other, and so
for a smaller last batch too. Hence the k-th global batch holds the same records however many
workers there are, and a step is a step for any number of them: that is what lets another number of
workers continue where this one stopped.

Where workers read ranges of the records, rather than reading past those of others, the records are
laid out in lanes. Lanes are ranges too, and the parts of each batch that each of them gives are
equal ones as well; so as long as the lanes are the same, the batches are.
"""

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from trainer_utils.format import ConfigError

__all__ = ["EQUAL", "REMAINDERS", "BatchLayout", "Share"]

REMAINDERS = (None, "drop", "pad", "balance")
EQUAL = "equal"
"""Of single examples: all workers get equally many; fewer than there are workers are dropped.
"""

_USUAL_WORKERS = range(1, 9)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Share:
    """What one worker gets of an epoch.

    Args:
        start, stop: its records, of all those of the epoch, where they are a range.
        used: how many records it sees, in each epoch.
        dropped: how many of its range it leaves out.
        padded: rows of weight 0 that it adds.
    """

    start: int
    stop: int
    used: int
    dropped: int
    padded: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchLayout:
    """How the records of an epoch are divided among workers, and what becomes of the rest.

    Args:
        num_records: of an epoch.
        batch_size: of the GLOBAL batch.
        num_workers: input pipelines, each of which gets an equal share.
        num_replicas: of all workers together, each of which gets an equal share of a batch; a
            multiple of the workers.
        remainder: what becomes of the records that fill no whole batch. `drop`: they are dropped.
            `pad`: the last batch is filled up with rows of weight 0. `balance`: the last two
            batches are made equally large, so that none is nearly empty. None: the last batch is
            smaller; where it has fewer records than there are replicas, some get none of it.
            `EQUAL`: as None, except for dropped records.
        num_lanes: that the records are laid out in, a divisor of the batch size. 0: as many as
            all usual numbers of workers divide, so that the order is the same for them.

    Raises:
        ConfigError: a setting is not allowed, or the plan is impossible.
    """

    num_records: int
    batch_size: int
    num_workers: int = 1
    num_replicas: int = 0
    remainder: str | None = None
    num_lanes: int = 0

    def __post_init__(self) -> None:
        if not self.num_replicas:
            object.__setattr__(self, "num_replicas", self.num_workers)
        replicas = self.num_replicas
        if self.num_workers < 1 or replicas % self.num_workers:
            raise ConfigError(
                f"workers: expected a divisor of the {replicas} replicas, got {self.num_workers}",
                setting="workers",
            )
        if self.batch_size < 1 or self.batch_size % replicas:
            raise ConfigError(
                f"batch_size: expected a multiple of the {replicas} replicas, got {self.batch_size}"
            )
        if self.remainder not in (*REMAINDERS, EQUAL):
            names = ", ".join(repr(name) for name in REMAINDERS)
            raise ConfigError.of("remainder", self.remainder, allowed=f"one of {names}")
        if not self.num_lanes:
            usual = (count for count in _USUAL_WORKERS if self.batch_size % count == 0)
            object.__setattr__(self, "num_lanes", math.lcm(self.num_workers, *usual))
        if self.num_lanes < 1 or self.batch_size % self.num_lanes:
            raise ConfigError(
                f"num_lanes: expected a divisor of the batch size {self.batch_size}, "
                f"got {self.num_lanes}",
                setting="num_lanes",
            )
        self._check_possible()

    def _check_possible(self) -> None:
        records, size = self.num_records, self.batch_size
        if self.remainder == "drop" and 0 < records < size:
            raise ConfigError(
                f"batch_size: expected at most the {records} records that there are, got {size}: "
                "remainder='drop' would leave out all of them. Take a smaller batch, or 'pad'.",
                setting="batch_size",
            )
        if any(rows < self.num_replicas for rows in self.rest):
            self._check_remainder(self.num_replicas)

    def check_divided(self, num_replicas: int) -> None:
        """Refuses `balance` where TensorFlow, dividing one worker's batches, leaves a replica none.

        Args:
            num_replicas: of that worker; 4 records go to 3 of them as 2, 2 and 0.

        Raises:
            ConfigError: one would get none of some batch.
        """
        sizes = (*self.rest, self.batch_size) if self.full_steps else self.rest
        if any(_left_empty(rows, num_replicas) for rows in sizes):
            self._check_remainder(num_replicas)

    def _check_remainder(self, num_replicas: int) -> None:
        if self.remainder == "balance":
            raise ConfigError(
                f"remainder: expected 'pad' or 'drop', since {self.num_records} records in batches "
                f"of {self.batch_size} cannot give each of {num_replicas} replicas a record in "
                "every step, got 'balance'",
                setting="remainder",
            )

    @property
    def rows_per_worker(self) -> int:
        """A worker's rows of a full batch."""
        return self.batch_size // self.num_workers

    @property
    def rows_per_replica(self) -> int:
        """A replica's rows of a full batch."""
        return self.batch_size // self.num_replicas

    @property
    def replicas_per_worker(self) -> int:
        """Elements that a step takes of each worker."""
        return self.num_replicas // self.num_workers

    @property
    def steps(self) -> int:
        """Steps of an epoch, the same for every worker, and for any number of workers."""
        return self.full_steps + len(self.rest)

    @property
    def full_steps(self) -> int:
        """Steps whose batch is full; those of `rest` follow."""
        full, rest = divmod(self.num_records, self.batch_size)
        return full - 1 if self.remainder == "balance" and full and rest else full

    @property
    def rest(self) -> tuple[int, ...]:
        """How many records each batch after the full ones holds: none, one or two batches."""
        rest = self.num_records - self.full_steps * self.batch_size
        if self.remainder == EQUAL:
            rest -= rest % self.num_workers
        if self.remainder == "drop" or not rest:
            return ()
        if rest > self.batch_size:  # to be balanced; the larger one comes first
            return (rest - rest // 2, rest // 2)
        return (rest,)

    @property
    def num_dropped(self) -> int:
        """Records that are in no batch of an epoch."""
        return self.num_records - self.begin(self.steps)

    def size(self, step: int) -> int:
        """How many records the batch of a step holds; it may be filled up with others."""
        return self.batch_size if step < self.full_steps else self.rest[step - self.full_steps]

    def begin(self, step: int) -> int:
        """How many records the batches before a step hold."""
        full = min(step, self.full_steps)
        return full * self.batch_size + sum(self.rest[: step - full])

    def step_of(self, row: int) -> int | None:
        """The step whose batch has the `row`-th record of an epoch; None: it is dropped."""
        if row < self.full_steps * self.batch_size:
            return row // self.batch_size
        rest = range(self.full_steps, self.steps)
        return next((step for step in rest if row < self.begin(step + 1)), None)

    def rows(self, worker: int, *, step: int) -> tuple[int, int]:
        """The first of a worker's rows of the batch of a step, and the one after its last."""
        return _part(self.size(step), worker, self.num_workers)

    @property
    def empty_replicas(self) -> int:
        """Replicas that get no row of the last batch, and none of weight 0 either."""
        if self.remainder is not None or not self.rest:
            return 0
        return max(self.num_replicas - self.rest[-1], 0)

    def empty_divided(self, num_replicas: int) -> int:
        """The same where TensorFlow divides one worker's batches among so many replicas."""
        if self.remainder is not None or not self.rest:
            return 0
        return _left_empty(self.rest[-1], num_replicas)

    def lanes_of(self, worker: int) -> range:
        """The lanes that a worker's rows lie in; the first and last may be others' too."""
        first = worker * self.num_lanes // self.num_workers
        return range(first, -(-(worker + 1) * self.num_lanes // self.num_workers))

    def lane_bound(self, lane: int) -> int:
        """The first record of a lane; of as many as there are lanes, the number of records."""
        parts = (*self.rest, self.num_dropped)
        full = self.full_steps * (self.batch_size // self.num_lanes) * lane
        return full + sum(rows * lane // self.num_lanes for rows in parts)

    def lane_rows(self, lanes: range, *, size: int) -> npt.NDArray[np.int64]:
        """How many records each of some lanes gives to a batch of so many."""
        bounds = np.arange(lanes.start, lanes.stop + 1, dtype=np.int64) * size // self.num_lanes
        return np.diff(bounds)

    def share(self, worker: int) -> Share:
        """What the `worker`-th worker gets."""
        lanes = self.lanes_of(worker)
        rest = range(self.full_steps, self.steps)
        bounds = [self.rows(worker, step=step) for step in rest]
        used = self.full_steps * self.rows_per_worker + sum(last - first for first, last in bounds)
        first, last = _part(self.num_dropped, worker, self.num_workers)
        padded = self.steps * self.rows_per_worker - used if self.remainder == "pad" else 0
        return Share(
            start=self.lane_bound(lanes.start),
            stop=self.lane_bound(lanes.stop),
            used=used,
            dropped=last - first,
            padded=padded,
        )


def _part(total: int, index: int, count: int) -> tuple[int, int]:
    """The `index`-th of `count` equal parts of a range: sizes differ by one at the most."""
    return index * total // count, (index + 1) * total // count


def _left_empty(rows: int, num_replicas: int) -> int:
    """Replicas without a row where TensorFlow divides a batch: it rounds their shares up."""
    share = -(-rows // num_replicas)
    return num_replicas - -(-rows // share)
