"""`shuffle=False`: records in the order of the files.

order = sequential(ranges, layout=layout, worker=0, read=reader(1e5))
vectors = order(epoch, step)     # `(rows of a worker,) string` each

Each worker reads past the rows of the others, so that batches are the neighbours that they are on
one worker. With `remainder="drop"` each epoch begins so much later that others are left out.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.dataset.opening import FileRange
from trainer_utils.format.file_ranges import cut
from trainer_utils.order.layout import EQUAL, Layout
from trainer_utils.reading.dataflow import mapped, owned, rebatched
from trainer_utils.reading.pieces import planned
from trainer_utils.reading.records import ReadPiece, stream

__all__ = ["read_in_order", "sequential"]


def sequential(
    ranges: Sequence[FileRange], *, layout: Layout, worker: int, rotates: bool, read: ReadPiece
) -> Callable[[tf.Tensor, tf.Tensor], tf.data.Dataset]:
    """A worker's records, of all those in the order of the files.

    Args:
        ranges: of all workers.
        layout: of an epoch.
        worker: which one this is.
        rotates: whether each epoch begins so much later that others are left out.
        read: how a piece is read.

    Returns:
        A function of the epoch and of the first step in it, to vectors of serialized records: a
        worker's rows of each batch; of single examples, all that are left.
    """
    workers = layout.num_workers

    def plan(epoch: int, step: int) -> tuple[list[FileRange], npt.NDArray[np.int64]]:
        if layout.remainder == EQUAL:  # there are no batches of which others have rows
            share = layout.share(worker)
            own = cut(ranges, share.start, share.start + share.used)
            return cut(own, step * layout.rows_per_worker, share.used), np.array(
                [layout.rows_per_worker]
            )
        return read_in_order(ranges, layout, epoch if rotates else 0, step)

    def own_rows(records: tf.Tensor) -> tf.Tensor:
        size = tf.size(records, tf.int64)
        return records[worker * size // workers : (worker + 1) * size // workers]

    def order(epoch: tf.Tensor, step: tf.Tensor) -> tf.data.Dataset:
        wanted, sizes = planned(plan, epoch, step)
        batches = rebatched(stream(wanted, read), sizes)
        if workers > 1 and layout.remainder != EQUAL:
            batches = mapped(batches, own_rows)
        return owned(batches)

    return order


def read_in_order(
    ranges: Sequence[FileRange], layout: Layout, epoch: int, step: int
) -> tuple[list[FileRange], npt.NDArray[np.int64]]:
    """What is read in an epoch from a step on, and the sizes of its batches, the last one's last.

    Sizes are those of `rebatched`: where fewer are left, the last batch is smaller.
    """
    total = layout.num_records
    first = epoch * layout.left_out % max(total, 1)
    start, stop = first + layout.begin(step), first + layout.begin(layout.steps)
    around = cut(ranges, max(start - total, 0), stop - total)  # again from the first file on
    if len(layout.rest) < 2:
        sizes = np.array([layout.batch_size])
    else:
        sizes = np.full(layout.steps, layout.batch_size, np.int64)
        sizes[layout.full_steps :] = layout.rest
        sizes = sizes[step:]
    return [*cut(ranges, start, stop), *around], sizes
