"""The order in which a worker's records come: that of the files, windowed, mixed or global."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from trainer_utils.dataset.opening import FileRange
from trainer_utils.dataset.selection import Source, mean_bytes
from trainer_utils.options import InputOptions
from trainer_utils.order.global_shuffle import global_order
from trainer_utils.order.layout import Layout
from trainer_utils.order.sequential import sequential
from trainer_utils.reading.records import ReadPiece
from trainer_utils.reading.shard_reader import ShardReader
from trainer_utils.reading.shuffling import windowed

__all__ = ["Order", "order_of", "window_records_of"]

_STRING_BYTES = 40  # of a tensor's, beside its text: the object, and what malloc adds

Order = Callable[[tf.Tensor, tf.Tensor], tf.data.Dataset]
"""Of the epoch and the first step in it, both `() int64`: a dataset of `(any,) string` records."""


def order_of(
    ranges: Sequence[FileRange],
    options: InputOptions,
    layout: Layout,
    worker: int,
    read: ReadPiece,
    shards: ShardReader,
    window_records: int,
) -> Order:
    """The order that the options ask for.

    Args:
        ranges: what is read, by all workers.
        options: of the input.
        layout: of an epoch.
        worker: which one this is.
        read: how a part of a file is read.
        shards: reads single records.
        window_records: how many are held to be shuffled.
    """
    if options.shuffle == "global":
        return global_order(ranges, layout=layout, worker=worker, seed=options.seed, shards=shards)
    if options.shuffle:
        return windowed(
            ranges,
            layout=layout,
            worker=worker,
            window_records=window_records,
            seed=options.seed,
            read=read,
        )
    rotates = options.remainder == "drop"  # what `drop_remainder` leaves out is always the same
    return sequential(ranges, layout=layout, worker=worker, rotates=rotates, read=read)


def window_records_of(sources: Sequence[Source], options: InputOptions) -> int:
    """How many records are held to be shuffled."""
    if isinstance(options.shuffle, int) and not isinstance(options.shuffle, bool):
        return options.shuffle
    return max(1, int(options.shuffle_bytes / (mean_bytes(sources) + _STRING_BYTES)))
