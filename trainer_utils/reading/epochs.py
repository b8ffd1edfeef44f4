"""Epoch after epoch: which one a dataset is in, and where in it a new process goes on.

dataset = epochs(make, finish, start=Position(epoch=3, step=100), steps=2000, repeat=False)

A dataset that is iterated over again is in the next epoch. The number of the epoch is state that
only the graph can hold, since Python does not see an iterator begin. It moves on when a good part
of an epoch has been taken, because Keras makes iterators that it drops after one batch, or unused.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer_utils.reading.dataflow import flat_mapped, mapped

__all__ = ["EpochCounter", "Position", "epochs"]

_BEGUN_AFTER = 16  # elements: more than are prefetched by an iterator that nobody takes from
_MOST = tf.int64.max

Make = Callable[[tf.Tensor, tf.Tensor], tf.data.Dataset]
Finish = Callable[[tf.data.Dataset, tf.Tensor], tf.data.Dataset]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Position:
    """The step, in an epoch, that comes next."""

    epoch: int = 0
    step: int = 0


class EpochCounter:
    """The number of the epoch that the next iterator reads, in a resource of the graph."""

    def __init__(self, epoch: int = 0) -> None:
        # A plain resource: under a strategy's scope a tf.Variable would be a mirrored one.
        with tf.init_scope(), tf.device("CPU:0"):
            self._handle = tf.raw_ops.VarHandleOp(
                dtype=tf.int64, shape=[], shared_name=f"tfx-shards-epoch-{id(self)}"
            )
        self.assign(epoch)

    def assign(self, epoch: int | tf.Tensor) -> tf.Operation:
        """Sets the number."""
        value = tf.cast(epoch, tf.int64)
        return tf.raw_ops.AssignVariableOp(resource=self._handle, value=value)

    def read(self) -> tf.Tensor:
        """The number, `() int64`."""
        return tf.ensure_shape(tf.raw_ops.ReadVariableOp(resource=self._handle, dtype=tf.int64), ())


def epochs(
    make: Make,
    finish: Finish,
    *,
    counter: EpochCounter,
    start: Position,
    elements: int,
    passed: int,
    ahead: int,
    repeat: bool | int,
    is_exact: bool = True,
) -> tf.data.Dataset:
    """The elements of the epochs from `start` on.

    Args:
        make: an epoch's batches, of the epoch and of the first step in it.
        finish: what becomes of these: hooks, prefetching. Its second argument says how many
            elements to leave out at the start.
        counter: told which epoch comes next, where `repeat` is False.
        start: where to begin.
        elements: of an epoch.
        passed: elements of the first epoch that come no more.
        ahead: those of them that `make` still gives.
        is_exact: whether there are as many elements as there should be, come what may.
        repeat: True: without end; a number: so many epochs, counted from the first of all; False:
            one an iterator.

    Returns:
        A dataset whose cardinality is known, but for single epochs the first of which has begun.
    """
    first = tf.constant(start.epoch, tf.int64)

    def make_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
        return make(epoch, tf.where(epoch == first, tf.constant(start.step, tf.int64), 0))

    if repeat is not False:
        stop = _MOST if repeat is True else max(int(repeat), start.epoch)
        numbers = tf.data.Dataset.range(start.epoch, stop if elements else start.epoch)
        dataset = finish(flat_mapped(numbers, make_epoch), tf.constant(ahead, tf.int64))
        left = (stop - start.epoch) * elements - passed if elements else 0
        known = tf.data.INFINITE_CARDINALITY if repeat is True and elements else max(left, 0)
        if not is_exact:
            return dataset
        return dataset.apply(tf.data.experimental.assert_cardinality(known))

    def one_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
        begun = tf.where(epoch == first, tf.constant(passed, tf.int64), 0)
        dataset = finish(make_epoch(epoch), tf.where(begun > 0, tf.constant(ahead, tf.int64), 0))
        if not elements:
            return dataset
        told_at = tf.minimum(begun + _BEGUN_AFTER, elements - 1)

        def tell(index: tf.Tensor, element: Any) -> Any:
            is_told = tf.equal(index + begun, told_at)
            told = counter.assign(tf.where(is_told, epoch + 1, counter.read()))
            with tf.control_dependencies([told]):
                return tf.nest.map_structure(tf.identity, element)

        # Not `enumerate`, which rewrites the graph each time it is iterated over.
        return mapped(tf.data.Dataset.zip((tf.data.Dataset.range(_MOST), dataset)), tell)

    dataset = flat_mapped(tf.data.Dataset.range(1), lambda _: one_epoch(counter.read()))
    if passed or not is_exact:
        return dataset
    return dataset.apply(tf.data.experimental.assert_cardinality(elements))
