"""Test files that TensorFlow writes with `TFRecordOptions("ZLIB")`."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import trainer_utils
from trainer_utils.core.errors import CorruptShardError
from trainer_utils.dataset import open_dataset
from trainer_utils.dataset.compression import compression_of, content_bytes, read_shard_blocks
from trainer_utils.format import read_blocks
from trainer_utils.format.tfrecord import begins_with_zlib

RECORDS = 300


def example(number: int) -> bytes:
    values = {
        "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
        "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"text %d" % number])),
    }
    return tf.train.Example(features=tf.train.Features(feature=values)).SerializeToString()


def write(path: Path, compression: str = "ZLIB", *, level: int | None = None) -> str:
    options = tf.io.TFRecordOptions(compression, compression_level=level)
    with tf.io.TFRecordWriter(str(path), options) as writer:
        for number in range(RECORDS):
            writer.write(example(number))
    return str(path)


@pytest.mark.parametrize("level", [None, 0, 1, 9])
@pytest.mark.parametrize("name", ["train.tfrecord", "train.tfrecord.zlib", "train-00000-of-00001"])
def test_zlib_file_is_read_like_tensorflow(tmp_path, level, name):
    path = write(tmp_path / name, level=level)
    (kept,) = trainer_utils.iterate(path, batch_size=RECORDS, shuffle=False)
    theirs = [*tf.data.TFRecordDataset(path, "ZLIB").as_numpy_iterator()]
    assert kept["id"].tolist() == [*range(RECORDS)]
    assert kept["text"].tolist() == [b"text %d" % number for number in range(RECORDS)]
    blocks = read_shard_blocks(path, block_bytes=1000)
    assert [bytes(one) for block in blocks for one in block.records()] == theirs


def test_zlib_file_has_the_order_of_a_plain_one(tmp_path):
    found = {}
    for compression in ("ZLIB", "GZIP", ""):
        folder = tmp_path / (compression or "plain")
        folder.mkdir()
        path = write(folder / "train.tfrecord", compression)
        batches = trainer_utils.iterate(path, batch_size=32, seed=5, features="id")
        found[compression] = [batch.tolist() for batch in batches]
    assert found["ZLIB"] == found["GZIP"] == found[""]
    plain = (tmp_path / "plain/train.tfrecord").stat().st_size
    assert content_bytes(str(tmp_path / "ZLIB/train.tfrecord")) == plain


def test_folder_of_zlib_files_is_a_dataset(tmp_path):
    write(tmp_path / "train-00000-of-00001.tfrecord")
    write(tmp_path / "eval-00000-of-00001.tfrecord")
    assert open_dataset(str(tmp_path)).records == {"train": RECORDS, "eval": RECORDS}


@pytest.mark.parametrize("change", ["cut", "flip", "more"])
def test_damaged_zlib_file_raises_with_its_path(tmp_path, change):
    path = Path(write(tmp_path / "train.tfrecord"))
    data = bytearray(path.read_bytes())
    if change == "flip":
        data[len(data) // 2] ^= 255
    path.write_bytes(data[:-9] if change == "cut" else data + b"more" * (change == "more"))
    with pytest.raises(CorruptShardError, match="whole zlib stream") as caught:
        list(trainer_utils.iterate(str(path), batch_size=10))
    assert caught.value.path == str(path)


def test_plain_file_is_never_detected_as_zlib(tmp_path):
    assert compression_of(write(tmp_path / "plain", "")) is None
    assert compression_of(write(tmp_path / "gzip", "GZIP")) == "gzip"
    draw = np.random.default_rng(1)
    assert not any(begins_with_zlib(b"\x78\x9c" + draw.bytes(200)) for _ in range(2000))


def test_reading_zlib_as_plain_records_raises(tmp_path):
    path = write(tmp_path / "train.tfrecord")
    with (
        Path(path).open("rb") as stream,
        pytest.raises(CorruptShardError, match=r"got a zlib stream.*\.zlib"),
    ):
        list(read_blocks(stream, path="s3://bucket/train.tfrecord"))
