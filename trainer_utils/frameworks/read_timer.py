"""Count the seconds that consumers wait for batches, of one input or over all of this process.

dataset = add_read_timer(dataset)       # last of all, after prefetch
time_in_reads().seconds                 # spent in waiting for batches
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

_ALL = "tfx_shards_waiting"  # the counter of datasets without one of their own
_counters = [_ALL]  # names of all counters; TensorFlow keeps a counter as long as the process


class ReadTime(NamedTuple):
    """Batches taken, the seconds spent in waiting for them, and the seconds between them."""

    batches: float
    seconds: float
    between: float = 0.0

    def __sub__(self, other: "ReadTime") -> "ReadTime":
        return ReadTime(*(mine - its for mine, its in zip(self, other, strict=True)))


def add_read_timer(
    dataset: tf.data.Dataset,
    change: Callable[..., Any] = lambda *element: element if len(element) > 1 else element[0],
    *,
    counter: str = _ALL,
) -> tf.data.Dataset:
    """Return the dataset with a timer of its consumer's waits, at some 0.1 ms per element.

    The count is a TensorFlow resource that is found by name. So no Python runs in the pipeline, and
    the dataset may be sharded and copied to devices; then the copying thread is the one that waits.

    Args:
        dataset: the dataset to measure.
        change: a function to apply to each element in the same step.
        counter: the name of the counter to add to.
    """

    def count(ended: tf.Tensor, timed: Any) -> Any:
        started, element = timed
        with tf.device("/CPU:0"):
            now = tf.timestamp()
            between = tf.where(ended > 0, started - ended, 0.0)  # 0 before the first
            counts = tf.stack([tf.ones((), tf.float64), now - started, between])
            tf.raw_ops.AssignAddVariableOp(resource=_handle(counter), value=counts)
        return now, change(*element) if isinstance(element, tuple) else change(element)

    read_time_of(counter)  # create the counter before a tf.data thread needs it
    if counter not in _counters:
        _counters.append(counter)
    # zip evaluates its parts in order: first the clock, then the batch.
    clock = tf.data.Dataset.range(tf.int64.max).map(lambda _: tf.timestamp())
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False  # else it does the waiting
    timed = tf.data.Dataset.zip(clock, dataset)
    return timed.scan(tf.zeros((), tf.float64), lambda *pair: count(*pair)).with_options(options)


def time_in_reads() -> ReadTime:
    """Return the counts of all inputs since the process began."""
    return ReadTime(*map(sum, zip(*map(read_time_of, _counters), strict=True)))


def read_time_of(counter: str) -> ReadTime:
    """Return the counts of one counter since the process began."""
    with tf.init_scope(), tf.device("/CPU:0"):
        if not tf.raw_ops.VarIsInitializedOp(resource=_handle(counter)):
            nothing = tf.zeros(len(ReadTime._fields), tf.float64)
            tf.raw_ops.AssignVariableOp(resource=_handle(counter), value=nothing)
        times = tf.raw_ops.ReadVariableOp(resource=_handle(counter), dtype=tf.float64)
        return ReadTime(*map(float, times.numpy()))


def _handle(counter: str) -> tf.Tensor:
    """Return a counter, by name, so that functions traced elsewhere find it."""
    shape = (len(ReadTime._fields),)
    return tf.raw_ops.VarHandleOp(dtype=tf.float64, shape=shape, shared_name=counter)
