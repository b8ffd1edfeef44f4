"""Where stores of ML Metadata are: sqlite files in a folder and above it.

stores_in("runs/")                 # ['runs/metadata.sqlite']
list(stores_above("runs/artifacts/ShardBalancer/balanced_examples/4"))

TFX calls the files `metadata.sqlite` in notebooks and `metadata.db` in its templates, which keep
one a pipeline: `tfx_metadata/<pipeline>/metadata.db` or `metadata/<pipeline>/metadata.db`.
"""

import contextlib
import glob
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipelines.tools.conversion import METADATA_FILE
from trainer_utils.storage import is_remote

__all__ = [
    "METADATA_FORMS",
    "METADATA_TABLE",
    "alike",
    "sqlite_tables",
    "stores_above",
    "stores_in",
]

METADATA_FORMS = "a sqlite file or grpc://host:port"
METADATA_TABLE = "MLMDEnv"  # every store of ML Metadata has it
_MARK = b"SQLite format 3\0"  # how every such file begins
_ENDINGS = (".sqlite", ".sqlite3", ".db")
_FOLDERS = ("", "tfx_metadata", "tfx_metadata/*", "metadata", "metadata/*")


def stores_above(uri: str) -> Iterator[str]:
    """The stores in the folder of a uri and in those above it, the nearest first."""
    if not is_remote(uri):
        folder = Path(os.path.abspath(uri))
        for each in (folder, *folder.parents):
            yield from stores_in(str(each))


def stores_in(folder: str) -> list[str]:
    """The stores of a folder: the likeliest first, those in TFX's folders for them last.

    A `metadata.sqlite` counts whatever is in it, another file if it is a store.
    """
    found = []
    for pattern in _FOLDERS:
        for inner in sorted(glob.glob(os.path.join(glob.escape(folder), pattern))):
            own = [name for name in _names(inner) if name.endswith(_ENDINGS)]
            own.sort(key=lambda name: (name != METADATA_FILE, name != "metadata.db", name))
            paths = [os.path.join(inner, name) for name in own]
            found += [p for p in paths if os.path.basename(p) == METADATA_FILE or _is_store(p)]
    return list(filter(os.path.isfile, found))


def _names(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(folder)
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


def alike(one: Sequence[str], other: Sequence[str]) -> int:
    """How many parts two paths have in common at their beginnings."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))
