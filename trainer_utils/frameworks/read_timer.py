"""Count the seconds that consumers wait for batches, over all inputs of this process.

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
    """Return the dataset with a timer of its consumer's waits, at some 0.1 ms per element.

    The count is a TensorFlow resource that is found by name. So no Python runs in the pipeline, and
    the dataset may be sharded and copied to devices; then the copying thread is the one that waits.

    Args:
        dataset: the dataset to measure.
        change: a function to apply to each element in the same step.
    """

    def count(started: tf.Tensor, element: Any) -> Any:
        with tf.device("/CPU:0"):
            waited = tf.stack([tf.ones((), tf.float64), tf.timestamp() - started])
            tf.raw_ops.AssignAddVariableOp(resource=_handle(), value=waited)
        return change(*element) if isinstance(element, tuple) else change(element)

    time_in_reads()  # create the counter before a tf.data thread needs it
    # zip evaluates its parts in order: first the clock, then the batch.
    clock = tf.data.Dataset.range(tf.int64.max).map(lambda _: tf.timestamp())
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False  # else it does the waiting
    return tf.data.Dataset.zip(clock, dataset).map(count).with_options(options)


def time_in_reads() -> ReadTime:
    """Return the counts since the process began."""
    with tf.init_scope(), tf.device("/CPU:0"):
        if not tf.raw_ops.VarIsInitializedOp(resource=_handle()):
            tf.raw_ops.AssignVariableOp(resource=_handle(), value=tf.zeros(2, tf.float64))
        found = tf.raw_ops.ReadVariableOp(resource=_handle(), dtype=tf.float64)
        batches, seconds = found.numpy()
    return ReadTime(float(batches), float(seconds))


def _handle() -> tf.Tensor:
    """Return the counter, by name, so that functions traced elsewhere find it."""
    name = "tfx_shards_waiting"
    return tf.raw_ops.VarHandleOp(dtype=tf.float64, shape=(2,), shared_name=name)
