"""`on_corrupt="skip"`, the cache and single records, on shards that were damaged on purpose."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer_utils.reading.one_shard import IDS, shard
from trainer_utils import input_fn


@pytest.fixture
def damaged(tmp_path, write_dataset) -> str:
    """30 records in three shards; record 14 has a flipped bit."""
    shards = [[{"id": [n]} for n in range(start, start + 10)] for start in (0, 10, 20)]
    uri = write_dataset(tmp_path / "damaged", {"train": shards}, IDS)
    flip(shard(uri, 1), record=4)
    return uri


def flip(path: Path, *, record: int) -> None:
    data = bytearray(path.read_bytes())
    data[record * len(data) // 10 + 14] ^= 1  # all records are of one size
    path.write_bytes(data)


def ids(uri: str, **options: Any) -> list[int]:
    dataset = input_fn(uri, features="id", batch_size=4, **options)
    return [int(n) for batch in dataset.as_numpy_iterator() for n in batch]


@pytest.mark.parametrize("shuffle", [True, False, "global"])
def test_a_bad_record_alone_is_skipped_counted_and_told(damaged, shuffle, our_messages):
    dataset = input_fn(damaged, features="id", batch_size=4, shuffle=shuffle, on_corrupt="skip")
    for _ in range(2):
        read = [int(n) for batch in dataset.as_numpy_iterator() for n in batch]
        assert sorted(read) == [n for n in range(30) if n != 14]
    assert list(dataset.unreadable) == [(str(shard(damaged, 1)), 4)]
    told = our_messages()
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
