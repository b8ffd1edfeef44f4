"""What each worker reads in an epoch, worked out before anything is read.

print(plan_workers(InputOrder(ranges, options, num_workers=8)))
"""

import dataclasses
from collections.abc import Sequence

from trainer_utils.format.json_text import JsonObject
from trainer_utils.order.input_order import InputOrder
from trainer_utils.text_output import Part, Shown, make_table, quantity


@dataclasses.dataclass(frozen=True)
class WorkerPlan:
    """What one worker reads in an epoch: records and steps, and rows of weight 0 that it adds."""

    worker: int
    records: int
    steps: int
    padded: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputPlan(Shown):
    """What all workers read in an epoch; as text it is a table.

    `dropped` are records that no worker yields, others in the next epoch; `block_records` are
    shuffled together at the least, none in the order of the files.
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
        """Rows of weight 0 in an epoch."""
        return sum(worker.padded for worker in self.workers)

    def to_dict(self) -> JsonObject:
        """The plan as what JSON can hold."""
        return {**dataclasses.asdict(self), "padded": self.padded}

    def parts(self) -> list[Part]:
        """What a person sees: a sentence and a table."""
        header = ["worker", "records", "steps", "padded"]
        rows = [[one.worker, one.records, one.steps, one.padded] for one in self.workers]
        block = quantity(self.block_records, "record")
        shuffled = f"at least {block} shuffled together" if self.block_records else "not shuffled"
        return [
            f"{quantity(self.records, 'record')} of {quantity(self.files, 'file')} in global "
            f"batches of {self.batch_size:,}, {shuffled}: {quantity(self.steps, 'step')}, "
            f"{quantity(self.dropped, 'record')} dropped, {quantity(self.padded, 'row')} padded",
            make_table(header, rows),
        ]


def plan_workers(order: InputOrder) -> InputPlan:
    """What every worker of an order reads."""
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
            WorkerPlan(worker, own, order.steps_per_epoch, max(rows - own, 0))
            for worker, own in enumerate(records)
        ],
    )
