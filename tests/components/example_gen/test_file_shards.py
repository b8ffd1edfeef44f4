"""Test shards of files: reading ahead, parts that are joined, indices, and verification."""

import itertools
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
import tensorflow as tf

from components import steps
from components.example_gen import file_shards, parallel_shards
from components.example_gen.file_shards import EncodedPart
from components.example_gen.settings import AudioSettings, ImageSettings
from components.image_example_gen import Executor
from components.inputs.blob_reader import BlobReader
from components.inputs.input_table import Blob, Entry
from components.runtime.runners import Runner
from components.runtime.tasks import Cost
from tests.components.runs import manifest_of, run
from tests.make import everything, photo, wav, write_files
from tests.record_names import check_record_names
from trainer_utils import storage
from trainer_utils.core.errors import CorruptShardError

FILES = 100


@pytest.mark.parametrize(
    ("waits_each", "reads_ahead"), [(0, False), (8, False), (9, True), (16, True)]
)
def test_threads_read_ahead_if_every_other_read_waits(
    tmp_path, monkeypatch, waits_each, reads_ahead
):
    content = {
        f"{number}.bin": np.random.default_rng(number).bytes(number) for number in range(FILES)
    }
    for name, data in content.items():
        (tmp_path / name).write_bytes(data)
    entries = [Entry(name, None, (Blob(name, len(data)),)) for name, data in content.items()]
    waits = itertools.count(0, waits_each)
    monkeypatch.setattr(file_shards, "_count_waits", lambda: next(waits))
    readers = []
    read = BlobReader.read

    def noted(self: BlobReader, blob: Blob) -> bytes:
        readers.append((blob.path, threading.current_thread() is threading.main_thread()))
        return read(self, blob)

    monkeypatch.setattr(BlobReader, "read", noted)
    found = [*file_shards._read_ahead(entries, BlobReader(str(tmp_path)))]

    assert [entry for entry, _, _ in found] == entries
    assert sorted(path for path, _ in readers) == sorted(content)
    assert [path for path, is_here in readers if is_here] == [*content][
        : 16 if reads_ahead else None
    ]
    for entry, blobs, sums in found[1:]:
        assert (blobs, sums) == (
            [content[entry.name]],
            [google_crc32c.value(content[entry.name])],
        )
    _, empty, sums = found[0]
    assert (empty, sums) == ([b""], [0])


def convert(base: Path, uri: Path, **settings: Any) -> dict[str, Any]:
    run(Executor, base, uri, target_shard_bytes=4_000, **settings)
    return manifest_of(uri)


@pytest.fixture
def photos(tmp_path) -> Path:
    return write_files(tmp_path / "in", {f"train/{n}.jpg": photo(n) for n in range(12)})


def test_empty_shard_is_removed_and_others_are_renumbered(photos, tmp_path):
    whole = convert(photos, tmp_path / "whole")
    first = tmp_path / "whole" / whole["shards"][0]["path"]
    for record in tf.data.TFRecordDataset(str(first)).as_numpy_iterator():
        example = tf.train.Example.FromString(record)
        (name,) = example.features.feature["filename"].bytes_list.value
        (photos / name.decode()).write_bytes(b"\xff\xd8 no photo".ljust(len(photo(0)), b"."))
    manifest = convert(photos, tmp_path / "out", max_reject_fraction=0.9)
    count = len(manifest["shards"])
    assert 0 < count < len(whole["shards"])
    names = [f"train-{number:05d}-of-{count:05d}.npy" for number in range(count)]
    assert sorted(path.name for path in (tmp_path / "out/index").glob("*-*[0-9].npy")) == names
    assert check_record_names(tmp_path / "out") == manifest["total"]["written"]
    for entry, name in zip(manifest["shards"], names, strict=True):
        data = (tmp_path / "out/index" / name).read_bytes()
        assert f"{google_crc32c.value(data):08x}" == entry["index_crc32c"]


def test_shard_damaged_on_disk_raises_before_the_manifest(photos, tmp_path, monkeypatch):
    rename = storage.rename

    def rename_and_lose(source: str, target: str) -> None:
        rename(source, target)
        if "data_tfrecord-00001" in target:
            data = bytearray(Path(target).read_bytes())
            data[-300] ^= 1
            Path(target).write_bytes(data)

    monkeypatch.setattr(storage, "rename", rename_and_lose)
    with pytest.raises(CorruptShardError, match=r"00001-of-.*bytes written, with checksum .*, got"):
        convert(photos, tmp_path / "out")
    assert not (tmp_path / "out/manifest.json").exists()


class _Side(Runner):
    """Runner that claims eight processes, runs in this one, and records its tasks and results."""

    def __init__(self) -> None:
        super().__init__(processes=1)
        self.names: list[str] = []
        self.made: list[Any] = []

    def count(self, tasks: int, cost: Cost, paths: Sequence[str] = ()) -> int:
        return min(8, tasks)

    def run(self, call: Any, tasks: Sequence[Any], processes: int, **cost: Any) -> list[Any]:
        self.names += [task.name for task in tasks]
        made = [call(task) for task in tasks]
        self.made += made
        return made


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(parallel_shards, "_PART_RECORDS", 3)


def _photos(folder: Path) -> Path:
    kinds = ["JPEG", "PNG", "BMP", "JPEG", "GIF"]
    files: dict[str, bytes | str] = {
        f"{'ab'[n % 2]}/{n}.jpg": photo(n, kinds[n % 5], size=(20 + n % 3, 24)) for n in range(60)
    }
    return write_files(folder, files | {"a/cut.jpg": photo(1)[:300], "b/empty.jpg": b""})


@pytest.mark.parametrize("layout", ["images", "sounds"])
def test_joined_parts_equal_the_shards_of_one_process(tmp_path, layout):
    settings: Any
    if layout == "images":
        source, settings = _photos(tmp_path / "in"), ImageSettings(max_reject_fraction=0.5)
    else:
        sounds = {f"{'ab'[n % 2]}/{n}.wav": wav(n, frames=400 + n) for n in range(40)}
        source, settings = write_files(tmp_path / "in", sounds), AudioSettings()
    side = _Side()
    steps.convert(str(source), str(tmp_path / "side"), settings, runner=side)
    steps.convert(str(source), str(tmp_path / "alone"), settings, runner=Runner(processes=1))
    assert sum("-part-" in name for name in side.names) > 8
    made, alone = everything(tmp_path / "side"), everything(tmp_path / "alone")
    assert made == {**alone, "lineage.json": made["lineage.json"]}


def test_compressed_or_numerous_shards_are_not_split_in_parts(tmp_path, subtests):
    source = str(_photos(tmp_path / "in"))
    for number, more in enumerate([{"compression": "gzip"}, {"target_shard_bytes": 2000}]):
        with subtests.test(number=number):
            side, settings = _Side(), ImageSettings(max_reject_fraction=0.5, **more)
            steps.convert(source, str(tmp_path / f"out-{number}"), settings, runner=side)
            assert not any("-part-" in name for name in side.names)


@pytest.mark.parametrize("damage", [b"", b"\0" * 99])
def test_damaged_part_raises_before_the_manifest(tmp_path, monkeypatch, damage):
    source = str(_photos(tmp_path / "in"))

    class Damaging(_Side):
        def run(self, call: Any, tasks: Sequence[Any], processes: int, **cost: Any) -> list[Any]:
            made = super().run(call, tasks, processes, **cost)
            for part in made:
                if isinstance(part, EncodedPart):
                    Path(part.path).write_bytes(damage)
            return made

    settings = ImageSettings(max_reject_fraction=0.5)
    with pytest.raises(CorruptShardError):
        steps.convert(source, str(tmp_path / "out"), settings, runner=Damaging())
    assert not (tmp_path / "out" / "manifest.json").exists()
