"""Opens ML Metadata wherever it is kept, to be read and never written.

    with open_store("runs/metadata.sqlite") as store:
        store.get_artifacts()

Also `mysql://user:password@host:3306/database` and `grpc://host:8080`.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from ml_metadata import errors
from ml_metadata.metadata_store import MetadataStore
from ml_metadata.proto import metadata_store_pb2

from pipelines.tools.conversion.outputs import METADATA_FILE
from trainer_utils.format import ConfigError, InputError

__all__ = ["find_metadata", "open_store", "without_password"]

_MYSQL_PORT = 3306
_GRPC_TIMEOUT_SECONDS = 60.0
_TABLE = "MLMDEnv"  # every store of ML Metadata has it
_FORMS = "a sqlite file, mysql://user:password@host:port/database or grpc://host:port"


def find_metadata(uri: str) -> str:
    """The `metadata.sqlite` in the folder of a uri or the nearest one above it.

    Raises:
        InputError: there is none.
    """
    if "://" not in uri:
        folder = os.path.abspath(uri)
        while True:
            path = os.path.join(folder, METADATA_FILE)
            if os.path.isfile(path):
                return path
            if folder == (folder := os.path.dirname(folder)):
                break
    raise InputError(
        f"metadata: expected a {METADATA_FILE} in a folder above {uri!r}, found none. "
        f"Name where ML Metadata is: {_FORMS}."
    )


def without_password(metadata: str) -> str:
    """Where the metadata is, without a password."""
    parts = urlsplit(metadata)
    if parts.scheme != "mysql" or "@" not in parts.netloc:
        return metadata
    user, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user.partition(':')[0]}@{host}").geturl()


@contextlib.contextmanager
def open_store(metadata: str) -> Iterator[MetadataStore]:
    """The store; what goes wrong with it while it is read becomes an `InputError`.

    Args:
        metadata: a sqlite file or the folder of a `metadata.sqlite`,
            `mysql://user:password@host:port/database` (with `?socket=path` a socket), or
            `grpc://host:port`.

    Raises:
        ConfigError: it is none of these.
        InputError: there is no such store, it cannot be reached, or it is of another version.
    """
    config = _config(metadata)
    where = without_password(metadata)
    try:
        yield MetadataStore(config)
    except errors.UnavailableError as error:
        raise InputError(
            f"metadata {where!r}: no answer: {error}. Is the server running, and the address right?"
        ) from error
    except errors.StatusError as error:
        raise InputError(f"metadata {where!r}: {type(error).__name__}: {error}") from error
    except RuntimeError as error:  # of the connection, from ML Metadata's own library
        raise InputError(f"metadata {where!r}: cannot be read: {error}. {_hint(error)}") from error


def _hint(error: RuntimeError) -> str:
    text = str(error)
    if "older than library version" in text:
        return "Open it once with TFX's own client, which brings it up to date, or take a copy."
    if "greater than library version" in text:
        return "Install the version of ml-metadata that wrote it."
    if "mysql" in text:
        return (
            "Is the server running, and are user, password and database right? The client of "
            "ML Metadata knows mysql_native_password only, not caching_sha2_password."
        )
    return "Is it ML Metadata, and may it be read?"


def _config(
    metadata: str,
) -> metadata_store_pb2.ConnectionConfig | metadata_store_pb2.MetadataStoreClientConfig:
    if "://" not in metadata:
        return _sqlite(metadata)
    parts = urlsplit(metadata)
    if parts.scheme == "mysql":
        return _mysql(parts, without_password(metadata))
    if parts.scheme == "grpc":
        return _grpc(parts, metadata)
    raise ConfigError.of("metadata", without_password(metadata), allowed=_FORMS)


def _sqlite(path: str) -> metadata_store_pb2.ConnectionConfig:
    if os.path.isdir(path):
        path = os.path.join(path, METADATA_FILE)
    if not os.path.isfile(path):
        raise InputError(f"metadata {path!r}: expected {_FORMS}, found no such file")
    _check_sqlite(path)
    config = metadata_store_pb2.ConnectionConfig()
    config.sqlite.filename_uri = path
    config.sqlite.connection_mode = metadata_store_pb2.SqliteMetadataSourceConfig.READONLY
    return config


def _check_sqlite(path: str) -> None:
    """ML Metadata would try to make its tables in any file, and say just that it cannot."""
    try:
        url = f"{Path(path).absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(url, uri=True)) as found:
            tables = found.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    except sqlite3.OperationalError as error:  # locked, or not to be read
        raise InputError(f"metadata {path!r}: cannot be read: {error}") from error
    except sqlite3.DatabaseError as error:
        raise InputError(f"metadata {path!r}: expected a sqlite file: {error}") from error
    if (_TABLE,) not in tables:
        raise InputError(
            f"metadata {path!r}: expected the tables of ML Metadata, found "
            f"{', '.join(sorted(name for (name,) in tables)[:5]) or 'an empty database'}"
        )


def _mysql(parts: SplitResult, shown: str) -> metadata_store_pb2.ConnectionConfig:
    database = unquote(parts.path.strip("/"))
    port = _port(parts, shown)
    socket = unquote(parts.query.removeprefix("socket=")) if parts.query else ""
    if not parts.username or not database or "/" in database or not (parts.hostname or socket):
        raise ConfigError.of("metadata", shown, allowed="mysql://user:password@host:port/database")
    config = metadata_store_pb2.ConnectionConfig()
    config.mysql.host = parts.hostname or ""
    config.mysql.port = port or _MYSQL_PORT
    config.mysql.user = unquote(parts.username)
    config.mysql.password = unquote(parts.password or "")
    config.mysql.database = database
    config.mysql.socket = socket
    config.mysql.skip_db_creation = True  # one that is not there is an error, not a new one
    return config


def _grpc(parts: SplitResult, metadata: str) -> metadata_store_pb2.MetadataStoreClientConfig:
    port = _port(parts, metadata)
    if not parts.hostname or port is None or parts.path.strip("/"):
        raise ConfigError.of("metadata", metadata, allowed="grpc://host:port")
    config = metadata_store_pb2.MetadataStoreClientConfig(
        host=parts.hostname, port=port, client_timeout_sec=_GRPC_TIMEOUT_SECONDS
    )
    config.channel_arguments.max_receive_message_length = -1  # without a limit
    return config


def _port(parts: SplitResult, shown: str) -> int | None:
    try:
        return parts.port
    except ValueError as error:
        raise ConfigError.of("metadata", shown, allowed="a port of 0 to 65535") from error
