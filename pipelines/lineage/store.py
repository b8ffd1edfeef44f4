"""Opens ML Metadata wherever it is kept, to be read and never written.

    with open_store("runs/metadata.sqlite") as store:
        store.get_artifacts()

Also `mysql://user:password@host:3306/database` and `grpc://host:8080`.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from urllib.parse import SplitResult, unquote, urlsplit

from ml_metadata import errors
from ml_metadata.metadata_store import MetadataStore
from ml_metadata.proto import metadata_store_pb2

from pipelines.lineage.metadata_address import METADATA_FORMS, without_password
from pipelines.lineage.metadata_files import METADATA_TABLE, sqlite_tables
from trainer_utils.format import ConfigError, InputError

__all__ = ["open_store"]

_MYSQL_PORT = 3306
_GRPC_TIMEOUT_SECONDS = 60.0


@contextlib.contextmanager
def open_store(metadata: str) -> Iterator[MetadataStore]:
    """The store; what goes wrong with it while it is read becomes an `InputError`.

    Args:
        metadata: a sqlite file, `mysql://user:password@host:port/database` (with `?socket=path` a
            socket), or `grpc://host:port`.

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
    raise ConfigError.of("metadata", without_password(metadata), allowed=METADATA_FORMS)


def _sqlite(path: str) -> metadata_store_pb2.ConnectionConfig:
    if not os.path.isfile(path):
        raise InputError(f"metadata {path!r}: expected {METADATA_FORMS}, found no such file")
    _check_sqlite(path)
    config = metadata_store_pb2.ConnectionConfig()
    config.sqlite.filename_uri = path
    config.sqlite.connection_mode = metadata_store_pb2.SqliteMetadataSourceConfig.READONLY
    return config


def _check_sqlite(path: str) -> None:
    """ML Metadata would try to make its tables in any file, and say just that it cannot."""
    try:
        tables = sqlite_tables(path)
    except sqlite3.OperationalError as error:  # locked, or not to be read
        raise InputError(f"metadata {path!r}: cannot be read: {error}") from error
    except sqlite3.DatabaseError as error:
        raise InputError(f"metadata {path!r}: expected a sqlite file: {error}") from error
    if METADATA_TABLE not in tables:
        raise InputError(
            f"metadata {path!r}: expected the tables of ML Metadata, found "
            f"{', '.join(tables[:5]) or 'an empty database'}"
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
