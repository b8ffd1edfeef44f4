"""Divide the records of an epoch into batches, and the rows of each batch among workers.

    layout = BatchLayout(num_records=23, batch_size=8, num_workers=2, remainder="pad")
    layout.rows(1, step=2)        # (3, 7): the last batch has 7 records, worker 1 has rows 3 to 6

`remainder` decides about the records that fill no whole batch.
"""

import dataclasses

from trainer_utils.core.errors import ConfigError
from trainer_utils.core.settings import one_of

REMAINDERS = (None, "drop", "pad", "balance")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchLayout:
    """The division of an epoch's records into batches, and of batches among workers.

    Args:
        num_records: records in an epoch.
        batch_size: size of the GLOBAL batch.
        num_workers: input pipelines. Each gets an equal, contiguous share of every batch.
        num_replicas: the replicas of all workers together, a multiple of `num_workers`; each gets
            an equal share of a batch. 0: one per worker.
        remainder: the handling of records that do not fill a whole batch; see `OrderOptions`.
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
        self.empty_replicas()

    def empty_replicas(self, *, divided: int = 0) -> int:
        """Return the number of replicas that get no row of a last batch, not even of weight 0.

        Args:
            divided: the number of replicas among which TensorFlow splits one worker's batch. It
                rounds shares up: 4 records for 3 replicas become 2, 2 and 0.

        Raises:
            ConfigError: `remainder` is "balance" and a replica would be empty.
        """
        sizes, replicas = self.rest, divided or self.num_replicas
        if self.remainder == "balance" and self.full_steps:
            sizes = (*sizes, self.batch_size)
        elif self.remainder == "pad":
            sizes = ()
        empty = 0
        for rows in sizes:
            share = -(-rows // replicas) if divided else 1
            empty = max(empty, replicas - -(-rows // share))
        if empty and self.remainder == "balance":
            rule = (
                f"'pad' or 'drop', since {self.num_records} records in batches of "
                f"{self.batch_size} cannot give each of {replicas} replicas one in every step"
            )
            raise ConfigError.of("remainder", "balance", allowed=rule)
        return empty

    @property
    def rows_per_worker(self) -> int:
        """Rows of a full batch that each worker gets."""
        return self.batch_size // self.num_workers

    @property
    def rows_per_replica(self) -> int:
        """Rows of a full batch that each replica gets."""
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
        """Steps with a full batch. The steps of `rest` follow."""
        full, rest = divmod(self.num_records, self.batch_size)
        return full - 1 if self.remainder == "balance" and full and rest else full

    @property
    def rest(self) -> tuple[int, ...]:
        """Sizes of the batches after the full ones: no, one or two batches."""
        rest = self.num_records - self.full_steps * self.batch_size
        if self.remainder == "drop" or not rest:
            return ()
        if rest > self.batch_size:  # balance the last two batches, the larger one first
            return (rest - rest // 2, rest // 2)
        return (rest,)

    @property
    def num_dropped(self) -> int:
        """Records that are in no batch of an epoch."""
        return self.num_records - self.begin(self.steps)

    def begin(self, step: int) -> int:
        """Return the number of records in the batches before a step."""
        full = min(step, self.full_steps)
        return full * self.batch_size + sum(self.rest[: step - full])

    def size(self, step: int) -> int:
        """Return the number of records in the batch of a step, without padding."""
        return self.batch_size if step < self.full_steps else self.rest[step - self.full_steps]

    def rows(self, worker: int, *, step: int) -> tuple[int, int]:
        """Return the first row of a worker in the batch of a step, and the row after its last."""
        size, workers = self.size(step), self.num_workers
        return worker * size // workers, (worker + 1) * size // workers

    def records_of(self, worker: int) -> int:
        """Return the number of records that a worker gets in an epoch."""
        last = (self.rows(worker, step=step) for step in range(self.full_steps, self.steps))
        return self.full_steps * self.rows_per_worker + sum(stop - start for start, stop in last)
