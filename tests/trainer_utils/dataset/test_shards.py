"""Test how the records of a shard are read and located by its index."""

from pathlib import Path

import numpy as np
import pytest

import trainer_utils
from tests.make import frame_records, write_records
from trainer_utils.dataset import open_dataset
from trainer_utils.dataset.compression import (
    compression_of,
    content_bytes,
    open_records,
    read_shard_blocks,
)
from trainer_utils.dataset.opening import find_numbers, index_with_checksums, load_index_or_none
from trainer_utils.format import RecordIndex
from trainer_utils.format.layouts import ShardFile
from trainer_utils.format.naming import index_file

RECORDS = [bytes([n % 256]) * (n % 50) for n in range(500)]


def write(path: Path) -> str:
    write_records(path, RECORDS, "GZIP" if path.suffix == ".gz" else "")
    return str(path)


@pytest.mark.parametrize("name", ["shard", "shard.gz"])
@pytest.mark.parametrize("block_bytes", [100, 1 << 20])
def test_records_match_those_written_by_tensorflow(tmp_path, name, block_bytes):
    path = write(tmp_path / name)
    blocks = read_shard_blocks(path, block_bytes=block_bytes)
    assert [bytes(record) for block in blocks for record in block.records()] == RECORDS


def test_content_size_of_a_gzip_file_is_uncompressed(tmp_path):
    plain, zipped = write(tmp_path / "shard"), write(tmp_path / "shard.gz")
    assert (compression_of(plain), compression_of(zipped)) == (None, "gzip")
    assert content_bytes(zipped) == (tmp_path / "shard").stat().st_size
    with open_records(zipped) as stream:
        assert stream.read() == (tmp_path / "shard").read_bytes()


def test_index_of_another_file_is_not_used(tmp_path):
    name = "Split-train/data_tfrecord-00000-of-00001"
    records = [b"", b"one", b"x" * 300]
    shard, index = ShardFile(name, path=f"{tmp_path}/{name}"), tmp_path / index_file(name)
    assert load_index_or_none(shard, size=355) is None
    index.parent.mkdir(parents=True)
    index.write_bytes(RecordIndex(np.array([0, 3, 300])).to_bytes())
    size = len(frame_records(records))
    assert load_index_or_none(shard, size=size).offsets.tolist() == [0, 16, 35, size]
    assert load_index_or_none(shard, size=size + 1) is None
    index.write_bytes(b"no index")
    assert load_index_or_none(shard, size=size) is None
    assert load_index_or_none(ShardFile("x", path="elsewhere.tfrecord"), size=size) is None


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, [1, 2]),
        ({"record_id": "a"}, None),  # the index has this name and not `filename`
        ({"filename": ["a", "b"]}, None),
        ({"id": 5}, None),
    ],
)
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_records_are_found_by_name_if_names_are_single(tmp_path, values, says, compression):
    settings = {"num_shards": 1, "compression": compression}
    with trainer_utils.DatasetWriter(str(tmp_path / "out"), **settings) as writer:
        for name in ("a", "b", "b"):
            writer.write("train", {"filename": name, **values})
    dataset = open_dataset(str(tmp_path / "out"))
    (shard,) = dataset.shards["train"]
    assert find_numbers(dataset, shard, [b"b", b"c"]) == says
    summed = index_with_checksums(shard)
    (tmp_path / "out/index/train-00000-of-00001.npy").unlink()
    assert find_numbers(dataset, shard, [b"b"]) is None
    again = index_with_checksums(shard)
    assert again.name_crcs.tolist() == summed.name_crcs.tolist()
    assert again.payload_crcs.tolist() == summed.payload_crcs.tolist()
    assert again.lengths.tolist() == summed.lengths.tolist()
