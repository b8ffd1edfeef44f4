"""How many rows each global batch has, and which of them are whose: arithmetic on counts alone.

layout = BatchLayout(num_records=23, batch_size=8, num_workers=2, remainder="pad")
layout.rows(1, step=2)        # (3, 7): the last batch has 7 records, worker 1 has rows 3 to 6
"""

import dataclasses

from trainer_utils.format import ConfigError
from trainer_utils.format.settings import one_of

REMAINDERS = (None, "drop", "pad", "balance")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchLayout:
    """How the records of an epoch fill its batches, and how workers divide these.

    Args:
        num_records: of an epoch.
        batch_size: of the GLOBAL batch.
        num_workers: input pipelines, each of which gets an equal share, one after the other.
        num_replicas: of all workers together, each of which gets an equal share of a batch; a
            multiple of the workers. 0: one each.
        remainder: what becomes of the records that fill no whole batch, as in `OrderOptions`.
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
            rule = f"a divisor of the {replicas} replicas"
            raise ConfigError.of("workers", self.num_workers, allowed=rule)
        if self.batch_size < 1 or self.batch_size % replicas:
            rule = f"a multiple of the {replicas} replicas"
            raise ConfigError.of("batch_size", self.batch_size, allowed=rule)
        one_of(*REMAINDERS)("remainder", self.remainder)
        self._check_balance(replicas, any(rows < replicas for rows in self.rest))

    def check_divided(self, num_replicas: int) -> None:
        """Refuses `balance` where TensorFlow, dividing one worker's batches, leaves a replica none.

        Of 4 records for 3 replicas it makes 2, 2 and 0.
        """
        sizes = (*self.rest, self.batch_size) if self.full_steps else self.rest
        self._check_balance(num_replicas, any(_left_empty(rows, num_replicas) for rows in sizes))

    def _check_balance(self, num_replicas: int, lacks_rows: bool) -> None:
        if lacks_rows and self.remainder == "balance":
            rule = (
                f"'pad' or 'drop', since {self.num_records} records in batches of "
                f"{self.batch_size} cannot give each of {num_replicas} replicas one in every step"
            )
            raise ConfigError.of("remainder", "balance", allowed=rule)

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
        """Replicas that each worker feeds."""
        return self.num_replicas // self.num_workers

    @property
    def steps(self) -> int:
        """Steps of an epoch, the same for any number of workers."""
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
        if self.remainder == "drop" or not rest:
            return ()
        if rest > self.batch_size:  # to be balanced; the larger one comes first
            return (rest - rest // 2, rest // 2)
        return (rest,)

    @property
    def num_dropped(self) -> int:
        """Records that are in no batch of an epoch."""
        return self.num_records - self.begin(self.steps)

    def begin(self, step: int) -> int:
        """How many records the batches before a step hold."""
        full = min(step, self.full_steps)
        return full * self.batch_size + sum(self.rest[: step - full])

    def size(self, step: int) -> int:
        """How many records the batch of a step holds; it may be filled up with others."""
        return self.batch_size if step < self.full_steps else self.rest[step - self.full_steps]

    def rows(self, worker: int, *, step: int) -> tuple[int, int]:
        """The first of a worker's rows of the batch of a step, and the one after its last."""
        size, workers = self.size(step), self.num_workers
        return worker * size // workers, (worker + 1) * size // workers

    def records_of(self, worker: int) -> int:
        """How many records a worker gets in an epoch."""
        last = (self.rows(worker, step=step) for step in range(self.full_steps, self.steps))
        return self.full_steps * self.rows_per_worker + sum(stop - start for start, stop in last)

    def empty_replicas(self, *, divided: int = 0) -> int:
        """Replicas that get no row of the last batch, and none of weight 0 either.

        `divided`: of so many among which TensorFlow divides one worker's batches.
        """
        if self.remainder is not None or not self.rest:
            return 0
        if divided:
            return _left_empty(self.rest[-1], divided)
        return max(self.num_replicas - self.rest[-1], 0)


def _left_empty(rows: int, num_replicas: int) -> int:
    """Replicas without a row where TensorFlow divides a batch: it rounds their shares up."""
    share = -(-rows // num_replicas)
    return num_replicas - -(-rows // share)
