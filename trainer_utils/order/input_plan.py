"""Report the records and steps of each worker for an order of records."""

import dataclasses
from collections.abc import Sequence

from trainer_utils.core.json_text import JsonObject
from trainer_utils.core.text_output import Part, TextReport, make_table, quantity
from trainer_utils.order import InputOrder


@dataclasses.dataclass(frozen=True)
class WorkerPlan:
    """The records and steps of one worker in an epoch, and the rows of weight 0 that it adds."""

    worker: int
    records: int
    steps: int
    padded: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputPlan(TextReport):
    """The plan of all workers for an epoch; `str()` returns a table.

    Attributes:
        records: the number of records.
        batch_size: the size of the global batch.
        steps: the number of steps.
        dropped: records that no worker yields; they differ in the next epoch.
        block_records: the least number of records that are shuffled together; 0 without shuffling.
        files: the number of files.
        workers: the plan of each worker.
    """

    records: int
    batch_size: int
    steps: int
    dropped: int
    block_records: int
    files: int
    workers: Sequence[WorkerPlan]

    @property
    def padded(self) -> int:
        """Number of rows of weight 0 in an epoch."""
        return sum(worker.padded for worker in self.workers)

    def to_dict(self) -> JsonObject:
        """Return the plan as plain JSON types."""
        return {**dataclasses.asdict(self), "padded": self.padded}

    def parts(self) -> list[Part]:
        """Return a sentence and a table to print."""
        header = ["worker", "records", "steps", "padded"]
        rows = [
            [worker.worker, worker.records, worker.steps, worker.padded] for worker in self.workers
        ]
        block = quantity(self.block_records, "record")
        shuffled = f"at least {block} shuffled together" if self.block_records else "not shuffled"
        return [
            f"{quantity(self.records, 'record')} of {quantity(self.files, 'file')} in global "
            f"batches of {self.batch_size:,}, {shuffled}: {quantity(self.steps, 'step')}, "
            f"{quantity(self.dropped, 'record')} dropped, {quantity(self.padded, 'row')} padded",
            make_table(header, rows),
        ]


def plan_workers(order: InputOrder) -> InputPlan:
    """Return the plan of every worker of an order."""
    layout, shuffle = order.layout, order.options.shuffle
    block = order.block_records() if shuffle else 0
    rows = layout.steps * layout.rows_per_worker if layout.remainder == "pad" else 0
    records = [layout.records_of(worker) for worker in range(layout.num_workers)]
    return InputPlan(
        records=layout.num_records,
        batch_size=layout.batch_size,
        steps=order.steps_per_epoch,
        dropped=layout.num_dropped,
        block_records=min(block, layout.num_records),
        files=len({part.path for part in order.ranges}),
        workers=[
            WorkerPlan(worker, num_read, order.steps_per_epoch, max(rows - num_read, 0))
            for worker, num_read in enumerate(records)
        ],
    )
