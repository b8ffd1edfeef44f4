"""Stores that are not there, are none, or cannot be reached: errors, and never a new store."""

import hashlib
import os
import shutil
import socket
import sqlite3
from pathlib import Path

import pytest

from pipelines.lineage import list_runs
from pipelines.lineage.metadata_address import without_password
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
    [(b"", "an empty database"), (b"hello world\n" * 1000, "expected a sqlite file")],
    ids=["empty", "text"],
)
def test_another_file_is_an_error_and_is_left_as_it_is(tmp_path, content, message):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        list_runs(str(path))
    assert path.read_bytes() == content


def test_another_database_is_an_error_that_names_its_tables(tmp_path):
    path = tmp_path / "other.sqlite"
    execute(path, "CREATE TABLE customers (id INT)")
    before = path.read_bytes()
    with pytest.raises(InputError, match="expected the tables of ML Metadata, found customers"):
        list_runs(str(path))
    assert path.read_bytes() == before


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


def test_a_store_in_a_file_with_a_strange_name_is_read(like_tfx, tmp_path):
    shutil.copy(tmp_path / "metadata.sqlite", tmp_path / "a b?#%41ü.sqlite")
    assert len(list_runs(str(tmp_path / "a b?#%41ü.sqlite")).runs) == 2


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
        "mysql://host:3306/database",
        "mysql://user@host:3306",
        "mysql://user@host/one/two",
        "mysql://user:secret@host:99999/database",
        "postgresql://user@host/database",
    ],
)
def test_other_addresses_are_refused(metadata):
    with pytest.raises(ConfigError, match=r"metadata: expected") as caught:
        list_runs(metadata)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("form", ["mysql://user:sesame@127.0.0.1:{}/db", "grpc://127.0.0.1:{}"])
def test_a_server_that_does_not_answer_is_an_error_without_the_password(form):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        metadata = form.format(free.getsockname()[1])
        with pytest.raises(InputError, match="Is the server running") as caught:
            list_runs(metadata)
    assert without_password(metadata) in str(caught.value)
    assert "sesame" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read anything")
def test_a_store_that_may_not_be_read_is_an_error(like_tfx, tmp_path):
    (tmp_path / "metadata.sqlite").chmod(0)
    with pytest.raises(InputError, match="cannot be read"):
        list_runs(str(tmp_path))
