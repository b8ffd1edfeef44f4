"""Test that picking records from their input shards gives the same bytes as the other methods."""

import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from components.balancing import parts, planning, steps
from tests.components.balancing.test_executor import (
    balance,
    example,
    read,
    write_stock,
)
from tests.make import everything as contents
from tests.record_names import check_record_names
from trainer_utils.core.errors import DatasetError

SHARD = "Split-train/data_tfrecord-00001-of-00003"


def named(number: int, size: int) -> bytes:
    """Return an example with a filename, like the examples of photos."""
    made = tf.train.Example.FromString(example(number, size))
    made.features.feature["filename"].bytes_list.value[:] = [f"cat/{number}.jpg".encode()]
    return made.SerializeToString(deterministic=True)


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    """Write a dataset of large records, one of them larger than is picked at a time."""
    folder = tmp_path_factory.mktemp("large")
    sizes = [1_500_000, *(random.Random(1).randint(3_000, 90_000) for _ in range(80))]
    write_stock(folder / "stock", "train", [[named(n, size) for n, size in enumerate(sizes)]])
    write_stock(folder / "stock", "eval", [[named(200, 30_000), named(201, 1)], []])
    balance(folder / "stock", folder / "ours", num_shards='{"train": 3}')
    return folder / "ours"


@pytest.fixture(params=["alone", "processes"])
def workers(request, monkeypatch) -> str:
    """Return Beam's argument for two workers, with and without costs that start processes."""
    if request.param == "processes":
        for name in ("_MOVE_SECONDS", "_GZIP_SECONDS"):
            monkeypatch.setattr(steps, name, 1.0)
    return "--direct_num_workers=2"


@pytest.fixture
def picked(monkeypatch) -> list[str]:
    """Return the list that collects the names of the picked splits."""
    splits: list[str] = []
    pick = planning.pick_split

    def spy(plan, *given):
        made = pick(plan, *given)
        splits.extend([plan.split] if made is not None else [])
        return made

    monkeypatch.setattr(steps, "pick_split", spy)
    return splits


def without_picking(monkeypatch) -> None:
    monkeypatch.setattr(steps, "pick_split", lambda *given: None)


@pytest.mark.parametrize(
    "settings",
    [
        {"num_shards": "4", "seed": 3},
        {"num_shards": "7", "balance": "bytes"},
        {"num_shards": "2", "compression": "gzip"},
        {"num_shards": "4", "shuffle": 0},
        {"num_shards": "5", "stratify_by": "id"},
    ],
    ids=str,
)
def test_picking_does_not_change_the_bytes(large, tmp_path, monkeypatch, workers, picked, settings):
    balance(large, tmp_path / "picked", workers, memory_bytes=1 << 20, **settings)
    assert set(picked) == {"eval", "train"}
    without_picking(monkeypatch)
    balance(large, tmp_path / "held", **settings)
    assert contents(tmp_path / "picked") == contents(tmp_path / "held")
    assert check_record_names(tmp_path / "picked") == 83


@pytest.mark.parametrize("part", ["payload", "length", "sum"])
def test_damage_raises_the_same_error_as_sequential_reading(
    large, tmp_path, monkeypatch, workers, part
):
    shutil.copytree(large, tmp_path / "in")
    shard = tmp_path / "in" / SHARD
    data = bytearray(shard.read_bytes())
    data[{"payload": len(data) // 2, "length": 3, "sum": len(data) - 2}[part]] ^= 1
    shard.write_bytes(data)
    with pytest.raises(DatasetError) as caught:
        balance(tmp_path / "in", tmp_path / "out", workers, memory_bytes=1 << 20)
    without_picking(monkeypatch)
    with pytest.raises(DatasetError) as wanted:
        balance(tmp_path / "in", tmp_path / "out")
    assert (caught.value.path, str(caught.value)) == (str(shard), str(wanted.value))
    assert not (tmp_path / "out/manifest.json").exists()


def test_file_that_changes_during_the_run_raises(large, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "check_frames", lambda *given: (None, np.zeros(1, np.bool_)))
    with pytest.raises(DatasetError, match="changed in the meantime"):
        balance(large, tmp_path, "--direct_num_workers=1", memory_bytes=1 << 20)


@pytest.mark.parametrize("reason", ["short records", "compressed", "features unknown", "no room"])
def test_splits_without_a_gain_are_not_picked(tmp_path, monkeypatch, picked, reason):
    size = 100 if reason == "short records" else 9000
    write_stock(tmp_path / "in", "train", [[example(n, size) for n in range(9)]], suffix="")
    compression = "gzip" if reason == "compressed" else "none"
    if reason != "features unknown":
        balance(tmp_path / "in", tmp_path / "ours", compression=compression)
    if reason == "no room":
        monkeypatch.setattr(planning, "free_memory", lambda: 100_000)
    balance(tmp_path / ("in" if reason == "features unknown" else "ours"), tmp_path / "out")
    assert not picked
    assert len(read(tmp_path / "out", "train")[0]) == 9


def test_short_reads_are_retried(large, tmp_path, monkeypatch, picked):
    balance(large, tmp_path / "whole", "--direct_num_workers=1", memory_bytes=1 << 20)
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, at: real(file, min(size, 5000), at))
    balance(large, tmp_path / "bits", "--direct_num_workers=1", memory_bytes=1 << 20)
    assert picked
    assert contents(tmp_path / "bits") == contents(tmp_path / "whole")
