"""Records picked one by one against the way by memory or temporary files: the same in all."""

import random
from pathlib import Path

import pytest
import tensorflow as tf

from components.shard_balancer import picked_splits
from tests.components.shard_balancer.test_executor import (
    balance,
    contents,
    example,
    read,
    write_stock,
)
from tests.record_names import check_record_names
from trainer_utils.format import CorruptShardError, DatasetError

SHARD = "Split-train/data_tfrecord-00001-of-00003"


def named(number: int, size: int) -> bytes:
    """An example that has a name, as those of photos have."""
    made = tf.train.Example.FromString(example(number, size))
    made.features.feature["filename"].bytes_list.value[:] = [f"cat/{number}.jpg".encode()]
    return made.SerializeToString(deterministic=True)


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    """A dataset of ours: large records, one of them of more than is picked at a time."""
    folder = tmp_path_factory.mktemp("large")
    sizes = [1_500_000, *(random.Random(1).randint(3_000, 90_000) for _ in range(80))]
    write_stock(folder / "stock", "train", [[named(n, size) for n, size in enumerate(sizes)]])
    write_stock(folder / "stock", "eval", [[named(200, 30_000), named(201, 1)], []])
    balance(folder / "stock", folder / "ours", num_shards='{"train": 3}')
    return folder / "ours"


@pytest.fixture
def picked(monkeypatch) -> list[int]:
    """Of each run that picks: how many processes did."""
    runs: list[int] = []
    run_all = picked_splits.run_all

    def spy(work, arguments, *, processes):
        runs.append(processes)
        return run_all(work, arguments, processes=processes)

    monkeypatch.setattr(picked_splits, "run_all", spy)
    return runs


def without_picking(monkeypatch) -> None:
    monkeypatch.setattr(picked_splits, "can_pick", lambda plan, inputs: False)


def with_processes(monkeypatch) -> None:
    monkeypatch.setattr(picked_splits, "_PLAIN_SECONDS", 1.0)
    monkeypatch.setattr(picked_splits, "_GZIP_SECONDS", 1.0)


@pytest.mark.parametrize(
    "settings",
    [
        {"num_shards": "4", "seed": 3},
        {"num_shards": "7", "balance": "bytes", "memory_bytes": 1 << 20},
        {"num_shards": "2", "compression": "gzip"},
        {"num_shards": "4", "shuffle": 0},
        {"num_shards": "5", "stratify_by": "id"},
    ],
)
def test_picked_or_not_the_bytes_are_the_same(large, tmp_path, monkeypatch, picked, settings):
    balance(large, tmp_path / "alone", "--direct_num_workers=1", **settings)
    with_processes(monkeypatch)
    balance(large, tmp_path / "pool", "--direct_num_workers=2", **settings)
    is_larger_than_memory = "memory_bytes" in settings
    assert picked == [1, 2] if is_larger_than_memory else [2]
    without_picking(monkeypatch)
    balance(large, tmp_path / "held", **settings)
    assert len(picked) == 1 + is_larger_than_memory
    assert contents(tmp_path / "pool") == contents(tmp_path / "held")
    assert contents(tmp_path / "alone") == contents(tmp_path / "held")
    assert check_record_names(tmp_path / "pool") == 83


def test_several_datasets_are_picked_from_together(large, tmp_path, monkeypatch, picked):
    with_processes(monkeypatch)
    balance(large, tmp_path / "more", seed=1)
    before = [r for split in ("train", "eval") for shard in read(large, split) for r in shard]
    balance([large, tmp_path / "more"], tmp_path / "out", num_shards="3")
    after = [r for s in ("train", "eval") for shard in read(tmp_path / "out", s) for r in shard]
    assert picked == [2, 2]
    assert sorted(after) == sorted(before * 2)


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "place",
    [lambda size: size // 2, lambda size: 3, lambda size: size - 2],
    ids=["payload", "length", "sum"],
)
def test_what_is_damaged_is_named_as_by_reading_in_order(
    large, tmp_path, monkeypatch, picked, place, workers
):
    for path in [p for p in large.rglob("*") if p.is_file()]:
        copy = tmp_path / "in" / path.relative_to(large)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    shard = tmp_path / "in" / SHARD
    size = shard.stat().st_size
    shard.write_bytes(flipped(shard.read_bytes(), place(size)))
    if workers > 1:
        with_processes(monkeypatch)
    with pytest.raises(CorruptShardError, match=f"{shard}.*byte") as caught:
        balance(
            tmp_path / "in",
            tmp_path / "out",
            f"--direct_num_workers={workers}",
            memory_bytes=1 << 20,
        )
    assert picked == [workers]
    without_picking(monkeypatch)
    with pytest.raises(CorruptShardError) as wanted:
        balance(tmp_path / "in", tmp_path / "out")
    assert str(caught.value) == str(wanted.value)
    assert not (tmp_path / "out/manifest.json").exists()


def test_a_file_that_changes_meanwhile_is_refused(large, tmp_path, monkeypatch):
    with_processes(monkeypatch)

    def changed(work, arguments, *, processes):
        raise picked_splits.UnlikeIndexError("a sum differs")

    monkeypatch.setattr(picked_splits, "run_all", changed)
    with pytest.raises(DatasetError, match="changed meanwhile: a sum differs"):
        balance(large, tmp_path)


def test_a_file_whose_size_is_not_its_indexs_is_read_in_order(large, tmp_path, monkeypatch):
    with_processes(monkeypatch)
    monkeypatch.setattr(picked_splits, "file_size", lambda path: 1)
    with pytest.raises(DatasetError, match=f"changed meanwhile: {large}"):
        balance(large, tmp_path)


@pytest.mark.parametrize("reason", ["short records", "compressed", "features unknown", "no room"])
def test_what_would_not_gain_goes_the_other_way(tmp_path, monkeypatch, picked, reason):
    size = 100 if reason == "short records" else 9000
    write_stock(tmp_path / "in", "train", [[example(n, size) for n in range(9)]], suffix="")
    compression = "gzip" if reason == "compressed" else "none"
    if reason != "features unknown":
        balance(tmp_path / "in", tmp_path / "ours", compression=compression)
    with_processes(monkeypatch)
    picked.clear()
    if reason == "no room":
        monkeypatch.setattr(picked_splits, "free_memory", lambda: 100_000)
    balance(tmp_path / ("in" if reason == "features unknown" else "ours"), tmp_path / "out")
    assert not picked
    assert len(read(tmp_path / "out", "train")[0]) == 9
