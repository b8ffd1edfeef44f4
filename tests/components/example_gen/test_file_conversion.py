"""Shards of files have an index that leads to every record, and are read back before they count."""

import gzip
import io
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
import tensorflow as tf

from components.image_example_gen import Executor
from tests.components.runs import manifest_of, run
from tests.make import photo, write_files
from tests.record_names import check_record_names
from trainer_utils import storage
from trainer_utils.format import CorruptShardError, RecordIndex, Shard


def convert(base: Path, uri: Path, **settings: Any) -> dict[str, Any]:
    run(Executor, base, uri, target_shard_bytes=4_000, **settings)
    return manifest_of(uri)


@pytest.fixture
def photos(tmp_path) -> Path:
    return write_files(tmp_path / "in", {f"train/{n}.jpg": photo(n) for n in range(12)})


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_the_index_leads_to_every_record_of_every_shard(photos, tmp_path, compression):
    manifest = convert(photos, tmp_path / "out", compression=compression)
    shards = manifest["shards"]
    assert len(shards) > 1
    for entry in shards:
        path = tmp_path / "out" / entry["path"]
        kind = "GZIP" if compression == "gzip" else ""
        records = [*tf.data.TFRecordDataset(str(path), kind).as_numpy_iterator()]
        name = path.name.removesuffix(".gz").replace("data_tfrecord", "train")
        data = (tmp_path / f"out/index/{name}.npy").read_bytes()
        assert f"{google_crc32c.value(data):08x}" == entry["index_crc32c"]
        index = RecordIndex.from_bytes(data, path=name, shard=Shard.from_entries([entry])[0])
        stream = io.BytesIO(gzip.decompress(path.read_bytes()) if kind else path.read_bytes())
        assert [index.read(stream, n, path="") for n in range(len(index))] == records
    assert check_record_names(tmp_path / "out") == 12


def test_a_shard_without_records_goes_with_its_index_and_the_others_are_renumbered(
    photos, tmp_path
):
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


def test_a_shard_whose_bytes_the_disk_lost_is_found_before_the_manifest_is_written(
    photos, tmp_path, monkeypatch
):
    rename = storage.rename

    def rename_and_lose(source: str, target: str) -> None:
        rename(source, target)
        if "data_tfrecord-00001" in target:
            data = bytearray(Path(target).read_bytes())
            data[-300] ^= 1
            Path(target).write_bytes(data)

    monkeypatch.setattr(storage, "rename", rename_and_lose)
    with pytest.raises(CorruptShardError, match=r"00001-of-.*were written, got"):
        convert(photos, tmp_path / "out")
    assert not (tmp_path / "out/manifest.json").exists()
