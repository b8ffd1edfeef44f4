"""Stores that are not there, are none, or cannot be reached: errors, and never a new store."""

import hashlib
import itertools
import socket
import sqlite3
from pathlib import Path

import pytest

from pipelines.lineage import describe_artifact, list_runs
from pipelines.lineage.places import stores_above, stores_in
from pipelines.lineage.store import open_store
from trainer_utils.format import ConfigError, InputError


def execute(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(statement)


def test_a_file_that_is_not_there_is_an_error_and_stays_away(tmp_path):
    missing = tmp_path / "missing.sqlite"
    with pytest.raises(InputError, match=r"missing\.sqlite.*no such file"):
        list_runs(str(missing))
    with pytest.raises(InputError, match=r"metadata\.sqlite.*no such file"):
        list_runs(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "an empty database"),
        (b"hello world\n" * 1000, "expected a sqlite file"),
        ("CREATE TABLE customers (id INT)", "found customers"),
    ],
    ids=["empty", "text", "other"],
)
def test_another_file_is_an_error_and_is_left_as_it_is(tmp_path, content, message):
    path = tmp_path / "other"
    if isinstance(content, str):
        execute(path, content)
        content = path.read_bytes()
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        list_runs(str(path))
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("version", "message"), [(6, "older.*Open it once"), (60, "greater.*Install the version")]
)
def test_a_store_of_another_version_is_an_error_that_says_what_to_do(
    like_tfx, tmp_path, version, message
):
    execute(tmp_path / "metadata.sqlite", f"UPDATE MLMDEnv SET schema_version = {version}")
    with pytest.raises(InputError, match=message):
        list_runs(str(tmp_path))


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


@pytest.mark.parametrize(
    "metadata",
    [
        "http://host:80",
        "grpc://host",
        "grpc://host:8080/path",
        "grpc://:8080",
        "grpc://host:99999",
        "mysql://user@host/database",
    ],
)
def test_other_addresses_are_refused(metadata):
    with pytest.raises(ConfigError, match=r"metadata: expected"):
        list_runs(metadata)


def test_a_server_that_does_not_answer_is_an_error():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(InputError, match="Is the server running"):
            list_runs(f"grpc://127.0.0.1:{free.getsockname()[1]}")


def test_an_artifact_that_a_server_does_not_have_is_an_error(make_store, fill_store, serve_store):
    store = make_store().store
    fill_store(store, "/runs")
    address = serve_store(store)
    with pytest.raises(InputError, match=f"'/nowhere'.*{address}, which has 5"):
        describe_artifact("/nowhere", metadata=address)


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
    execute(tmp_path / "metadata.db", "CREATE TABLE customers (id INT)")
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
