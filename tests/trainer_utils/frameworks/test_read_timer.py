"""Measuring the time that a consumer waits."""

import threading

import tensorflow as tf

from trainer_utils import input_fn
from trainer_utils.frameworks.read_timer import add_read_timer, time_in_reads


def gated(gate: threading.Semaphore) -> tf.data.Dataset:
    """Return three elements, each available once the gate was opened for it."""

    def wait(number):
        gate.acquire()
        return number

    return tf.data.Dataset.range(3).map(
        lambda number: tf.ensure_shape(tf.numpy_function(wait, [number], tf.int64), ())
    )


def test_elements_are_unchanged():
    plain = tf.data.Dataset.from_tensor_slices(
        {"a": tf.ragged.constant([[1], [2, 3]]), "b": ([1, 2], [3.0, 4.0])}
    ).batch(2)
    dataset = add_read_timer(plain)
    assert dataset.element_spec == plain.element_spec
    assert int(dataset.cardinality()) == 1
    (batch,), (expected,) = list(dataset), list(plain)
    assert batch["a"].to_list() == expected["a"].to_list() == [[1], [2, 3]]
    assert [part.numpy().tolist() for part in batch["b"]] == [[1, 2], [3.0, 4.0]]


def test_idle_time_is_not_waiting():
    """Get two elements at once, and wait for the third."""
    gate = threading.Semaphore(2)
    iterator = iter(add_read_timer(gated(gate)))
    before = time_in_reads()
    assert [int(next(iterator)), int(next(iterator))] == [0, 1]
    idle = threading.Event()
    idle.wait(0.5)
    at_once = (time_in_reads() - before).seconds
    threading.Timer(0.5, gate.release).start()
    assert int(next(iterator)) == 2
    waited = (time_in_reads() - before).seconds - at_once
    assert waited > 0.4  # no speed limit: the gate was shut that long
    assert at_once < waited


def test_datasets_are_counted_under_a_strategy(datum_photos):
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        dataset = input_fn(datum_photos, features="id", batch_size=4)
        before = time_in_reads()
        steps = len(list(strategy.experimental_distribute_dataset(dataset)))
    assert steps == 6
    assert (time_in_reads() - before).batches == 6
