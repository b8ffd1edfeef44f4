"""Stores that are not there, are none, or cannot be reached: errors, and never a new store."""

import hashlib
import itertools
from pathlib import Path

import pytest

from pipelines.lineage import list_runs
from pipelines.lineage.lookup import stores_above
from pipelines.lineage.store import open_store
from trainer_utils.format import InputError


def test_a_file_that_is_not_there_is_an_error_and_stays_away(tmp_path):
    missing = tmp_path / "missing.sqlite"
    with pytest.raises(InputError, match=r"missing\.sqlite.*no such file"):
        list_runs(str(missing))
    with pytest.raises(InputError, match=r"metadata\.sqlite.*no such file"):
        list_runs(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_reading_does_not_change_a_byte(like_tfx, tmp_path):
    path = tmp_path / "metadata.sqlite"
    before = hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns
    list_runs(str(path))
    assert (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) == before
    assert [file.name for file in tmp_path.iterdir()] == ["metadata.sqlite"]


def test_several_read_a_store_at_once_while_a_run_writes_to_it(like_tfx, tmp_path, make_store):
    writer = make_store()
    path = str(tmp_path / "metadata.sqlite")
    with open_store(path) as one, open_store(path) as other:
        writer.artifact("Model", "/new")
        assert len(one.get_artifacts()) == len(other.get_artifacts()) == 6


# Where they are looked for ------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder below others, as an artifact's is."""
    inner = tmp_path / "runs/artifacts/Gen/examples/1"
    inner.mkdir(parents=True)
    return inner


def test_the_nearest_store_above_comes_first(folder, tmp_path, monkeypatch):
    near, far = tmp_path / "runs/metadata.sqlite", tmp_path / "metadata.sqlite"
    far.touch()
    assert next(stores_above(str(folder))) == str(far)
    near.touch()
    assert list(itertools.islice(stores_above(str(folder)), 2)) == [str(near), str(far)]
    monkeypatch.chdir(folder)
    assert next(stores_above("../..")) == str(near)
