"""Shards and indexes that are not those of the manifest, though sizes and frames are right."""

import contextlib
import dataclasses
import itertools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_utils import CorruptShardError, input_fn
from trainer_utils.format import (
    DatasetError,
    Feature,
    Manifest,
    RecordIndex,
    read_records,
    scan_lengths,
)
from trainer_utils.format.crc32c import extend_crc32c
from trainer_utils.format.naming import index_file

FEATURES = {"id": Feature(type="int"), "pixels": Feature(type="string")}
FOREIGN = "00001-of-00003"
MODES: list[dict[str, Any]] = [
    *({"shuffle": shuffle} for shuffle in (True, False, 7, "global")),
    *({"shuffle": shuffle, "repeat": 2} for shuffle in (True, "global")),
    *({"shuffle": shuffle, "on_corrupt": "skip"} for shuffle in (True, False, "global")),
    *({"remainder": r, "shuffle": s} for r in ("drop", "pad", "balance") for s in (True, False)),
    {"batch_size": None},
    {"batch_size": 90},
    {"split": "train[40%:60%]"},
    {"split": "train[12:14]+eval", "shuffle": False},
    {"cache": "memory"},
    {"cache": "folder"},
    {"cache": "folder", "shuffle": "global"},
    {"start_step": 4},
    {"on_corrupt": "skip", "remainder": "drop"},
    {"input_context": tf.distribute.InputContext(2, 1, 4), "shuffle": False},
    {"post_batching_callback": lambda batch: batch, "echoing": 2},
]


@pytest.fixture(scope="session")
def two_runs(tmp_path_factory, write_dataset) -> tuple[Path, Path]:
    """Two datasets of 3 x 10 records, equally long, of which no two are alike."""
    uris = []
    for run in (0, 1):
        shards = [
            [{"id": [50 * run + n], "pixels": [bytes([run, n]) * 400]} for n in range(s, s + 10)]
            for s in (10, 20, 30)
        ]
        evaluation = [{"id": [99], "pixels": [bytes(800)]}]
        uri = tmp_path_factory.mktemp("run") / "set"
        write_dataset(uri, {"train": shards, "eval": [evaluation]}, FEATURES)
        uris.append(uri)
    return uris[0], uris[1]


@pytest.fixture
def foreign(two_runs, tmp_path) -> Path:
    """The first run, its second shard replaced by the other run's."""
    uri = tmp_path / "foreign"
    shutil.copytree(two_runs[0], uri)
    shutil.copyfile(shard(two_runs[1]), shard(uri))
    return uri


def shard(uri: Path, number: str = FOREIGN) -> Path:
    return next(uri.glob(f"Split-train/*-{number}*"))


def read(uri: Path, **settings: Any) -> int:
    """Takes as many batches as the dataset says that it has, as Keras does, and not one more."""
    dataset = input_fn(str(uri), **{"features": "id", "batch_size": 4, **settings})
    known = int(dataset.cardinality())
    return sum(1 for _ in itertools.islice(dataset, known if known > 0 else None))


@pytest.mark.parametrize("mode", MODES)
def test_an_epoch_over_another_runs_shard_ends_in_an_error_naming_it(foreign, tmp_path, mode):
    mode = {**mode, **({"cache": str(tmp_path / "cache")} if mode.get("cache") == "folder" else {})}
    for _ in range(2):  # also the second time
        with pytest.raises((tf.errors.OpError, DatasetError), match=rf"{FOREIGN}'.*another"):
            read(foreign, **mode)


@pytest.mark.parametrize("mode", MODES)
def test_what_is_whole_is_read_in_any_mode(two_runs, mode):
    assert read(two_runs[0], **({**mode, "cache": "memory"} if "cache" in mode else mode)) > 0


def test_a_shard_replaced_between_epochs_is_found_in_the_next_one(two_runs, tmp_path):
    uri = tmp_path / "set"
    shutil.copytree(two_runs[0], uri)
    dataset = input_fn(str(uri), features="id", batch_size=4)
    assert len(list(dataset)) == 8
    shutil.copyfile(shard(two_runs[1]), shard(uri))
    with pytest.raises(tf.errors.OpError, match=FOREIGN):
        list(dataset)
    shutil.copyfile(shard(two_runs[0]), shard(uri))
    assert len(list(dataset)) == 8


def test_a_sibling_in_a_shards_place_and_records_in_another_order_are_found(two_runs, tmp_path):
    for change in ("sibling", "order"):
        uri = tmp_path / change
        shutil.copytree(two_runs[0], uri)
        if change == "sibling":
            shutil.copyfile(shard(uri, "00002-of-00003"), shard(uri))
        else:
            with shard(uri).open("rb") as stream:
                records = list(read_records(stream, path="shard"))
            with tf.io.TFRecordWriter(str(shard(uri))) as writer:
                for record in reversed(records):
                    writer.write(record)
        with pytest.raises(tf.errors.OpError, match=FOREIGN):
            read(uri)


def test_another_gzip_file_of_the_same_size_is_found(tmp_path, write_dataset):
    made = 0
    rng = np.random.default_rng(0)
    sizes: dict[int, Path] = {}
    while True:
        rows = [{"id": [n], "pixels": [rng.bytes(100)]} for n in range(10)]
        uri = tmp_path / str(made)
        write_dataset(uri, {"train": [rows]}, FEATURES, gzip=True)
        size = shard(uri, "").stat().st_size
        if size in sizes:
            break
        sizes[size] = uri
        made += 1
    shutil.copyfile(shard(uri, ""), shard(sizes[size], ""))
    for shuffle in (True, False):
        with pytest.raises(tf.errors.OpError, match=r"data_tfrecord-00000-of-00001.gz"):
            read(sizes[size], shuffle=shuffle)


def test_a_copy_of_another_runs_shard_does_not_stay_in_the_cache(foreign, two_runs, tmp_path):
    cache = str(tmp_path / "cache")
    with pytest.raises(tf.errors.OpError, match=FOREIGN):
        read(foreign, cache=cache)
    shutil.copyfile(shard(two_runs[0]), shard(foreign))
    assert read(foreign, cache=cache) == 8


# --- Indexes ---


@pytest.fixture
def indexed(two_runs, tmp_path) -> Path:
    """The first run with an index for each shard."""
    uri = tmp_path / "indexed"
    shutil.copytree(two_runs[0], uri)
    path = uri / "manifest.json"
    manifest = Manifest.from_json(path.read_text(), path=str(path))
    shards = []
    for entry in manifest.shards:
        with (uri / entry.path).open("rb") as stream:
            index = RecordIndex(scan_lengths(stream, path=entry.path)).to_bytes()
        target = uri / index_file(entry.path)
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(index)
        shards.append(dataclasses.replace(entry, index_crc32c=extend_crc32c(0, index)))
    path.write_text(dataclasses.replace(manifest, shards=tuple(shards)).to_json())
    return uri


def moved(lengths: bytes) -> bytes:
    """Of two lengths one longer, the other shorter."""
    return (np.frombuffer(lengths, "<u2") + np.array([1, -1])).astype("<u2").tobytes()


DAMAGES = {
    "missing": lambda data: None,
    "empty": lambda data: b"",
    "cut": lambda data: data[:-1],
    "header cut": lambda data: data[:20],
    "a zip": lambda data: b"PK\x03\x04" + data[4:],
    "no brace": lambda data: data.replace(b"}", b"("),
    "quotes": lambda data: data.replace(b"'descr'", b"'descr "),
    "many": lambda data: data.replace(b"(10,)", b"(9999999999999999999,)"),
    "null": lambda data: data.replace(b"descr", b"des\0r"),
    "another length": lambda data: data[:-2] + b"\xff\xff",
    "one longer, one shorter": lambda data: data[:-4] + moved(data[-4:]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_told_once_and_the_shard_read_through(indexed, damage, our_messages):
    path = indexed / "index" / f"train-{FOREIGN}.npy"
    changed = DAMAGES[damage](path.read_bytes())
    path.unlink()
    if changed is not None:
        path.write_bytes(changed)
    for _ in range(2):
        dataset = input_fn(str(indexed), features="id", batch_size=4, shuffle="global")
        read = [int(n) for batch in dataset.as_numpy_iterator() for n in batch]
        assert sorted(read) == list(range(10, 40))
    (told,) = our_messages()
    assert str(path) in told


@settings(max_examples=300)
@given(st.data())
def test_any_damage_of_an_index_is_our_error(data):
    good = RecordIndex(np.arange(300, 340)).to_bytes()
    place = data.draw(st.integers(0, len(good) - 1))
    choices = st.one_of(st.just(b""), st.binary(max_size=9), st.just(bytes([good[place] ^ 1])))
    bad = good[:place] + data.draw(choices) + good[place + data.draw(st.integers(1, 9)) :]
    with contextlib.suppress(CorruptShardError):
        assert RecordIndex.from_bytes(bad, path="x").lengths.ndim == 1


def test_an_index_that_is_none_is_named():
    for bad in (b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00\xff\xff{'descr': ("):
        with pytest.raises(CorruptShardError, match=r"'index/x.npy': expected a record index"):
            RecordIndex.from_bytes(bad, path="index/x.npy")
