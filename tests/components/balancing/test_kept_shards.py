"""Test `keep_shards`: unchanged shards are hard links, so few bytes are written."""

import pathlib

import pytest

from tests.components.balancing.test_executor import balance, read, write_stock
from tests.components.balancing.test_executor import example as example_of
from tests.components.shuffle.test_edits import (
    examples_of,
    expected,
    properties,
    rows,
    write,
)
from tests.make import everything as contents
from tests.record_names import check_record_names
from trainer_utils.core.errors import CorruptShardError, DatasetError
from trainer_utils.dataset import open_dataset


@pytest.fixture
def source(tmp_path):
    return write(tmp_path / "source", rows(300))


def shards_of(folder):
    return sorted(folder.glob("Split-*/*"))


def written_bytes(new, *old):
    """Return the size in bytes of shards and indices that are not files of an older dataset."""
    before = {path.stat().st_ino for folder in old for path in folder.rglob("*")}
    paths = [*shards_of(new), *new.glob("index/*")]
    return sum(path.stat().st_size for path in paths if path.stat().st_ino not in before)


def test_only_the_shard_with_a_changed_record_is_written(source, tmp_path):
    before = contents(source)
    names = [name for name, *_ in examples_of(source, "train")]
    first = len(read(source, "train")[0])
    manifest = balance(
        source, tmp_path / "out", keep_shards=1, **properties(exclude=[names[first]])
    )
    links = [path.stat().st_nlink for path in shards_of(tmp_path / "out")]
    assert links == [2, 2, 1, 2, 2]
    assert [n for n, *_ in examples_of(tmp_path / "out", "train")] == [
        name for name in names if name != names[first]
    ]
    assert manifest["total"]["skipped"] == 1
    assert contents(source) == before
    dataset = open_dataset(str(tmp_path / "out"))
    assert sum(dataset.records.values()) == 299
    assert check_record_names(tmp_path / "out") == 299


def test_changing_one_percent_writes_under_three_percent(tmp_path, subtests):
    many = {n: {**r, "text": "y" * 2000} for n, r in rows(600).items()}
    more = {n: {**r, "text": "z" * 2000} for n, r in rows(6, start=5000).items()}
    write(tmp_path / "many", many)
    write(tmp_path / "more", more)
    balance(tmp_path / "many", tmp_path / "old", num_shards='{"train": 60, "eval": 2}')
    held = [name for name, *_ in examples_of(tmp_path / "old", "train")][:6]  # in one shard
    settings = properties(exclude=held, add=[str(tmp_path / "more")])
    balance(tmp_path / "old", tmp_path / "new", keep_shards=1, **settings)
    whole = sum(path.stat().st_size for path in shards_of(tmp_path / "new"))
    assert 0 < written_bytes(tmp_path / "new", tmp_path / "old") < 0.03 * whole
    left = {n: r for n, r in many.items() if n not in held}
    for split in ("train", "eval"):
        with subtests.test(split=split):
            assert set(examples_of(tmp_path / "new", split)) == expected({**left, **more}, split)


def test_stock_dataset_or_other_compression_is_rewritten(source, tmp_path):
    write_stock(tmp_path / "stock", "train", [[example_of(n, 5) for n in range(9)]], suffix="")
    balance(tmp_path / "stock", tmp_path / "out", keep_shards=1)
    assert read(tmp_path / "out", "train") == read(tmp_path / "stock", "train")
    balance(source, tmp_path / "gzip", keep_shards=1, compression="gzip")
    assert all(path.suffix == ".gz" for path in shards_of(tmp_path / "gzip"))
    assert read(tmp_path / "gzip", "train") == read(source, "train")


def test_damaged_shard_is_never_linked(source, tmp_path, subtests):
    path = pathlib.Path(shards_of(source)[1])
    whole = path.read_bytes()
    for place in (0, 30, len(whole) - 1):
        with subtests.test(place=place):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            with pytest.raises((CorruptShardError, DatasetError), match=path.name):
                balance(source, tmp_path / "out", keep_shards=1)
            assert not (tmp_path / "out/manifest.json").exists()
