"""The records of a step, from any storage; damage is never skipped silently."""

import gzip
import os

import pytest
import tensorflow as tf

import trainer_utils
from tests.make import run_python
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


def test_gzip_and_object_stores_are_read(ours, tmp_path, in_memory):
    path = tmp_path / "train.tfrecord.gz"
    with tf.io.TFRecordWriter(str(path), options="GZIP") as writer:
        for name in sorted((tmp_path / "ours/Split-train").iterdir()):
            for record in tf.data.TFRecordDataset(str(name)):
                writer.write(record.numpy())
    assert ids(str(path), shuffle=True) == IDS
    remote = in_memory(tmp_path / "ours", "arrays")
    assert ids(remote, shuffle=True, cache=str(tmp_path / "copies")) == IDS
    (tmp_path / "cut.tfrecord.gz").write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorruptShardError, match=r"cut\.tfrecord\.gz"):
        ids(str(tmp_path / "cut.tfrecord.gz"))


CUT = """
import os, sys
import trainer_utils
uri, size, shuffle = sys.argv[1], int(sys.argv[2]), sys.argv[3] or False
with trainer_utils.DatasetWriter(uri, num_shards=2) as writer:
    for number in range(60_000_000 // size):
        writer.write("train", {"text": "x" * size})
batches = iter(trainer_utils.iterate(uri, batch_size=4, shuffle=shuffle, prefetch=0))
next(batches)
for shard in os.scandir(f"{uri}/Split-train"):
    os.truncate(shard.path, 5000)
try:
    list(batches)
except trainer_utils.CorruptShardError as error:
    print(error)
"""


@pytest.mark.parametrize(("size", "shuffle"), [(1_000, ""), (1_000, "global"), (100_000, "")])
def test_a_shard_that_is_cut_short_while_it_is_read_is_an_error(tmp_path, size, shuffle):
    """Use a separate process, since access behind the end of a mapped file would end it."""
    run = run_python(CUT, tmp_path / "d", size, shuffle)
    assert (run.returncode, run.stderr) == (0, "")
    assert "got one of 5000" in run.stdout


def test_an_empty_file_has_no_records(tmp_path, serialize):
    (tmp_path / "a.tfrecord").write_bytes(b"")
    with tf.io.TFRecordWriter(f"{tmp_path}/b.tfrecord") as writer:
        writer.write(serialize(id=[1]))
    assert ids(str(tmp_path)) == [1]
    (tmp_path / "b.tfrecord.gz").write_bytes(gzip.compress(b""))
    assert ids(str(tmp_path)) == [1]


# --- Unreadable records ---


@pytest.fixture
def flip(ours):
    """Return a function that damages a record, by its shard and number."""

    def flip(shard, record):
        path = f"{ours}/Split-train/data_tfrecord-{shard:05d}-of-00003"
        with open(path, "r+b") as file:
            data = bytearray(file.read())
            data[record * len(data) // 10 + 14] ^= 1  # all records have one size
            file.seek(0)
            file.write(data)
        return path, record

    return flip


@pytest.mark.parametrize(
    ("shuffle", "remainder"), [(True, None), (False, "drop"), ("global", "pad")]
)
def test_the_next_record_replaces_an_unreadable_one(
    ours, flip, our_messages, shuffle, remainder, subtests
):
    settings = {"batch_size": 4, "features": ["id"], "shuffle": shuffle, "remainder": remainder}
    whole = list(trainer_utils.iterate(ours, **settings))
    bad = [flip(1, record) for record in (3, 4)]  # ids 10 and 13
    with pytest.raises(CorruptShardError, match="00001-of-00003") as caught:
        list(trainer_utils.iterate(ours, **settings))
    assert (caught.value.path, caught.value.record) in bad
    for workers in (1, 2):
        with subtests.test(workers=workers):
            left = {}
            for worker in range(workers):
                found = trainer_utils.iterate(
                    ours, worker=worker, num_workers=workers, on_corrupt="skip", **settings
                )
                for _ in range(2):
                    epoch = list(found)
                    assert len(epoch) == len(whole)
                assert all(reason for reason in found.unreadable.values())
                left |= found.unreadable
            if remainder != "drop":
                assert sorted(left) == sorted(bad)
    told = [line for line in our_messages() if "replaced by" in line]
    assert told
    skipping = trainer_utils.iterate(ours, on_corrupt="skip", **settings)
    stand_in = {10: 16, 13: 16}
    for mine, other in zip(skipping, whole, strict=True):
        assert mine["id"].tolist() == [stand_in.get(n, n) for n in other["id"].tolist()]


@pytest.mark.parametrize("harm", ["gone", "cut", "garbage"])
def test_the_intact_part_of_a_shard_is_read(ours, harm):
    path = f"{ours}/Split-train/data_tfrecord-00001-of-00003"
    with open(path, "rb") as file:
        data = file.read()
    found = trainer_utils.iterate(ours, batch_size=4, on_corrupt="skip")
    os.unlink(path)
    if harm != "gone":
        with open(path, "wb") as file:
            file.write(data[: len(data) // 2] + b"x" * (len(data) // 2 if harm == "garbage" else 0))
    read = [int(n) for batch in found for n in batch["id"]]
    assert len(read) == 30
    kept = IDS[1::3][: 0 if harm == "gone" else 5]
    assert set(read) == {*IDS[0::3], *kept, *IDS[2::3]}
    assert len(found.unreadable) == 10 - len(kept)


def test_the_ledger_lists_all_records_of_a_truncated_shard(ours):
    path = f"{ours}/Split-train/data_tfrecord-00001-of-00003"
    settings = {"batch_size": 1, "shuffle": False, "prefetch": 0, "on_corrupt": "skip"}
    found = trainer_utils.iterate(ours, "train", **settings)
    os.truncate(path, os.path.getsize(path) // 2)
    step = 10 + 6  # of a missing record; those after it are missing too, and were not asked for
    (read,) = found.batch(0, step)["id"].tolist()
    assert read == IDS[2]  # the first of the next shard
    assert sorted(found.unreadable) == [(path, number) for number in range(5, 10)]
    (asked,) = found.order.records(epoch=0, step=step, worker=0)
    named = found.order.next_of(asked, lambda record: record not in found.unreadable)
    assert (named.path, named.number) == (path.replace("00001-of", "00002-of"), 0)


def test_no_readable_record_at_all_is_an_error(ours, flip):
    for shard in range(3):
        for record in range(10):
            flip(shard, record)
    with pytest.raises(CorruptShardError, match="at least one"):
        ids(ours, on_corrupt="skip")
