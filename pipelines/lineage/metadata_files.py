"""Sqlite files of ML Metadata, whatever they are called, in a folder and above it.

stores_in("runs/")                 # ['runs/metadata.sqlite']
list(stores_above("runs/artifacts/ShardBalancer/balanced_examples/4"))

TFX calls them `metadata.sqlite` in notebooks and `metadata.db` in its templates, which keep one a
pipeline: `tfx_metadata/<pipeline>/metadata.db` or `metadata/<pipeline>/metadata.db`.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from pipelines.tools.conversion import METADATA_FILE
from trainer_utils.storage import is_remote

__all__ = ["METADATA_TABLE", "sqlite_tables", "stores_above", "stores_in"]

_MARK = b"SQLite format 3\0"  # how every such file begins
METADATA_TABLE = "MLMDEnv"  # every store of ML Metadata has it
_ENDINGS = (".sqlite", ".sqlite3", ".db")
_FOLDERS = ("tfx_metadata", "metadata")  # of TFX's templates and tutorials


def stores_above(uri: str) -> Iterator[str]:
    """The stores in the folder of a uri and in those above it, the nearest first."""
    if is_remote(uri):
        return
    folder = os.path.abspath(uri)
    while True:
        yield from stores_in(folder)
        if folder == (folder := os.path.dirname(folder)):
            return


def stores_in(folder: str) -> list[str]:
    """The stores of a folder: the likeliest first, those in TFX's folders for them last.

    A `metadata.sqlite` counts whatever is in it, another file if it is a store.
    """
    found = _own_stores(folder)
    for name in _FOLDERS:
        inner = os.path.join(folder, name)
        found += _own_stores(inner)
        for pipeline in _folders(inner):
            found += _own_stores(pipeline)
    return found


def _own_stores(folder: str) -> list[str]:
    names = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.name.endswith(_ENDINGS)]
    names.sort(key=lambda name: (name != METADATA_FILE, name != "metadata.db", name))
    paths = [os.path.join(folder, name) for name in names]
    return [
        path
        for path in paths
        if os.path.isfile(path) and (path == os.path.join(folder, METADATA_FILE) or _is_store(path))
    ]


def _folders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir())
    except OSError:
        return []


def _is_store(path: str) -> bool:
    try:
        with open(path, "rb") as stream:
            if stream.read(len(_MARK)) != _MARK:
                return False
        return METADATA_TABLE in sqlite_tables(path)
    except (OSError, sqlite3.Error):
        return False


def sqlite_tables(path: str) -> list[str]:
    """The names of a database's tables.

    Raises:
        sqlite3.Error: it is none, or cannot be read.
    """
    url = f"{Path(path).absolute().as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(url, uri=True)) as found:
        rows = found.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return sorted(name for (name,) in rows)
