"""Shards plain and compressed, as TensorFlow writes them."""

import gzip
from pathlib import Path

import pytest
import tensorflow as tf

from trainer_utils.dataset.shards import (
    gzip_content_bytes,
    is_gzip,
    open_records,
    read_shard_blocks,
)
from trainer_utils.format import CorruptShardError

RECORDS = [bytes([n % 256]) * (n % 50) for n in range(500)]


def write(path: Path) -> str:
    options = tf.io.TFRecordOptions("GZIP" if path.suffix == ".gz" else "")
    with tf.io.TFRecordWriter(str(path), options) as writer:
        for record in RECORDS:
            writer.write(record)
    return str(path)


@pytest.mark.parametrize("name", ["shard", "shard.gz"])
@pytest.mark.parametrize("block_bytes", [100, 1 << 20])
def test_records_are_those_that_tensorflow_wrote(tmp_path, name, block_bytes):
    path = write(tmp_path / name)
    blocks = read_shard_blocks(path, block_bytes=block_bytes)
    assert [bytes(record) for block in blocks for record in block.records()] == RECORDS


def test_the_size_of_what_is_compressed_is_that_of_the_plain_file(tmp_path):
    plain, zipped = write(tmp_path / "shard"), write(tmp_path / "shard.gz")
    assert (is_gzip(plain), is_gzip(zipped)) == (False, True)
    assert gzip_content_bytes(zipped) == (tmp_path / "shard").stat().st_size
    with open_records(zipped) as stream:
        assert stream.read() == (tmp_path / "shard").read_bytes()


def test_a_gzip_file_cut_short_is_named(tmp_path):
    path = tmp_path / "shard.gz"
    data = gzip.compress(Path(write(tmp_path / "shard")).read_bytes())
    for part in (0.5, 0.99):
        path.write_bytes(data[: int(len(data) * part)])
        with pytest.raises(CorruptShardError) as caught:
            list(read_shard_blocks(str(path)))
        assert caught.value.path == str(path)
