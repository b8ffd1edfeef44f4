"""Counts the seconds that whoever takes batches waits for them, for all inputs of this process.

    dataset = add_read_timer(dataset)       # last of all, after prefetch
    before = time_in_reads()
    …                                       # take batches
    (time_in_reads() - before).seconds      # spent in waiting for them

The count lies in a resource of TensorFlow's that is found by its name, so that no Python runs in
the pipeline, nothing is captured, and the pipeline may be sharded and copied to devices. On several
devices, or where batches are copied to a device ahead, what waits is the thread that copies.
"""

from typing import NamedTuple

import tensorflow as tf

from trainer_utils.reading.raw_ops import Counter, Element, map_elements

__all__ = ["ReadTime", "add_read_timer", "time_in_reads"]

_total = Counter("tfx_shards_waiting", tf.float64, (2,))


class ReadTime(NamedTuple):
    """Batches taken, and the seconds spent in waiting for them."""

    batches: float
    seconds: float

    def __sub__(self, other: "ReadTime") -> "ReadTime":
        return ReadTime(self.batches - other.batches, self.seconds - other.seconds)


def add_read_timer(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The same dataset, with the time that its consumer waits counted, at some 0.1 ms each."""
    time_in_reads()  # makes the counter, before a thread of tf.data's needs it
    # zip asks its parts one after the other: first the clock, then for the batch.
    clock = map_elements(tf.data.Dataset.range(tf.int64.max), lambda _: tf.timestamp())
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False  # it would do the waiting
    return map_elements(tf.data.Dataset.zip(clock, dataset), _count).with_options(options)


def time_in_reads() -> ReadTime:
    """What was counted since the process began."""
    with tf.init_scope():
        if not _total.is_assigned():
            _total.assign(tf.zeros(2, tf.float64))
        batches, seconds = _total.read().numpy()
    return ReadTime(float(batches), float(seconds))


def _count(started: tf.Tensor, batch: Element) -> Element:
    _total.add(tf.stack([tf.ones((), tf.float64), tf.timestamp() - started]))
    return batch
