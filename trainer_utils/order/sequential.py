"""`shuffle=False`: records in the order of the files.

strategy = Sequential(ranges, layout=layout, worker=0)
strategy.positions(epoch=0, step=1)      # of a batch of 4: [4, 5, 6, 7]

Each worker reads past the rows of the others, so that batches are the neighbours that they are on
one worker. With `remainder="drop"` each epoch begins later, so that other records are dropped.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trainer_utils.format.file_ranges import FileRange, cut
from trainer_utils.order.layout import EQUAL, BatchLayout
from trainer_utils.order.strategy import Positions, ShuffleStrategy

__all__ = ["Sequential", "SequentialReads"]


class SequentialReads(NamedTuple):
    """What to read, and how many records each batch of it has.

    Where fewer sizes are given than there are batches, they come again in turn, and the last batch
    is smaller where fewer records are left.
    """

    ranges: list[FileRange]
    sizes: Positions


class Sequential(ShuffleStrategy):
    """The order of the files.

    Args:
        ranges, layout, worker: as of `ShuffleStrategy`.
        rotates: whether each epoch begins later, so that other records are dropped.
    """

    def __init__(
        self,
        ranges: Sequence[FileRange],
        *,
        layout: BatchLayout,
        worker: int,
        rotates: bool = False,
    ) -> None:
        super().__init__(ranges, layout=layout, worker=worker)
        self._rotates = rotates
        self.reads_own_rows = layout.remainder == EQUAL
        """Whether only this worker's rows are read: of single examples there are no batches."""

    def positions(self, epoch: int, step: int) -> Positions:
        """As of `ShuffleStrategy`."""
        layout = self.layout
        if self.reads_own_rows:
            share = layout.share(self.worker)
            first = share.start + step * layout.rows_per_worker
            return np.arange(first, min(first + layout.rows_per_worker, share.start + share.used))
        first, last = layout.rows(self.worker, step=step)
        rows = np.arange(first, last) + layout.begin(step) + self._first(epoch)
        return rows % max(layout.num_records, 1)

    def step_of(self, epoch: int, position: int) -> int | None:
        """As of `ShuffleStrategy`."""
        layout = self.layout
        if not self.reads_own_rows:
            return layout.step_of((position - self._first(epoch)) % layout.num_records)
        for share in map(layout.share, range(layout.num_workers)):
            if share.start <= position < share.stop:
                own = position - share.start
                return own // layout.rows_per_worker if own < share.used else None
        return None

    def reads(self, epoch: int, step: int) -> SequentialReads:
        """What is read in an epoch from a step on."""
        layout = self.layout
        if self.reads_own_rows:
            share, size = layout.share(self.worker), layout.rows_per_worker
            own = cut(self.ranges, share.start + step * size, share.start + share.used)
            return SequentialReads(own, np.array([size]))
        total = layout.num_records
        first = self._first(epoch)
        start, stop = first + layout.begin(step), first + layout.begin(layout.steps)
        # Past the last file it is again from the first on.
        around = cut(self.ranges, max(start - total, 0), stop - total)
        sizes = np.array([layout.batch_size])
        if len(layout.rest) > 1:
            sizes = np.full(layout.steps, layout.batch_size, np.int64)
            sizes[layout.full_steps :] = layout.rest
            sizes = sizes[step:]
        return SequentialReads([*cut(self.ranges, start, stop), *around], sizes)

    def _first(self, epoch: int) -> int:
        """The position that an epoch begins at."""
        if not self._rotates:
            return 0
        return epoch * self.layout.num_dropped % max(self.layout.num_records, 1)
