"""Batches against TensorFlow's reader and parser, in the planned order."""

import concurrent.futures
import multiprocessing
import pickle

import numpy as np
import pytest
import tensorflow as tf

import trainer_utils
from tests.trainer_utils.reading.oracle import assert_equal, batches_of
from trainer_utils import InputOptions
from trainer_utils.dataset.selection import open_sources
from trainer_utils.reading.batches import Batches

FEATURES = ["id", "text", "weight", "tokens"]
FILES = 5


@pytest.fixture(scope="module")
def uri(tmp_path_factory, serialize):
    """Write ids, strings, and lists of any length, some missing."""
    folder = tmp_path_factory.mktemp("records")
    for index in range(FILES):
        with tf.io.TFRecordWriter(f"{folder}/train-{index}.tfrecord") as writer:
            for number in range(index * 10, index * 10 + 10):
                record = {"id": [number], "text": [b"text " * (number % 3)], "weight": [number / 4]}
                writer.write(serialize(**record, tokens=list(range(number % 4))))
    return str(folder)


def made(uri, **settings):
    own = {name: settings.pop(name) for name in ("worker", "num_workers") if name in settings}
    return Batches.of(open_sources(uri, "train"), InputOptions(**settings), **own)


@pytest.mark.parametrize(
    ("shuffle", "remainder", "workers"),
    [
        (False, "drop", 3),
        (True, None, 3),
        (7, "balance", 1),
        ("global", "pad", 2),
        ("global", None, 1),
    ],
)
def test_batches_equal_tensorflows(uri, shuffle, remainder, workers):
    for worker in range(workers):
        found = trainer_utils.iterate(
            uri, "train", worker=worker, num_workers=workers, batch_size=12, shuffle=shuffle,
            remainder=remainder, features=FEATURES,
        )  # fmt: skip
        for epoch in range(2):
            theirs = list(batches_of(found, uri, FEATURES, epoch))
            ours = list(found)
            assert len(ours) == len(theirs) > 3
            for mine, other in zip(ours, theirs, strict=True):
                rows = len(other["id"])
                if remainder == "pad":
                    assert mine["mask"].dtype == np.float32
                    assert mine["mask"].tolist() == [1] * rows + [0] * (6 - rows)
                    mine = {name: mine[name][:rows] for name in FEATURES}
                assert list(mine) == FEATURES
                width = other["tokens"].shape[1]
                assert not mine["tokens"][:, width:].any()
                for name in FEATURES:
                    own = mine[name][:, :width] if name == "tokens" else mine[name]
                    assert_equal(own, other[name])


@pytest.mark.parametrize("batch_size", [7, None])
def test_a_batch_is_the_same_for_any_caller(uri, batch_size):
    """Ask for it alone or with others, in threads, and in forked or unpickled processes."""
    batches = made(uri, batch_size=batch_size, shuffle=True)
    steps = range(batches.input_steps)
    want = [batches.batch(1, step) for step in steps]

    def is_same(found):
        assert len(found) == len(want)
        for mine, other in zip(found, want, strict=True):
            assert list(mine) == list(other)
            for name, value in other.items():
                np.testing.assert_array_equal(mine[name], value)
        return True

    assert is_same(batches.batches(1, steps))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert is_same(list(pool.map(lambda step: batches.batch(1, step), steps)))
    assert is_same(pickle.loads(pickle.dumps(batches)).batches(1, steps))
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=lambda: queue.put(batches.batches(1, steps)))
    child.start()
    assert is_same(queue.get())
    child.join()


def test_the_known_structure_of_a_batch_is_correct(uri, subtests):
    for settings in ({}, {"remainder": "drop"}, {"remainder": "pad"}, {"batch_size": None}):
        with subtests.test(settings=settings):
            batches = made(uri, **{"batch_size": 12, **settings})
            batch = batches.batch(0, 0)
            assert list(batch) == list(batches.structure)
            for name, (shape, dtype, _) in batches.structure.items():
                value = np.asarray(batch[name])
                assert len(value.shape) == len(shape)
                assert all(
                    size in (None, found) for size, found in zip(shape, value.shape, strict=True)
                )
                assert dtype == ("bytes" if value.dtype.kind in "OS" else value.dtype.name)
