"""A step's records: read wherever they lie, and never past damage without a word."""

import gzip
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import trainer_utils
from trainer_utils import CorruptShardError
from trainer_utils.format import Feature

IDS = list(range(30))


@pytest.fixture
def ours(tmp_path, write_dataset):
    shards = [[{"id": [n]} for n in IDS[i::3]] for i in range(3)]
    return write_dataset(tmp_path / "ours", {"train": shards}, {"id": Feature(type="int")})


def ids(place, **settings):
    batches = trainer_utils.iterate(place, batch_size=4, features="id", **settings)
    return sorted(int(value) for batch in batches for value in batch)


@pytest.mark.parametrize("shuffle", [False, True])
def test_gzip_and_object_stores_are_read(ours, tmp_path, in_memory, shuffle):
    assert ids(ours, shuffle=shuffle) == IDS
    path = tmp_path / "train.tfrecord.gz"
    with tf.io.TFRecordWriter(str(path), options="GZIP") as writer:
        for name in sorted((tmp_path / "ours/Split-train").iterdir()):
            for record in tf.data.TFRecordDataset(str(name)):
                writer.write(record.numpy())
    assert ids(str(path), shuffle=shuffle) == IDS
    remote = in_memory(tmp_path / "ours", f"arrays{shuffle}")
    assert ids(remote, shuffle=shuffle, cache=str(tmp_path / "copies")) == IDS
    (tmp_path / "cut.tfrecord.gz").write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorruptShardError, match=r"cut\.tfrecord\.gz"):
        ids(str(tmp_path / "cut.tfrecord.gz"))


CUT = """
import os, sys
import trainer_utils
uri, size, shuffle = sys.argv[1], int(sys.argv[2]), sys.argv[3] or False
with trainer_utils.DatasetWriter(uri, num_shards=2) as writer:
    for number in range(6_000_000 // size):
        writer.write("train", {"text": "x" * size})
batches = iter(trainer_utils.iterate(uri, batch_size=4, shuffle=shuffle))
next(batches)
for shard in os.scandir(f"{uri}/Split-train"):
    os.truncate(shard.path, 5000)
try:
    list(batches)
except trainer_utils.CorruptShardError as error:
    print(error)
"""


@pytest.mark.parametrize("size", [1_000, 100_000])
@pytest.mark.parametrize("shuffle", ["", "global"])
def test_a_shard_that_is_cut_short_while_it_is_read_is_an_error(tmp_path, size, shuffle):
    """In a process of its own, since a look behind the end of a mapped file ends it."""
    arguments = [sys.executable, "-c", CUT, str(tmp_path / "d"), str(size), shuffle]
    run = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert "since it was opened" in run.stdout


@pytest.mark.parametrize("place", [2, 9, 14, -2])
def test_each_checksum_is_checked(ours, place):
    path = f"{ours}/Split-train/data_tfrecord-00001-of-00003"
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        data[place] ^= 1
        file.seek(0)
        file.write(data)
    with pytest.raises(CorruptShardError, match="data_tfrecord-00001-of-00003"):
        ids(ours)


def test_a_shard_of_another_run_is_found_by_its_sum(ours, tmp_path, write_dataset):
    shards = [[{"id": [n + 1]} for n in IDS[i::3]] for i in range(3)]
    other = write_dataset(tmp_path / "other", {"train": shards}, {"id": Feature(type="int")})
    name = "Split-train/data_tfrecord-00002-of-00003"
    shutil.copy(f"{other}/{name}", f"{ours}/{name}")
    with pytest.raises(
        CorruptShardError, match=r"00002-of-00003.*the file that the manifest names"
    ):
        ids(ours)


def test_an_empty_file_has_no_records(tmp_path, serialize):
    (tmp_path / "a.tfrecord").write_bytes(b"")
    with tf.io.TFRecordWriter(f"{tmp_path}/b.tfrecord") as writer:
        writer.write(serialize(id=[1]))
    assert ids(str(tmp_path)) == [1]
    (tmp_path / "b.tfrecord.gz").write_bytes(gzip.compress(b""))
    assert ids(str(tmp_path)) == [1]
    assert np.size(ids(str(tmp_path), drop_remainder=True)) == 0
