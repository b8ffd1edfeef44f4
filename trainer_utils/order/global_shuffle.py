"""`shuffle="global"`: a true permutation of all records each epoch, with no shuffle buffer.

order = global_order(ranges, layout=layout, worker=0, seed=0, shards=ShardReader())

Where the n-th record of an epoch lies is computed, and it is read there.
"""

import bisect
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.dataset.opening import FileRange
from trainer_utils.format import ConfigError, keyed_hash, permute
from trainer_utils.machine import usable_cores
from trainer_utils.order.layout import Layout
from trainer_utils.order.random_numbers import signed_64
from trainer_utils.reading.dataflow import mapped
from trainer_utils.reading.shard_reader import ShardReader

__all__ = ["GlobalOrder", "global_order"]

_CHUNK_RECORDS = 8192  # 1 ms; fewer would cost nearly as much


def global_order(
    ranges: Sequence[FileRange], *, layout: Layout, worker: int, seed: int, shards: ShardReader
) -> Callable[[tf.Tensor, tf.Tensor], tf.data.Dataset]:
    """A worker's records in an order of all records.

    Args:
        ranges: of all workers.
        layout: of an epoch.
        worker: which one this is.
        seed: of all orders.
        shards: reads the records.

    Returns:
        A function of the epoch and of the first step in it, to vectors of serialized records.

    Raises:
        ConfigError: a shard is a gzip file, of which no single record can be read.
    """
    for part in ranges:
        if part.path.endswith(".gz"):
            raise ConfigError(
                f"shuffle: expected True or a number for gzip files, got 'global' ({part.path}). "
                "Write the dataset without gzip."
            )
    places = _Places(ranges)
    order_of = GlobalOrder(layout, worker=worker, seed=seed)

    def read(epoch: Any, step: Any) -> npt.NDArray[Any]:
        return places.read(order_of.at(int(epoch), int(step)), shards)

    def order(epoch: tf.Tensor, step: tf.Tensor) -> tf.data.Dataset:
        def vector(number: tf.Tensor) -> tf.Tensor:
            records = tf.numpy_function(read, [epoch, number], tf.string)
            return tf.ensure_shape(records, [None])

        steps = tf.data.Dataset.range(step, layout.steps)
        return mapped(steps, vector, parallel=usable_cores())

    return order


class GlobalOrder:
    """Which records a worker's rows are, worked out some thousand places at a time.

    Args:
        layout: of an epoch.
        worker: which one this is.
        seed: of all orders.
    """

    def __init__(self, layout: Layout, *, worker: int, seed: int) -> None:
        self._layout = layout
        self._worker = worker
        self._seed = signed_64(seed)
        self._kept = (-1, 0, np.zeros(0, np.int64))  # epoch, first place, records

    def at(self, epoch: int, step: int) -> npt.NDArray[np.int64]:
        """The numbers of the records of a step, of all those that there are."""
        begin = self._layout.begin(step)
        first, last = self._layout.rows(self._worker, step=step)
        return self._between(epoch, begin + first, begin + last)

    def _between(self, epoch: int, start: int, stop: int) -> npt.NDArray[np.int64]:
        kept_epoch, first, records = self._kept
        if kept_epoch != epoch or not first <= start <= stop <= first + len(records):
            first = start // _CHUNK_RECORDS * _CHUNK_RECORDS
            last = min(-(-stop // _CHUNK_RECORDS) * _CHUNK_RECORDS, self._layout.num_records)
            records = self._permuted(epoch, np.arange(first, last))
            self._kept = epoch, first, records
        return records[start - first : stop - first]

    def _permuted(self, epoch: int, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        identity = epoch.to_bytes(8, "little", signed=True)
        seed = keyed_hash(identity, seed=self._seed, purpose="epoch") % (1 << 63)
        return permute(places, num_records=self._layout.num_records, seed=seed)


class _Places:
    """Which file, and which record in it, a number of all records is."""

    def __init__(self, ranges: Sequence[FileRange]) -> None:
        self._ranges = ranges
        takes = [part.take for part in ranges]
        self._starts = [0, *itertools.accumulate(takes)][:-1]

    def read(self, numbers: npt.NDArray[np.int64], shards: ShardReader) -> npt.NDArray[Any]:
        records = np.empty(len(numbers), object)
        for index, number in enumerate(numbers.tolist()):
            part = bisect.bisect_right(self._starts, number) - 1
            found = self._ranges[part]
            (records[index],) = shards.read(found.path, [found.skip + number - self._starts[part]])
        return records
