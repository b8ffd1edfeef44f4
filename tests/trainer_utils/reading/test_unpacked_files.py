"""Compressed shards are unpacked once per machine, within the limit of the cache folder."""

import collections
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import trainer_utils
from tests.make import REPOSITORY, refusing, write_rows
from trainer_utils import CacheOptions, ConfigError, CorruptShardError
from trainer_utils.reading import unpacked_files

SHARDS, RECORDS, OWN = 12, 1200, 64 << 10


@pytest.fixture(scope="module")
def packed(tmp_path_factory) -> str:
    """Write 12 gzip shards of 100 records; each unpacks to 1 MB."""
    folder = tmp_path_factory.mktemp("packed") / "set"
    rows = ({"id": number, "text": b"x" * 10_000} for number in range(RECORDS))
    return write_rows(folder, rows, num_shards=SHARDS, compression="gzip")


@pytest.fixture
def unpacked(monkeypatch) -> collections.Counter[str]:
    """Count how often each shard is unpacked."""
    counts = collections.Counter[str]()
    open_records = unpacked_files.open_records

    def count(path):
        counts[path] += 1
        return open_records(path)

    monkeypatch.setattr(unpacked_files, "open_records", count)
    return counts


def taken(folder: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())


def ids(uri: str, folder: Path, most: int | None = None, **settings: object) -> list[int]:
    cache = CacheOptions(folder=str(folder), max_bytes=most)
    batches = trainer_utils.iterate(uri, "train", batch_size=8, cache=cache, **settings)
    return np.concatenate([batch["id"] for batch in batches]).tolist()


@pytest.mark.parametrize("shuffle", [False, True, 100, "global"])
def test_each_shard_is_unpacked_once_for_all_epochs(packed, unpacked, tmp_path, shuffle):
    for _ in range(2):
        seen = ids(packed, tmp_path, shuffle=shuffle, repeat=2)
        assert sorted(seen) == sorted([*range(RECORDS)] * 2)
    assert [*unpacked.values()] == [1] * SHARDS


def test_processes_share_the_work_of_unpacking(packed, tmp_path):
    code = """
import sys
from trainer_utils import CacheOptions, iterate
from trainer_utils.reading import unpacked_files
opened, open_records = [], unpacked_files.open_records
unpacked_files.open_records = lambda path: opened.append(path) or open_records(path)
records = sum(len(b["id"]) for b in iterate(
    sys.argv[1], "train", batch_size=8, cache=CacheOptions(folder=sys.argv[2])))
print(records, len(opened))
"""
    command = [sys.executable, "-c", code, packed, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    runs = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    found = [run.communicate()[0].split() for run in runs]
    assert [int(records) for records, _ in found] == [RECORDS] * 3
    assert sum(int(opened) for _, opened in found) == SHARDS


def test_in_order_the_limit_holds_and_shards_are_unpacked_once(packed, unpacked, tmp_path):
    most = (3 << 20) + OWN
    cache = CacheOptions(folder=str(tmp_path), max_bytes=most)
    batches = trainer_utils.iterate(packed, "train", batch_size=8, cache=cache, shuffle=False)
    seen = []
    for batch in batches:
        seen += batch["id"].tolist()
        assert taken(tmp_path) <= most
    assert sorted(seen) == [*range(RECORDS)]
    assert [*unpacked.values()] == [1] * SHARDS


@pytest.mark.parametrize("settings", [{}, {"shuffle": 10}, {"shuffle": "global"}])
def test_shuffle_beyond_the_limit_is_refused(packed, unpacked, tmp_path, settings):
    with refusing("shuffle"):
        ids(packed, tmp_path, 3 << 20, **settings)
    assert not unpacked


def test_limit_below_two_shards_is_refused(packed, tmp_path):
    with refusing("cache"):
        ids(packed, tmp_path, 1 << 20, shuffle=False)


def test_refusal_names_the_sizes_and_the_cures(packed, tmp_path):
    with pytest.raises(ConfigError) as caught:
        ids(packed, tmp_path, 3 << 20)
    said = str(caught.value)
    assert "Unpacked, 12 gzip shards would take about 12.1 MB" in said
    assert "may take 3.1 MB" in said
    assert f"tfx-shards balance {packed} OUT --compression none" in said
    allowed = int(said.partition("max_bytes=")[2].partition(")")[0])
    assert sorted(ids(packed, tmp_path, allowed)) == [*range(RECORDS)]
    assert taken(tmp_path) <= allowed


def test_copy_that_a_killed_process_left_is_made_again(packed, unpacked, tmp_path):
    ids(packed, tmp_path)
    (cut, *_) = (tmp_path / "shards").glob("*-*")
    os.truncate(cut, cut.stat().st_size - 1)
    assert sorted(ids(packed, tmp_path)) == [*range(RECORDS)]
    assert sorted(unpacked.values()) == [1] * (SHARDS - 1) + [2]


def test_damaged_shard_raises_and_leaves_no_copy(tmp_path):
    rows = [{"id": number} for number in range(100)]
    uri = write_rows(tmp_path / "set", rows, num_shards=1, compression="gzip")
    (shard,) = Path(uri, "Split-train").iterdir()
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 255
    shard.write_bytes(data)
    with pytest.raises(CorruptShardError) as caught:
        ids(uri, tmp_path / "cache")
    assert caught.value.path == str(shard)
    assert [*(tmp_path / "cache" / "shards").glob("*-*")] == []


def test_only_splits_that_are_read_count(tmp_path, packed):
    with trainer_utils.DatasetWriter(
        str(tmp_path / "set"), num_shards={"train": 2, "eval": 2}, compression="gzip"
    ) as writer:
        for number in range(100):
            writer.write("train", {"id": number, "text": b"x" * 100_000})
            writer.write("eval", {"id": number, "text": b"x" * 10})
    cache = CacheOptions(folder=str(tmp_path / "cache"), max_bytes=1 << 20)
    batches = trainer_utils.iterate(str(tmp_path / "set"), "eval", batch_size=10, cache=cache)
    assert sum(len(batch["id"]) for batch in batches) == 100
