"""`data_service=`: a pool of tf.data service workers reads, shuffles, parses and batches.

batches = read_by_data_service(ranges, batch, options, window_records=2560)

The service hands shards to its workers as they ask for them: every record comes once an epoch,
but in no fixed order, so that there is no going on from a step, and each worker's last batch may
not be full.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

from trainer_utils.format.file_ranges import FileRange
from trainer_utils.machine import usable_cores
from trainer_utils.reading.records import Piece, columns_of

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions

__all__ = ["read_by_data_service"]

_READ_BYTES = 1 << 20
_FILES_AT_ONCE = 16


def read_by_data_service(
    ranges: Sequence[FileRange],
    batch: Callable[[tf.data.Dataset], tf.data.Dataset],
    options: "InputOptions",
    *,
    window_records: int,
) -> tf.data.Dataset:
    """Batches that the service's workers make.

    Args:
        ranges: what is read.
        batch: turns vectors of serialized records into batches; runs on the workers.
        options: of the input.
        window_records: how many each worker holds to shuffle them.
    """
    pieces = tf.data.Dataset.from_tensor_slices(columns_of(ranges))
    if options.shuffle:
        pieces = pieces.shuffle(max(len(ranges), 1), seed=options.seed)
    records = pieces.interleave(
        _read, cycle_length=_FILES_AT_ONCE, num_parallel_calls=usable_cores(), deterministic=True
    )
    if options.shuffle:
        records = records.shuffle(window_records, seed=options.seed)
    batches = batch(records.batch(options.batch_size or 1, drop_remainder=options.drop_remainder))
    batches = batches.apply(
        tf.data.experimental.service.distribute(
            processing_mode=tf.data.experimental.service.ShardingPolicy.DYNAMIC,
            service=options.data_service,
        )
    )
    if options.repeat is False:
        return batches
    return batches.repeat(None if options.repeat is True else options.repeat)


def _read(piece: Piece) -> tf.data.Dataset:
    """The records of a part of a file; without Python, which the workers do not share with us."""
    records = tf.data.TFRecordDataset(piece["path"], piece["compression"], _READ_BYTES)
    records = records.skip(piece["skip"]).take(piece["limit"])
    return records.apply(tf.data.experimental.assert_cardinality(piece["take"]))
