"""Who reads which records of an epoch, and in how many steps: arithmetic on counts alone.

    layout = Layout(num_records=23, batch_size=8, num_workers=2, remainder="pad")
    layout.steps                  # 3
    layout.share(1)               # Share(records=12, dropped=0, padded=0, ...)

An epoch is dealt out in lanes: equal contiguous ranges of the records, as many as every usual
number of workers divides. Each global batch takes the same number of rows of every lane, and a
worker owns neighbouring lanes. So a worker's records are one range, and yet the k-th global batch
holds the same records however many workers there are, which is what lets another number of
workers continue where this one stopped.
"""

import dataclasses
import math
from collections.abc import Sequence

from trainer_utils.format import ConfigError

__all__ = ["REMAINDERS", "Layout", "Share"]

REMAINDERS = (None, "drop", "pad", "balance")
_USUAL_WORKERS = range(1, 9)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Share:
    """What one worker gets of an epoch.

    Args:
        start, stop: its records, of all those of the epoch, where they are a range.
        used: how many of its records it sees, in each epoch.
        dropped: how many it leaves out.
        padded: rows of weight 0 that it adds.
        rows: of each full element that it yields. A step takes as many elements as the worker has
            replicas.
        full: how many of these come first.
        tail: rows of the elements that follow.
    """

    start: int
    stop: int
    used: int
    dropped: int
    padded: int
    rows: int
    full: int
    tail: Sequence[int]

    @property
    def num_elements(self) -> int:
        """How many elements it yields in an epoch."""
        return self.full + len(self.tail)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """How the records of an epoch are dealt to workers, and what becomes of the rest.

    Args:
        num_records: of an epoch.
        batch_size: of the GLOBAL batch.
        num_workers: input pipelines, each of which gets an equal share.
        num_replicas: of all workers together, each of which gets an equal share of a batch; a
            multiple of the workers.
        remainder: what becomes of the records that fill no batch. `drop`: they are left out.
            `pad`: the last batch is filled up with rows of weight 0. `balance`: the last two
            batches are made equally large, so that none is nearly empty. None: the last batch is
            as large as equal shares can be; fewer records than there are workers are left out.

    Raises:
        ConfigError: a setting is not allowed, or the plan is impossible.
    """

    num_records: int
    batch_size: int
    num_workers: int = 1
    num_replicas: int = 0
    remainder: str | None = None

    def __post_init__(self) -> None:
        if not self.num_replicas:
            object.__setattr__(self, "num_replicas", self.num_workers)
        replicas = self.num_replicas
        if self.num_workers < 1 or replicas % self.num_workers:
            raise ConfigError(
                f"workers: expected a divisor of the {replicas} replicas, got {self.num_workers}"
            )
        if self.batch_size < 1 or self.batch_size % replicas:
            raise ConfigError(
                f"batch_size: expected a multiple of the {replicas} replicas, got {self.batch_size}"
            )
        if self.remainder not in REMAINDERS:
            names = ", ".join(repr(name) for name in REMAINDERS)
            raise ConfigError(f"remainder: expected one of {names}, got {self.remainder!r}")
        self._check_possible()

    def _check_possible(self) -> None:
        records, size = self.num_records, self.batch_size
        if self.remainder == "drop" and 0 < records < size:
            raise ConfigError(
                f"batch_size: expected at most the {records} records that there are, got {size}: "
                "remainder='drop' would leave out all of them. Take a smaller batch, or 'pad'."
            )
        if self.remainder == "balance" and any(
            rows == 0 for worker in range(self.num_workers) for rows in self._balanced(worker)
        ):
            raise ConfigError(
                f"remainder: expected 'pad' or 'drop', since {records} records in batches of "
                f"{size} cannot give each of {self.num_replicas} replicas a record in every step, "
                "got 'balance'"
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
    def steps(self) -> int:
        """Steps of an epoch, the same for every worker."""
        if self.remainder == "drop":
            return self.num_records // self.batch_size
        if self.remainder is None:
            return -(-(self.num_records // self.num_workers) // self.rows_per_worker)
        return -(-self.num_records // self.batch_size)

    @property
    def full_steps(self) -> int:
        """Steps whose batch is full, and the same for any number of workers; the others follow."""
        full = self.num_records // self.batch_size
        if self.remainder == "balance" and full < self.steps:
            return max(full - 1, 0)
        return full

    @property
    def num_lanes(self) -> int:
        """Lanes that the records are dealt in: a divisor of the batch, a multiple of all replicas.

        The same for all numbers of replicas up to 8 that divide the batch.
        """
        usual = (count for count in _USUAL_WORKERS if self.batch_size % count == 0)
        return math.lcm(self.num_replicas, *usual)

    def lane_bounds(self, lane: int) -> tuple[int, int]:
        """The first record of a lane, and the one after its last."""
        return _part(self.num_records, lane, self.num_lanes)

    def lanes_of(self, worker: int) -> range:
        """The lanes of a worker."""
        each = self.num_lanes // self.num_workers
        return range(worker * each, (worker + 1) * each)

    def lane_takes(self, worker: int) -> list[int]:
        """How many records are taken of each lane of a worker; what is dropped is left out."""
        bounds = [self.lane_bounds(lane) for lane in self.lanes_of(worker)]
        takes = [stop - start for start, stop in bounds]
        dropped = self.share(worker).dropped
        least = self.full_steps * self.batch_size // self.num_lanes
        for index in reversed(range(len(takes))):
            cut = min(dropped, takes[index] - least)
            takes[index] -= cut
            dropped -= cut
        return takes

    def share(self, worker: int) -> Share:
        """What the `worker`-th worker gets."""
        start, stop = _part(self.num_records, worker, self.num_workers)
        full, tail = self._elements(worker)
        rows = full * self.rows_per_replica + sum(tail)
        padded = max(rows - (stop - start), 0)
        used = rows - padded
        return Share(
            start=start,
            stop=stop,
            used=used,
            dropped=stop - start - used,
            padded=padded,
            rows=self.rows_per_replica,
            full=full,
            tail=tail,
        )

    def _elements(self, worker: int) -> tuple[int, list[int]]:
        """How many full elements a worker yields, and the rows of those that follow."""
        replicas = self.num_replicas // self.num_workers
        if self.remainder == "balance":
            return self.full_steps * replicas, self._balanced(worker)
        if self.remainder is None:
            full, rest = divmod(self.num_records // self.num_workers, self.rows_per_replica)
            return full, [rest] * bool(rest)
        return self.steps * replicas, []

    def _balanced(self, worker: int) -> list[int]:
        """Rows of the elements after the full steps, with `balance`."""
        start, stop = _part(self.num_records, worker, self.num_workers)
        rows = stop - start - self.full_steps * self.rows_per_worker
        steps = self.steps - self.full_steps
        replicas = self.num_replicas // self.num_workers
        parts = []
        for step in range(steps):
            first, last = _part(rows, steps - 1 - step, steps)  # the larger one comes first
            parts += [_size(_part(last - first, r, replicas)) for r in range(replicas)]
        return parts


def _part(total: int, index: int, count: int) -> tuple[int, int]:
    """The `index`-th of `count` equal parts of a range: sizes differ by one at the most."""
    return index * total // count, (index + 1) * total // count


def _size(bounds: tuple[int, int]) -> int:
    return bounds[1] - bounds[0]
