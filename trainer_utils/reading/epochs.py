"""Epoch after epoch: which one a dataset is in, and where in it a new process goes on.

sequence = EpochSequence(read_epoch, finish, start=EpochStart(epoch=3, step=100), elements=2000)
dataset = sequence.dataset(repeat=False)

A dataset that is iterated over again is in the next epoch. The number of the epoch is state that
only the graph can hold, since Python does not see an iterator begin. It moves on when a good part
of an epoch has been taken, because Keras makes iterators that it drops after one batch, or unused.
"""

import dataclasses
import itertools
from collections.abc import Callable
from typing import TypeAlias

import tensorflow as tf

from trainer_utils.reading.raw_ops import Counter, Element, flat_map, map_elements

__all__ = ["EpochCounter", "EpochSequence", "EpochStart", "Finish", "ReadEpoch"]

_BEGUN_AFTER = 16  # elements: more than are prefetched by an iterator that nobody takes from
_MOST = tf.int64.max

ReadEpoch: TypeAlias = Callable[[tf.Tensor, tf.Tensor], tf.data.Dataset]
"""What an epoch holds from a step on, of the epoch and that step, both `() int64`: records in
vectors, or the batches that are made of them."""

Finish: TypeAlias = Callable[[tf.data.Dataset, tf.Tensor], tf.data.Dataset]
"""What becomes of an epoch's batches: hooks, prefetching. The number, `() int64`, says how many
elements to leave out at the start."""

_numbers = itertools.count()


@dataclasses.dataclass(frozen=True, kw_only=True)
class EpochStart:
    """Where the first epoch begins.

    Args:
        epoch: its number.
        step: the first that is read.
        consumed_elements: those of the epoch that come no more.
        skipped_elements: those of them that reading from `step` on makes all the same.
    """

    epoch: int = 0
    step: int = 0
    consumed_elements: int = 0
    skipped_elements: int = 0


class EpochCounter(Counter):
    """The number of the epoch that the next iterator reads, in a resource of the graph."""

    def __init__(self, epoch: int = 0) -> None:
        super().__init__(f"tfx-shards-epoch-{next(_numbers)}", tf.int64)
        with tf.init_scope():
            self.assign(epoch)


class EpochSequence:
    """One epoch after another.

    Args:
        read_epoch: an epoch's batches.
        finish: what becomes of these.
        start: where to begin.
        elements: of an epoch.
        is_exact: whether there are as many elements as there should be, come what may.

    Attributes:
        counter: which epoch comes next, where a dataset is of one epoch at a time.
    """

    def __init__(
        self,
        read_epoch: ReadEpoch,
        finish: Finish,
        *,
        start: EpochStart,
        elements: int,
        is_exact: bool = True,
    ) -> None:
        self._read_epoch, self._finish = read_epoch, finish
        self._start, self._elements, self._is_exact = start, elements, is_exact
        self.counter = EpochCounter(start.epoch)

    def dataset(self, repeat: bool | int) -> tf.data.Dataset:
        """The elements from the start on.

        Args:
            repeat: True: without end; a number: so many epochs, counted from the first of all;
                False: one an iterator.

        Returns:
            A dataset whose cardinality is known, but for single epochs the first of which has
            begun.
        """
        if repeat is False:
            dataset = flat_map(tf.data.Dataset.range(1), lambda _: self._next_epoch())
            is_known = not self._start.consumed_elements
            return self._with_cardinality(dataset, self._elements) if is_known else dataset
        first = self._start.epoch
        stop = _MOST if repeat is True else max(int(repeat), first)
        numbers = tf.data.Dataset.range(first, stop if self._elements else first)
        skipped = tf.constant(self._start.skipped_elements, tf.int64)
        dataset = self._finish(flat_map(numbers, self._epoch), skipped)
        if repeat is True and self._elements:
            return self._with_cardinality(dataset, tf.data.INFINITE_CARDINALITY)
        left = (stop - first) * self._elements - self._start.consumed_elements
        return self._with_cardinality(dataset, max(left, 0) if self._elements else 0)

    def _epoch(self, epoch: tf.Tensor) -> tf.data.Dataset:
        return self._read_epoch(epoch, self._in_first(epoch, self._start.step))

    def _in_first(self, epoch: tf.Tensor, number: int) -> tf.Tensor:
        """A number in the first epoch, 0 in others."""
        return tf.where(tf.equal(epoch, self._start.epoch), tf.constant(number, tf.int64), 0)

    def _next_epoch(self) -> tf.data.Dataset:
        """The epoch of the counter, which moves on as its elements are taken."""
        epoch = self.counter.read()
        skipped = self._in_first(epoch, self._start.skipped_elements)
        dataset = self._finish(self._epoch(epoch), skipped)
        if not self._elements:
            return dataset
        consumed = self._in_first(epoch, self._start.consumed_elements)
        moves_at = tf.minimum(consumed + _BEGUN_AFTER, self._elements - 1)

        def count(index: tf.Tensor, element: Element) -> Element:
            is_begun = tf.equal(index + consumed, moves_at)
            moved = self.counter.assign(tf.where(is_begun, epoch + 1, self.counter.read()))
            with tf.control_dependencies([moved]):
                return tf.nest.map_structure(tf.identity, element)

        # Not `enumerate`, which rewrites the graph each time it is iterated over.
        return map_elements(tf.data.Dataset.zip((tf.data.Dataset.range(_MOST), dataset)), count)

    def _with_cardinality(self, dataset: tf.data.Dataset, elements: int) -> tf.data.Dataset:
        if not self._is_exact:
            return dataset
        return dataset.apply(tf.data.experimental.assert_cardinality(elements))
