"""Single records of a shard by number, and where their frames begin."""

import resource
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer_utils.reading.one_shard import IDS, shard
from trainer_utils.format import CorruptShardError, Feature, RecordIndex
from trainer_utils.format.framing import frame_records
from trainer_utils.format.tfrecord import scan_until_damage
from trainer_utils.reading.shard_reader import UNREADABLE, ShardReader

# --- Single records ---


@pytest.mark.parametrize("gzip", [False, True])
def test_records_by_number_are_those_that_tensorflow_reads(tmp_path, write_dataset, gzip):
    rows = [{"id": [n], "text": [bytes(n * 997)]} for n in range(40)]
    features = {**IDS, "text": Feature(type="string")}
    uri = write_dataset(tmp_path, {"train": [rows]}, features, gzip=gzip)
    path = str(shard(uri, 0))
    theirs = list(tf.data.TFRecordDataset(path, "GZIP" if gzip else "").as_numpy_iterator())
    numbers = [39, 0, 17, 17, 3]
    assert ShardReader().read(path, numbers) == [theirs[number] for number in numbers]
    with pytest.raises(CorruptShardError, match="record 40, byte"):
        ShardReader().read(path, [40])
    assert ShardReader(skips=True).read(path, [40]) == [UNREADABLE]


def test_no_more_files_are_open_than_the_process_may(tmp_path, write_dataset, monkeypatch):
    uri = write_dataset(tmp_path, {"train": [[{"id": [n]}] for n in range(20)]}, IDS)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    reader = ShardReader()
    before = len(list(Path("/proc/self/fd").iterdir()))
    records = [reader.read(str(shard(uri, n)), [0]) for n in range(20)]
    assert len({*map(tuple, records)}) == 20
    assert len(list(Path("/proc/self/fd").iterdir())) - before == 8


def test_a_shard_that_was_replaced_is_seen_by_who_looks_again(tmp_path, write_dataset):
    path = shard(write_dataset(tmp_path, {"train": [[{"id": [1]}]]}, IDS), 0)
    reader = ShardReader()
    (before,) = reader.read(str(path), [0])
    other = tmp_path / "other"
    other.write_bytes(frame_records([before[:-1] + b"\x07"]))
    other.replace(path)
    assert reader.read(str(path), [0]) == [before]
    reader.look_again()
    assert reader.read(str(path), [0]) == [before[:-1] + b"\x07"]


def test_offsets_are_where_the_frames_begin(tmp_path):
    lengths = [0, 1, 5_000_000, 7, 1 << 20]
    with tf.io.TFRecordWriter(str(tmp_path / "shard")) as writer:
        for length in lengths:
            writer.write(bytes(length))
    expected = np.cumsum([0, *(length + 16 for length in lengths)])
    with (tmp_path / "shard").open("rb") as stream:
        found, damage = scan_until_damage(stream, path="shard")
    assert RecordIndex(found).offsets.tolist() == expected.tolist()
    assert damage is None
