"""Counts the seconds that whoever takes batches waits for them, for all inputs of this process.

dataset = add_read_timer(dataset)       # last of all, after prefetch
time_in_reads().seconds                 # spent in waiting for batches
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf


class ReadTime(NamedTuple):
    """Batches taken, and the seconds spent in waiting for them."""

    batches: float
    seconds: float

    def __sub__(self, other: "ReadTime") -> "ReadTime":
        return ReadTime(self.batches - other.batches, self.seconds - other.seconds)


def add_read_timer(
    dataset: tf.data.Dataset,
    change: Callable[..., Any] = lambda *element: element if len(element) > 1 else element[0],
) -> tf.data.Dataset:
    """The same dataset, with the time that its consumer waits counted, at some 0.1 ms each.

    What becomes of each element beside is what `change` makes of it. The count lies in a resource
    of TensorFlow's that is found by its name, so that no Python runs in the pipeline, and it may be
    sharded and copied to devices; then what waits is the thread that copies.
    """

    def count(started: tf.Tensor, element: Any) -> Any:
        with tf.device("/CPU:0"):
            waited = tf.stack([tf.ones((), tf.float64), tf.timestamp() - started])
            tf.raw_ops.AssignAddVariableOp(resource=_handle(), value=waited)
        return change(*element) if isinstance(element, tuple) else change(element)

    time_in_reads()  # makes the counter, before a thread of tf.data's needs it
    # zip asks its parts one after the other: first the clock, then for the batch.
    clock = tf.data.Dataset.range(tf.int64.max).map(lambda _: tf.timestamp())
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False  # it would do the waiting
    return tf.data.Dataset.zip(clock, dataset).map(count).with_options(options)


def time_in_reads() -> ReadTime:
    """What was counted since the process began."""
    with tf.init_scope(), tf.device("/CPU:0"):
        if not tf.raw_ops.VarIsInitializedOp(resource=_handle()):
            tf.raw_ops.AssignVariableOp(resource=_handle(), value=tf.zeros(2, tf.float64))
        found = tf.raw_ops.ReadVariableOp(resource=_handle(), dtype=tf.float64)
        batches, seconds = found.numpy()
    return ReadTime(float(batches), float(seconds))


def _handle() -> tf.Tensor:
    """The counter, which functions that are traced elsewhere find by its name."""
    name = "tfx_shards_waiting"
    return tf.raw_ops.VarHandleOp(dtype=tf.float64, shape=(2,), shared_name=name)
