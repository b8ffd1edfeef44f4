"""Offsets of records equal the offsets of whole indices, in bounded memory, for every version."""

import dataclasses
import random
from pathlib import Path

import numpy as np
import pytest

import trainer_utils
from trainer_utils.dataset import open_dataset, read_index
from trainer_utils.format import Manifest, RecordIndex
from trainer_utils.format.index import HEAD_BYTES, IndexLayout
from trainer_utils.format.tfrecord import compact, extend_crc32c
from trainer_utils.options import InputOptions
from trainer_utils.reading import record_offsets
from trainer_utils.reading.shard_files import ShardFiles

SHARDS, RECORDS = 5, 300


@pytest.fixture
def uri(tmp_path):
    source = random.Random(3)
    with trainer_utils.DatasetWriter(tmp_path / "out", num_shards={"train": SHARDS}) as writer:
        for number in range(SHARDS * RECORDS):
            text = source.randbytes(source.choice([0, 3, 50, 400]))
            writer.write("train", {"id": b"%d" % number, "text": text})
    return tmp_path / "out"


@pytest.fixture(autouse=True)
def small_segments(monkeypatch):
    monkeypatch.setattr(record_offsets, "SEGMENT", 64)


def rewrite_indices(uri: Path, version: int) -> None:
    """Give a dataset the indices of an earlier format version."""
    path = uri / "manifest.json"
    manifest = Manifest.from_json(path.read_text(), path="manifest.json")
    shards = []
    for number, shard in enumerate(manifest.shards):
        index = uri / f"index/train-{number:05d}-of-{SHARDS:05d}.npy"
        data = index.read_bytes()
        with index.open("rb") as stream:
            columns = [np.load(stream) for _ in range(3)]
            end = stream.tell()
        kept = data[:end] if version == 3 else to_npy(columns[0])
        index.unlink()
        index.write_bytes(kept)
        shards.append(shard._replace(index_crc32c=extend_crc32c(0, kept)))
    path.unlink()
    changed = dataclasses.replace(manifest, shards=tuple(shards), format_version=version)
    path.write_text(changed.to_json())


def to_npy(lengths: np.ndarray) -> bytes:
    return RecordIndex(compact(lengths)).to_bytes()


def all_bounds(uri: Path, rows: list[tuple[int, int]], **options: object) -> list[tuple]:
    """Return begin, end and checksum of records, asked for in several calls."""
    shards = open_dataset(str(uri)).shards["train"]
    files = ShardFiles(shards, InputOptions(**options), mean_bytes=100.0)
    found = []
    for first in range(0, len(rows), 100):
        part = np.array(rows[first : first + 100])
        begins, ends, sums, are_known = files.bounds(part[:, 0], part[:, 1])
        found += zip(begins, ends, np.where(are_known, sums, 0), strict=True)
    return [tuple(map(int, row)) for row in found]


def expected_bounds(uri: Path, rows: list[tuple[int, int]]) -> list[tuple]:
    indices = [read_index(shard) for shard in open_dataset(str(uri)).shards["train"]]
    known = [index.payload_crcs for index in indices]
    return [
        (
            int(indices[shard].offsets[record]),
            int(indices[shard].offsets[record + 1]),
            0 if known[shard] is None else int(known[shard][record]),
        )
        for shard, record in rows
    ]


def draw_rows(count: int) -> list[tuple[int, int]]:
    source = random.Random(count)
    return [(source.randrange(SHARDS), source.randrange(RECORDS)) for _ in range(count)]


@pytest.mark.parametrize("slots", [1, 3, 2048])
@pytest.mark.parametrize("shuffle", [True, "global"])
@pytest.mark.parametrize("version", [2, 3, 4])
def test_bounds_equal_those_from_whole_indices(monkeypatch, uri, version, shuffle, slots):
    monkeypatch.setattr(record_offsets, "_MAX_SEGMENTS", slots)
    if version < 4:
        rewrite_indices(uri, version)
    rows = [(shard, record) for shard in range(SHARDS) for record in range(RECORDS)]
    rows += draw_rows(700)
    assert all_bounds(uri, rows, shuffle=shuffle) == expected_bounds(uri, rows)


def test_large_indices_are_read_in_parts(monkeypatch, uri):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a whole index was read")

    monkeypatch.setattr(RecordIndex, "from_bytes", refuse)
    assert len(all_bounds(uri, draw_rows(500))) == 500


@pytest.mark.parametrize("shuffle", [True, "global"])
def test_damaged_parts_of_an_index_fall_back_to_the_shard(monkeypatch, caplog, uri, shuffle):
    monkeypatch.setattr(record_offsets, "_MAX_SEGMENTS", 2)
    rows = draw_rows(300)
    expected = [row[:2] for row in expected_bounds(uri, rows)]
    path = uri / f"index/train-00002-of-{SHARDS:05d}.npy"
    data = bytearray(path.read_bytes())
    data[128 + 2 * 70] ^= 1  # the length of record 70
    path.unlink()
    path.write_bytes(data)
    assert [row[:2] for row in all_bounds(uri, rows, shuffle=shuffle)] == expected
    assert "record index" in caplog.text


def test_records_past_the_end_have_no_bounds(uri):
    shards = open_dataset(str(uri)).shards["train"]
    files = ShardFiles(shards, InputOptions(), mean_bytes=100.0)
    begins, ends, _, _ = files.bounds(np.array([0, 1, 1]), np.array([RECORDS, 0, RECORDS + 9]))
    assert (begins[0], begins[2], ends[0], ends[2]) == (-1, -1, -1, -1)
    assert begins[1] == 0


@pytest.mark.parametrize("records", [0, 1, 63, 64, 65, 128, 1000])
def test_layout_of_an_index_file_finds_its_columns(records):
    source = np.random.default_rng(records)
    lengths = source.integers(0, 70_000, records)
    crcs = source.integers(0, 1 << 32, records, dtype=np.uint32)
    index = RecordIndex(lengths, crcs, crcs)
    data = index.to_bytes()
    layout = IndexLayout.of(data[:HEAD_BYTES], len(data))
    assert layout is not None
    assert layout.records == records
    for first in range(0, records, 64):
        for stop in {min(first + 64, records), records}:
            offsets, sums = layout.read(lambda a, b: data[a:b], first, stop, path="index")
            np.testing.assert_array_equal(offsets, index.offsets[first : stop + 1])
            np.testing.assert_array_equal(sums, crcs[first:stop])
    assert RecordIndex.from_bytes(data, path="index").to_bytes() == data
