"""What each worker reads in an epoch, worked out before anything is read.

    print(plan_workers(InputOrder(ranges, options, num_workers=8)))

A plan that is impossible raises, with the setting to change.
"""

import dataclasses
from collections.abc import Sequence

from trainer_utils.format.file_ranges import FileRange, RecordPositions
from trainer_utils.format.json_text import JsonObject
from trainer_utils.order.input_order import InputOrder
from trainer_utils.text_output import Part, Shown, make_table, quantity

__all__ = ["InputPlan", "WorkerPlan", "plan_workers"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkerPlan:
    """What one worker reads in an epoch.

    Args:
        worker: its number, from 0.
        records: examples that it yields.
        steps: the same for all workers.
        dropped: records of its share that it leaves out, others next epoch where it shuffles.
        padded: rows of weight 0 that it adds.
        shards: the parts of files that it reads.
    """

    worker: int
    records: int
    steps: int
    dropped: int
    padded: int
    shards: Sequence[FileRange]


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputPlan(Shown):
    """What all workers read in an epoch. As text it is a table.

    Args:
        records: that there are.
        batch_size: of the global batch.
        steps: of an epoch.
        workers: what each reads.
    """

    records: int
    batch_size: int
    steps: int
    workers: Sequence[WorkerPlan]

    @property
    def dropped(self) -> int:
        """Records that no worker yields in an epoch."""
        return sum(worker.dropped for worker in self.workers)

    @property
    def padded(self) -> int:
        """Rows of weight 0 in an epoch."""
        return sum(worker.padded for worker in self.workers)

    def to_dict(self) -> JsonObject:
        """The plan as what JSON can hold."""
        return {**dataclasses.asdict(self), "dropped": self.dropped, "padded": self.padded}

    def parts(self) -> list[Part]:
        """What a person sees: a sentence and a table."""
        header = ["worker", "records", "steps", "dropped", "padded", "shards"]
        rows = []
        for one in self.workers:
            shards = [f"{part.path} [{part.skip}:{part.skip + part.take}]" for part in one.shards]
            counts = [one.worker, one.records, one.steps, one.dropped, one.padded]
            rows.append([*counts, [len(shards), *shards]])
        return [
            f"{quantity(self.records, 'record')} in global batches of {self.batch_size:,}: "
            f"{quantity(self.steps, 'step')}, {quantity(self.dropped, 'record')} dropped, "
            f"{quantity(self.padded, 'row')} padded",
            make_table(header, rows),
        ]


def plan_workers(order: InputOrder) -> InputPlan:
    """What every worker of an order reads.

    Without `shuffle`, and with `"global"`, workers have no ranges of their own, so that each one's
    shards are all shards.
    """
    options, layout = order.options, order.layout
    reads_ranges = (
        options.batch_size is None if not options.shuffle else options.shuffle != "global"
    )
    positions = RecordPositions(order.ranges)
    return InputPlan(
        records=layout.num_records,
        batch_size=layout.batch_size,
        steps=layout.steps * options.echoing,
        workers=[
            WorkerPlan(
                worker=worker,
                records=share.used,
                steps=layout.steps * options.echoing,
                dropped=share.dropped,
                padded=share.padded,
                shards=positions.cut(share.start, share.stop) if reads_ranges else order.ranges,
            )
            for worker, share in enumerate(map(layout.share, range(layout.num_workers)))
        ],
    )
