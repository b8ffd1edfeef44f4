"""Stores in files, by whatever name and wherever TFX's own templates put them."""

import itertools
import sqlite3
from pathlib import Path

import pytest

from pipelines.lineage.metadata_files import stores_above, stores_in


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder below others, as an artifact's is."""
    inner = tmp_path / "runs/artifacts/Gen/examples/1"
    inner.mkdir(parents=True)
    return inner


def other_database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE customers (id INT)")


def test_the_nearest_store_above_comes_first(folder, tmp_path, monkeypatch):
    near, far = tmp_path / "runs/metadata.sqlite", tmp_path / "metadata.sqlite"
    far.touch()
    assert next(stores_above(str(folder))) == str(far)
    near.touch()
    assert list(itertools.islice(stores_above(str(folder)), 2)) == [str(near), str(far)]
    monkeypatch.chdir(folder)
    assert next(stores_above("../..")) == str(near)


@pytest.mark.parametrize(
    "place",
    [
        "metadata.db",
        "mlmd.sqlite3",
        "any name.db",
        "tfx_metadata/photos/metadata.db",
        "metadata/photos/metadata.db",
        "metadata/metadata.sqlite",
    ],
)
def test_a_store_of_another_name_is_found(folder, tmp_path, make_store, place):
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    make_store(tmp_path / place)
    assert str(tmp_path / place) in list(stores_above(str(folder)))
    assert stores_in(str(tmp_path)) == [str(tmp_path / place)]


def test_what_is_no_store_is_not_taken_for_one(tmp_path):
    other_database(tmp_path / "metadata.db")
    (tmp_path / "text.sqlite").write_text("SQLite is a library\n")
    (tmp_path / "cut.db").write_bytes(b"SQLite format 3\0")
    (tmp_path / "folder.sqlite").mkdir()
    assert stores_in(str(tmp_path)) == []
    assert stores_in(str(tmp_path / "nowhere")) == []


def test_of_several_stores_those_of_the_usual_names_come_first(tmp_path, make_store):
    for name in ("a.db", "metadata.db", "metadata.sqlite"):
        make_store(tmp_path / name)
    (tmp_path / "metadata").mkdir()
    make_store(tmp_path / "metadata/metadata.sqlite")
    names = [str(Path(path).relative_to(tmp_path)) for path in stores_in(str(tmp_path))]
    assert names == ["metadata.sqlite", "metadata.db", "a.db", "metadata/metadata.sqlite"]


def test_no_store_is_looked_for_above_a_bucket():
    assert list(stores_above("gs://bucket/examples/1")) == []
