"""The windowed shuffle: records in another order each epoch, within a bound of memory.

order = windowed(ranges, layout=layout, worker=0, window_records=2560, seed=0, read=reader(1e5))
vectors = order(epoch, step)     # `(rows of a worker,) string` each

What the windows hold and where their records go is `trainer_utils.order.windowed`'s to say; here
they are read, each while the one before it is being used.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer_utils.dataset.opening import FileRange
from trainer_utils.machine import usable_cores
from trainer_utils.order.layout import Layout
from trainer_utils.order.windowed import Numbers, Windows
from trainer_utils.reading.dataflow import flat_mapped, interleaved, mapped, owned, rebatched
from trainer_utils.reading.pieces import planned
from trainer_utils.reading.records import ReadPiece

__all__ = ["windowed"]


def windowed(
    ranges: Sequence[FileRange],
    *,
    layout: Layout,
    worker: int,
    window_records: int,
    seed: int,
    read: ReadPiece,
) -> Callable[[tf.Tensor, tf.Tensor], tf.data.Dataset]:
    """A worker's records, shuffled.

    Args:
        ranges: of all workers.
        layout: of an epoch.
        worker: which one this is.
        window_records: how many to hold at a time, by all workers together, so that the order is
            the same for any number of them.
        seed: of all orders.
        read: how a piece is read.

    Returns:
        A function of the epoch and of the first step in it, to vectors of serialized records: a
        worker's rows of each batch.
    """
    windows = Windows(
        ranges, layout=layout, worker=worker, window_records=window_records, seed=seed
    )
    lanes, num_windows = len(windows.lanes), len(windows.starts) - 1

    def plan(epoch: int, step: int) -> tuple[list[FileRange], Numbers]:
        window, parts, sizes = windows.reads(epoch, step)
        counts = list(map(len, parts))
        begins = list(itertools.accumulate(counts, initial=0))[:-1]
        facts = [window, step - int(windows.starts[window]), *begins, *counts]
        return list(itertools.chain.from_iterable(parts)), np.append(facts, sizes)

    def places(epoch: Any, window: Any) -> tuple[Numbers, Numbers]:
        found = windows.places(int(epoch), int(window))
        return found.rows, found.ends

    def order(epoch: tf.Tensor, step: tf.Tensor) -> tf.data.Dataset:
        pieces, numbers = planned(plan, epoch, step)
        window, passed, begins, counts, sizes = tf.split(numbers, [1, 1, lanes, lanes, -1])

        def lane_vectors(begin: tf.Tensor, count: tf.Tensor) -> tf.data.Dataset:
            own = tf.data.Dataset.from_tensor_slices(pieces).skip(begin).take(count)
            return owned(rebatched(flat_mapped(own, read), windows.block))

        def permute(records: tf.Tensor, window: tf.Tensor) -> tf.data.Dataset:
            found = tf.numpy_function(places, [epoch, window], [tf.int64, tf.int64])
            rows, ends = [tf.ensure_shape(part, [None]) for part in found]
            steps = tf.data.Dataset.from_tensor_slices((tf.concat([[0], ends], 0)[:-1], ends))
            # Step by step, so that there is no second copy of the whole window.
            return mapped(steps, lambda begin, end: tf.gather(records, rows[begin:end]))

        vectors = interleaved(
            tf.data.Dataset.from_tensor_slices((begins, counts)),
            lane_vectors,
            cycle=lanes,
            parallel=usable_cores(),
        )
        # The last window may have no record for this worker; its steps are taken all the same.
        nothing = tf.data.Dataset.from_tensors(tf.constant([], tf.string)).repeat()
        filled = rebatched(vectors, sizes).prefetch(1).concatenate(nothing)
        numbered = tf.data.Dataset.zip((filled, tf.data.Dataset.range(window[0], num_windows)))
        return flat_mapped(numbered, permute).skip(passed[0])

    return order
