"""Counts the seconds that whoever takes batches waits for them, for all inputs of this process.

    dataset = watched(dataset)              # last of all, after prefetch
    before = read_waiting()
    …                                       # take batches
    (read_waiting() - before).seconds       # spent in waiting for them

The count lies in a resource of TensorFlow's that is found by its name, so that no Python runs in
the pipeline, nothing is captured, and the pipeline may be sharded and copied to devices. On several
devices, or where batches are copied to a device ahead, what waits is the thread that copies.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from trainer_utils.reading.dataflow import mapped

__all__ = ["Waiting", "read_waiting", "watched"]

_NAME = "tfx_shards_waiting"
_DEVICE = "/CPU:0"


class Waiting(NamedTuple):
    """Batches taken, and the seconds spent in waiting for them."""

    batches: float
    seconds: float

    def __sub__(self, other: "Waiting") -> "Waiting":
        return Waiting(self.batches - other.batches, self.seconds - other.seconds)


def watched(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The same dataset, with the time that its consumer waits counted, at some 0.1 ms each."""
    read_waiting()  # makes the counter, before a thread of tf.data's needs it
    # zip asks its parts one after the other: first the clock, then for the batch.
    clock = mapped(tf.data.Dataset.range(tf.int64.max), lambda _: tf.timestamp())
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False  # it would do the waiting
    return mapped(tf.data.Dataset.zip(clock, dataset), _count).with_options(options)


def read_waiting() -> Waiting:
    """What was counted since the process began."""
    with tf.init_scope(), tf.device(_DEVICE):
        counter = _counter()
        if not tf.raw_ops.VarIsInitializedOp(resource=counter):
            tf.raw_ops.AssignVariableOp(resource=counter, value=tf.zeros(2, tf.float64))
        batches, seconds = tf.raw_ops.ReadVariableOp(resource=counter, dtype=tf.float64).numpy()
    return Waiting(float(batches), float(seconds))


def _count(started: tf.Tensor, batch: Any) -> Any:
    value = tf.stack([tf.ones((), tf.float64), tf.timestamp() - started])
    tf.raw_ops.AssignAddVariableOp(resource=_counter(), value=value)
    return batch


def _counter() -> tf.Tensor:
    return tf.raw_ops.VarHandleOp(dtype=tf.float64, shape=(2,), shared_name=_NAME)
