"""What an input works with goes with it, though TensorFlow keeps its functions; and comes again."""

import gc
import io
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from trainer_utils import DatasetWriter, input_fn
from trainer_utils.dataset import Dataset
from trainer_utils.format import Manifest
from trainer_utils.order.strategy import ShuffleStrategy
from trainer_utils.reading.buffers import Buffers
from trainer_utils.reading.cached_records import CachedRecords
from trainer_utils.reading.remade import Remade, collect_remade, let_go_with
from trainer_utils.reading.shard_checksums import ShardChecksums
from trainer_utils.reading.shard_reader import ShardReader

HELD = (Buffers, CachedRecords, Dataset, Manifest, ShardChecksums, ShardReader, ShuffleStrategy)
RECORDS, SHARDS = 40, 8
INPUTS = 3
WAYS: dict[str, dict[str, Any]] = {
    "windowed": {},
    "in order": {"shuffle": False},
    "global": {"shuffle": "global"},
    "past damage": {"on_corrupt": "skip", "image_size": (16, 16), "features": ["id", "image"]},
    "decoded": {"image_size": (16, 16), "features": ["id", "image"]},
    "normalised": {
        "image_size": (16, 16),
        "features": ["id", "image"],
        "normalize": (0.0, 255.0),
        "augment": ["colour"],
    },
    "cached": {"cache": "disk"},
    "cached, global": {"cache": "disk", "shuffle": "global"},
}


class Owner:
    pass


def write_dataset(uri: Path, first: int = 0) -> str:
    from PIL import Image

    with DatasetWriter(uri, num_shards={"train": SHARDS}, images=["image"]) as writer:
        for number in range(first, first + RECORDS):
            stream = io.BytesIO()
            Image.fromarray(np.full((20, 20, 3), number, np.uint8)).save(stream, "JPEG")
            writer.write("train", {"image": stream.getvalue(), "id": number})
    return str(uri)


@pytest.fixture(scope="module")
def uri(tmp_path_factory) -> str:
    return write_dataset(tmp_path_factory.mktemp("remade") / "out")


@pytest.fixture(autouse=True)
def folder_of_copies(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


def open_input(uri: str, **way: Any) -> tf.data.Dataset:
    return input_fn(uri, "train", **{"batch_size": 8, "features": ["id"], "repeat": False, **way})


def ids_of(batches: Any) -> list[int]:
    return sorted(int(number) for batch in batches for number in batch["id"].numpy())


def capture(uri: str, **way: Any) -> Any:
    """A function of no arguments that gives all ids; nothing else holds the dataset."""
    dataset = open_input(uri, **way).map(lambda batch: batch["id"]).unbatch().batch(2 * RECORDS)
    return tf.function(dataset.get_single_element, autograph=False).get_concrete_function()


def held() -> int:
    """How many of the objects are there that hold memory, files or threads."""
    gc.collect()
    return sum(isinstance(thing, HELD) for thing in gc.get_objects())


ONCE = {"tfx-shards-sums", "tfx-shards-ahead"}  # of the process; such a thread ends with its epoch


def own_threads() -> set[threading.Thread]:
    return {
        thread
        for thread in threading.enumerate()
        if thread.name.startswith("tfx-shards-") and thread.name not in ONCE
    }


def threads_left(known: set[threading.Thread]) -> set[threading.Thread]:
    """The threads beside the known ones, once they had time to end."""
    last = time.monotonic() + 10
    for thread in own_threads() - known:
        thread.join(max(0, last - time.monotonic()))
    return own_threads() - known


def open_shards() -> int:
    return sum("data_tfrecord" in os.readlink(f"/proc/self/fd/{n}") for n in _descriptors())


def _descriptors() -> list[str]:
    return [n for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")]


def test_what_was_let_go_is_made_again_where_it_is_needed():
    made = iter("abc")
    thing = Remade(lambda: next(made))
    assert [thing.get(), thing.get()] == ["a", "a"]
    thing.let_go()
    assert [thing.get(), thing.get()] == ["b", "b"]


def test_it_is_made_once_by_many_threads():
    calls: list[int] = []
    gate = threading.Event()

    def make() -> object:
        gate.wait(10)
        calls.append(1)
        return object()

    thing = Remade(make)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(thing.get())) for _ in range(8)]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join()
    assert (len(calls), len(set(map(id, found)))) == (1, 1)


def test_all_that_was_made_in_a_block_goes_with_its_owner_and_nothing_else():
    before = Remade(Owner, Owner())
    with collect_remade() as made:
        within = Remade(Owner, Owner())
    after = Remade(Owner, Owner())
    owner = Owner()
    values = [remade.get() for remade in (before, within, after)]
    let_go_with(owner, made)
    assert within.get() is values[1]
    del owner
    assert [before.get(), after.get()] == [values[0], values[2]]
    assert within.get() is not values[1]


@pytest.mark.parametrize("way", WAYS)
def test_an_input_that_is_gone_holds_no_memory_files_or_threads(uri, way):
    def read() -> None:
        assert ids_of(open_input(uri, **WAYS[way])) == list(range(RECORDS))

    around = own_threads()  # of tests before, some of which last as long as the process
    read()
    before, shards = held(), open_shards()
    for _ in range(INPUTS):
        read()
    assert held() == before
    assert not threads_left(around)
    assert open_shards() == shards


def test_it_stays_as_long_as_anything_is_read_of_it(uri):
    before = held()
    iterator = iter(open_input(uri).map(lambda batch: batch).prefetch(1))
    assert held() > before
    first = next(iterator)
    gc.collect()
    assert ids_of([first, *iterator]) == list(range(RECORDS))
    del iterator
    assert held() == before


@pytest.mark.parametrize("way", WAYS)
def test_who_captured_the_dataset_alone_reads_on(uri, way):
    """A graph holds TensorFlow's dataset, and nothing that Python could see."""

    capture(uri, **WAYS[way])()
    before = held()
    read = capture(uri, **WAYS[way])
    assert held() == before
    assert sorted(read().numpy()) == list(range(RECORDS))


def test_an_input_made_within_a_function_is_read_after_it(uri):
    def total() -> tf.Tensor:
        zero = tf.constant(0, tf.int64)
        return open_input(uri).reduce(zero, lambda sum, batch: sum + tf.reduce_sum(batch["id"]))

    traced = tf.function(total, autograph=False).get_concrete_function()
    gc.collect()
    assert int(traced()) == sum(range(RECORDS))


def test_what_is_read_again_is_the_same_dataset_or_an_error(tmp_path):
    write_dataset(tmp_path / "out")
    read = capture(str(tmp_path / "out"))
    gc.collect()
    (tmp_path / "out").rename(tmp_path / "away")
    write_dataset(tmp_path / "out", first=7)
    with pytest.raises(tf.errors.OpError, match=r"out.*expected the dataset that the input was"):
        read()
