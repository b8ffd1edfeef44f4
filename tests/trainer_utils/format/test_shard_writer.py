"""Shards against TensorFlow's writer, the gzip module and google-crc32c."""

import gzip
import random

import google_crc32c
import numpy as np
import pytest
import tensorflow as tf

from tests.trainer_utils.format.tfrecord_files import frame_records
from trainer_utils.format import ShardWriter

RECORDS = [random.Random(n).randbytes(size) for n, size in enumerate([0, 5, 3 << 20, 100, 1 << 20])]


def write(path, records, *, compress=False):
    with path.open("wb") as stream:
        writer = ShardWriter(stream, gzip=compress)
        for record in records:
            writer.write([record[:3], record[3:]])
        return writer.finish()


@pytest.mark.parametrize("compress", [False, True])
def test_the_digest_is_of_the_file_as_it_lies_there(tmp_path, compress):
    path = tmp_path / "shard"
    digest = write(path, RECORDS, compress=compress)
    assert digest.records == len(RECORDS)
    assert digest.bytes == path.stat().st_size
    assert digest.crc32c == google_crc32c.value(path.read_bytes())
    read = tf.data.TFRecordDataset(str(path), "GZIP" if compress else "").as_numpy_iterator()
    assert list(read) == RECORDS


def test_a_gzip_shard_holds_no_time(tmp_path):
    for name in ("one", "two"):
        write(tmp_path / name, RECORDS, compress=True)
    data = (tmp_path / "one").read_bytes()
    assert data == (tmp_path / "two").read_bytes()
    assert gzip.decompress(data) == frame_records(RECORDS)


def test_framed_blocks_and_records_keep_their_order(tmp_path):
    path = tmp_path / "shard"
    with path.open("wb") as stream:
        writer = ShardWriter(stream)
        writer.write([b"first"])
        crcs = [int.from_bytes(frame_records([r])[-4:], "little") for r in (b"second", b"third")]
        writer.write_framed(
            frame_records([b"second", b"third"]),
            np.array([6, 5], np.int64),
            np.array(crcs, np.uint32),
        )
        writer.write([b"fourth"])
        content = writer.finish().content
    with (tmp_path / "alone").open("wb") as stream:
        writer = ShardWriter(stream)
        for record in (b"third", b"fourth", b"first", b"second"):
            writer.write([record])
        assert writer.finish().content == content
    read = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    assert list(read) == [b"first", b"second", b"third", b"fourth"]
