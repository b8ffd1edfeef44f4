"""`on_corrupt="skip"`, the cache and single records, on shards that were damaged on purpose."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from trainer_utils import input_fn
from trainer_utils.dataset.record_index import indexed_offsets
from trainer_utils.format import CorruptShardError, Feature, RecordIndex
from trainer_utils.format.tfrecord import scan_until_damage
from trainer_utils.reading.shard_reader import UNREADABLE, ShardReader

IDS = {"id": Feature(type="int")}


@pytest.fixture
def damaged(tmp_path, write_dataset) -> str:
    """30 records in three shards; record 14 has a flipped bit."""
    shards = [[{"id": [n]} for n in range(start, start + 10)] for start in (0, 10, 20)]
    uri = write_dataset(tmp_path / "damaged", {"train": shards}, IDS)
    flip(shard(uri, 1), record=4)
    return uri


def shard(uri: str, index: int) -> Path:
    return sorted(Path(uri, "Split-train").iterdir())[index]


def flip(path: Path, *, record: int) -> None:
    data = bytearray(path.read_bytes())
    data[record * len(data) // 10 + 14] ^= 1  # all records are of one size
    path.write_bytes(data)


def ids(uri: str, **options: Any) -> list[int]:
    dataset = input_fn(uri, features="id", batch_size=4, **options)
    return [int(n) for batch in dataset.as_numpy_iterator() for n in batch]


@pytest.mark.parametrize("shuffle", [True, False, "global"])
def test_a_bad_record_alone_is_skipped_counted_and_told(damaged, shuffle, caplog):
    dataset = input_fn(damaged, features="id", batch_size=4, shuffle=shuffle, on_corrupt="skip")
    for _ in range(2):
        with caplog.at_level(logging.WARNING):
            read = [int(n) for batch in dataset.as_numpy_iterator() for n in batch]
        assert sorted(read) == [n for n in range(30) if n != 14]
    assert list(dataset.unreadable) == [(str(shard(damaged, 1)), 4)]
    told = [record.getMessage() for record in caplog.records]
    assert [line.split(":")[0] for line in told] == ["epoch 0", "epoch 1"]
    assert all("1 of 30 records" in line and "00001-of-00003" in line for line in told)


@pytest.mark.parametrize("shuffle", [True, False, "global"])
def test_the_order_of_what_is_left_is_that_of_the_whole(damaged, tmp_path, shuffle):
    left = ids(damaged, shuffle=shuffle, seed=3, on_corrupt="skip")
    flip(shard(damaged, 1), record=4)  # whole again
    whole = ids(damaged, shuffle=shuffle, seed=3)
    assert left == [n for n in whole if n != 14]


def test_a_cut_shard_loses_its_end_only(damaged):
    path = shard(damaged, 0)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 + 3].ljust(len(data), b"\0"))
    assert sorted(ids(damaged, on_corrupt="skip")) == [
        0,
        1,
        2,
        3,
        4,
        *range(10, 14),
        *range(15, 30),
    ]


@pytest.mark.parametrize("echoing", [1, 2])
def test_the_token_after_batches_that_could_not_be_read_is_of_the_next_one(damaged, echoing):
    """Of records 10 to 19 none can be read: the third batch loses half, the next two all."""
    for record in (n for n in range(10) if n != 4):
        flip(shard(damaged, 1), record=record)
    options: dict[str, Any] = {
        "features": "id", "batch_size": 4, "shuffle": False, "repeat": 2, "on_corrupt": "skip",
        "echoing": echoing,
    }  # fmt: skip
    dataset = input_fn(damaged, **options)
    whole = [batch.tolist() for batch in dataset.as_numpy_iterator()]
    once = [*range(10), *range(20, 30)]
    assert [n for batch in whole[::echoing] for n in batch] == once * 2
    assert len(whole) == 2 * 6 * echoing
    for step in range(len(whole) + 1):
        rest = input_fn(damaged, state=dataset.state(step).to_json(), **options)
        assert [batch.tolist() for batch in rest.as_numpy_iterator()] == whole[step:]


def test_with_static_shapes_others_stand_in_with_weight_0(damaged):
    dataset = input_fn(damaged, features=["id"], batch_size=4, remainder="pad", on_corrupt="skip")
    batches = list(dataset.as_numpy_iterator())
    assert {batch["id"].shape for batch in batches} == {(4,)}
    seen = np.concatenate([batch["id"][batch["mask"] == 1] for batch in batches])
    assert sorted(seen) == [n for n in range(30) if n != 14]


def test_workers_take_as_many_steps_though_one_reads_damage(damaged):
    for record in range(10):
        if record != 4:
            flip(shard(damaged, 1), record=record)
    sizes = []
    for index in range(3):
        context = tf.distribute.InputContext(3, index, 3)
        options: dict[str, Any] = {"batch_size": 6, "on_corrupt": "skip", "input_context": context}
        sizes.append(len(list(input_fn(damaged, features="id", **options))))
    assert sizes == [5, 5, 5]


def test_the_default_names_file_record_and_offset(damaged):
    offset = 4 * shard(damaged, 1).stat().st_size // 10
    for shuffle in (True, False, "global"):
        with pytest.raises(
            tf.errors.OpError, match=rf"00001-of-00003': .*\(record 4, byte {offset}\)"
        ):
            ids(damaged, shuffle=shuffle)


# --- Cache ---


@pytest.mark.parametrize("cache", ["memory", "folder"])
@pytest.mark.parametrize("shuffle", [True, "global"])
def test_a_cached_dataset_is_read_from_its_source_once(tmp_path, write_dataset, cache, shuffle):
    shards = [[{"id": [n]} for n in range(start, start + 10)] for start in (0, 10)]
    uri = write_dataset(tmp_path / f"{cache}-{shuffle}", {"train": shards}, IDS)
    folder = "memory" if cache == "memory" else str(tmp_path / "cache")
    expected = [ids(uri, shuffle=shuffle), ids(uri, shuffle=shuffle, start_step=5)]
    dataset = input_fn(uri, features="id", batch_size=4, shuffle=shuffle, cache=folder)
    epochs = []
    for _ in range(2):
        epochs.append([int(n) for batch in dataset.as_numpy_iterator() for n in batch])
        for index in range(2):
            shard(uri, index).write_bytes(b"no longer read")
    assert epochs == expected


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


def test_an_index_says_where_records_lie_unless_it_is_of_another_file(tmp_path):
    from trainer_utils.format import frame_records
    from trainer_utils.format.naming import index_file

    name = "Split-train/data_tfrecord-00000-of-00001"
    records = [b"", b"one", b"x" * 300]
    shard, index = tmp_path / name, tmp_path / index_file(name)
    assert indexed_offsets(str(shard), size=355) is None
    index.parent.mkdir(parents=True)
    index.write_bytes(RecordIndex(np.array([0, 3, 300])).to_bytes())
    size = len(frame_records(records))
    assert indexed_offsets(str(shard), size=size).tolist() == [0, 16, 35, size]
    assert indexed_offsets(str(shard), size=size + 1) is None
    index.write_bytes(b"no index")
    assert indexed_offsets(str(shard), size=size) is None
    assert indexed_offsets("elsewhere.tfrecord", size=size) is None
