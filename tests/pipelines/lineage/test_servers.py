"""Stores behind servers: MySQL's protocol, by a MariaDB that the tests start, and gRPC."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ml_metadata import metadata_store
from ml_metadata.proto import metadata_store_pb2 as mlmd

from pipelines.lineage import describe_artifact, list_runs
from trainer_utils.format import InputError

FOLDERS = ":/usr/sbin:/usr/local/sbin"  # where Debian has servers, which not every PATH names
PASSWORD = "se:s@me/%"
IN_URL = "se%3As%40me%2F%25"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def without_times(told: Any) -> Any:
    """What is told, without what differs from one store to another."""
    if isinstance(told, dict):
        left_out = ("created", "started", "ended", "metadata")
        return {name: without_times(v) for name, v in told.items() if name not in left_out}
    return [without_times(entry) for entry in told] if isinstance(told, list) else told


@pytest.fixture
def by_sqlite(tmp_path, fill_store, make_store) -> tuple[Any, Any]:
    """What is told of the same runs in a sqlite store, and the runs."""
    fill_store(make_store().store, "/runs")
    told = describe_artifact("/runs/Trainer/model/3", metadata=str(tmp_path)).to_json()
    return without_times(told), without_times(list_runs(str(tmp_path)).to_json())


# MySQL --------------------------------------------------------------------------------------------


def found(name: str) -> str:
    path = shutil.which(name, path=os.environ.get("PATH", "") + FOLDERS)
    if path is None:
        pytest.skip(f"no {name} here: the package mariadb-server has it")
    return path


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory) -> Iterator[tuple[int, Path]]:
    """Port and socket of a MariaDB of the tests' own: one user may write, another only read."""
    server, install = found("mariadbd"), found("mariadb-install-db")
    folder = tmp_path_factory.mktemp("mariadb")
    user = f"--user={getpass.getuser()}"
    subprocess.run(
        [install, "--no-defaults", f"--datadir={folder}/data", "--skip-test-db", user],
        check=True,
        capture_output=True,
        timeout=120,
    )
    secret = f"IDENTIFIED VIA mysql_native_password USING PASSWORD('{PASSWORD}')"
    (folder / "init.sql").write_text(
        "CREATE DATABASE metadata;\nCREATE DATABASE nothing_in_it;\n"
        + "".join(
            f"CREATE USER '{name}'@'{host}' {secret};\nGRANT {right} ON *.* TO '{name}'@'{host}';\n"
            for name, right in (("writer", "ALL"), ("reader", "SELECT"))
            for host in ("127.0.0.1", "localhost")
        )
    )
    port = free_port()
    log = (folder / "log").open("wb")
    process = subprocess.Popen(
        [
            *(server, "--no-defaults", user, f"--datadir={folder}/data"),
            *("--socket=mysqld.sock", f"--port={port}", "--bind-address=127.0.0.1"),
            *(f"--init-file={folder}/init.sql", f"--pid-file={folder}/pid", "--skip-name-resolve"),
        ],
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    try:
        wait_for(port, process, folder / "log")
        yield port, folder / "data/mysqld.sock"
    finally:
        process.terminate()
        process.wait(60)
        log.close()


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        if process.poll() is not None:
            pytest.fail(f"MariaDB stopped: {log.read_text()[-2000:]}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    pytest.fail(f"MariaDB did not answer: {log.read_text()[-2000:]}")


@pytest.fixture(scope="module")
def filled_mariadb(mariadb, fill_store) -> tuple[int, Path]:
    config = mlmd.ConnectionConfig()
    config.mysql.host, config.mysql.port, config.mysql.database = (
        "127.0.0.1",
        mariadb[0],
        "metadata",
    )
    config.mysql.user, config.mysql.password = "writer", PASSWORD
    fill_store(metadata_store.MetadataStore(config), "/runs")
    return mariadb


@pytest.mark.parametrize("user", ["writer", "reader"])
@pytest.mark.parametrize("way", ["port", "socket"])
def test_mysql_tells_what_sqlite_tells(filled_mariadb, by_sqlite, user, way):
    port, socket_path = filled_mariadb
    place = f"127.0.0.1:{port}/metadata"
    if way == "socket":
        place = f"/metadata?socket={socket_path}"
    metadata = f"mysql://{user}:{IN_URL}@{place}"
    lineage = describe_artifact("/runs/Trainer/model/3", metadata=metadata)
    runs = list_runs(metadata)
    assert (without_times(lineage.to_json()), without_times(runs.to_json())) == by_sqlite
    assert lineage.metadata == f"mysql://{user}@{place}"


@pytest.mark.parametrize(
    "place",
    [
        "writer:wrong@127.0.0.1:{}/metadata",
        f"writer:{IN_URL}@127.0.0.1:{{}}/missing",
        f"reader:{IN_URL}@127.0.0.1:{{}}/nothing_in_it",
    ],
    ids=["password", "database", "empty"],
)
def test_mysql_without_such_a_store_is_an_error_and_nothing_is_made(filled_mariadb, place):
    metadata = f"mysql://{place.format(filled_mariadb[0])}"
    for _ in range(2):  # a database or tables that the first had made would change the second
        with pytest.raises(InputError, match="cannot be read") as caught:
            list_runs(metadata)
        assert PASSWORD not in str(caught.value)
        assert "wrong" not in str(caught.value)


# gRPC ---------------------------------------------------------------------------------------------


@pytest.fixture
def grpc_server(tmp_path, fill_store, make_store, serve_store) -> str:
    store = make_store(tmp_path / "served.sqlite").store
    fill_store(store, "/runs")
    return serve_store(store)


def test_grpc_tells_what_sqlite_tells(grpc_server, by_sqlite):
    lineage = describe_artifact("/runs/Trainer/model/3", metadata=grpc_server)
    runs = list_runs(grpc_server)
    assert (without_times(lineage.to_json()), without_times(runs.to_json())) == by_sqlite


def test_an_artifact_that_a_server_does_not_have_is_an_error(grpc_server):
    with pytest.raises(InputError, match=f"'/nowhere'.*{grpc_server}, which has 5"):
        describe_artifact("/nowhere", metadata=grpc_server)
