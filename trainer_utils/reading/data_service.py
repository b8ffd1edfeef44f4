"""`data_service=`: a pool of tf.data service workers reads, shuffles, parses and batches.

batches = read_by_data_service(ranges, batch, options, window_records=2560)

The service hands shards to its workers as they ask for them: every record comes once an epoch,
but in no fixed order, so that there is no going on from a step, and each worker's last batch may
not be full. Where a worker is lost, the service ends the epoch without an error and without what
that worker had: the records are counted here, and an epoch that lacks some ends with an error.
"""

import socket
import time
import urllib.parse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from trainer_utils.format import ConfigError
from trainer_utils.format.file_ranges import FileRange
from trainer_utils.machine import usable_cores
from trainer_utils.reading.records import Piece, columns_of

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions

__all__ = ["read_by_data_service"]

_READ_BYTES = 1 << 20
_FILES_AT_ONCE = 16
_WAIT_SECONDS, _PAUSE_SECONDS = 15, 0.5


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

    Raises:
        ConfigError: nobody listens where the service should be.
    """
    assert options.data_service is not None
    _check_listens(options.data_service)
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
    hooks = (options.pre_batching_callback, options.post_batching_callback)
    if not options.drop_remainder and hooks == (None, None):
        expected = sum(part.take for part in ranges)
        batches = _check_records(batches, expected, are_batched=options.batch_size is not None)
    if options.repeat is False:
        return batches
    return batches.repeat(None if options.repeat is True else options.repeat)


def _check_listens(address: str) -> None:
    """Waits some seconds for a service that starts; TensorFlow's own call waits for minutes."""
    found = urllib.parse.urlsplit(address)
    try:
        host, port = found.hostname, found.port
    except ValueError:  # a form of address that gRPC alone knows
        return
    if found.scheme != "grpc" or host is None or port is None:
        return
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            left = max(deadline - time.monotonic(), _PAUSE_SECONDS)
            socket.create_connection((host, port), timeout=left).close()
            return
        except OSError as error:
            if time.monotonic() >= deadline:
                raise ConfigError(
                    f"data_service: expected a tf.data service that listens at {address!r}, found "
                    f"none in {_WAIT_SECONDS} s: {error}. Start its dispatcher first, or see "
                    "whether the address can be reached from here.",
                    setting="data_service",
                    value=address,
                ) from error
        time.sleep(_PAUSE_SECONDS)


def _check_records(
    batches: tf.data.Dataset, expected: int, *, are_batched: bool
) -> tf.data.Dataset:
    """The same, with an error after the last batch where they are not of so many records.

    Each iteration has a number of its own, under which its records are counted.
    """
    iterations = tf.Variable(0, dtype=tf.int64, trainable=False)
    records = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)

    def begin(_: tf.Tensor) -> tf.Tensor:
        return iterations.assign_add(1)

    def iterate(number: tf.Tensor) -> tf.data.Dataset:
        def count(before: tf.Tensor, *batch: Any) -> tuple[tf.Tensor, Any]:
            element = batch[0] if len(batch) == 1 else batch
            now = before + (_rows(element) if are_batched else 1)
            with tf.control_dependencies([records.insert(number, now)]):
                return tf.identity(now), element

        def check(_: tf.Tensor) -> tf.data.Dataset:
            found = tf.maximum(records.lookup(number), 0)
            said = ["data_service: a worker was lost, and the epoch ended after", found, "of"]
            whole = tf.debugging.Assert(
                found == expected, [*said, expected, "records. Run it again"]
            )
            with tf.control_dependencies([whole, records.remove(number[tf.newaxis])]):
                return batches.take(tf.constant(0, tf.int64))

        counted = batches.scan(tf.constant(0, tf.int64), count)
        return counted.concatenate(tf.data.Dataset.range(1).flat_map(check))

    return tf.data.Dataset.range(1).map(begin).flat_map(iterate)


def _rows(batch: Any) -> tf.Tensor:
    first = tf.nest.flatten(batch)[0]
    if isinstance(first, tf.RaggedTensor):
        return first.nrows(out_type=tf.int64)
    shape = first.dense_shape if isinstance(first, tf.SparseTensor) else tf.shape(first, tf.int64)
    return shape[0]


def _read(piece: Piece) -> tf.data.Dataset:
    """The records of a part of a file; without Python, which the workers do not share with us."""
    records = tf.data.TFRecordDataset(piece["path"], piece["compression"], _READ_BYTES)
    records = records.skip(piece["skip"]).take(piece["limit"])
    return records.apply(tf.data.experimental.assert_cardinality(piece["take"]))
