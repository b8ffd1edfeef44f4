"""A dataset's files, local ones without TensorFlow, and what layout they are in.

files = list_dataset("datasets/photos")
files.sizes                       # {'manifest.json': 8123, 'Split-train/data_tfrecord-…': 31457280}
with files.open("Split-train/data_tfrecord-00000-of-00008") as stream:
    stream.read(12)
"""

import dataclasses
import os
import posixpath
from collections.abc import Mapping
from typing import Any, BinaryIO, cast

from trainer_utils.format import DatasetError
from trainer_utils.format.layouts import Layout, find_layout
from trainer_utils.format.naming import SPLIT_PREFIX, WORKING_FOLDER

__all__ = ["DatasetFiles", "list_dataset", "open_file"]


@dataclasses.dataclass(frozen=True)
class DatasetFiles:
    """The files of a folder and of the folders in it.

    Args:
        uri: of the folder.
        sizes: in bytes, by path relative to `uri`; None where it was not asked for, as remote
            files have a price.
    """

    uri: str
    sizes: Mapping[str, int | None]

    def path(self, name: str) -> str:
        """The whole path of a file that the dataset names, which may lie elsewhere."""
        return name if "://" in name or os.path.isabs(name) else f"{self.uri}/{name}"

    def open(self, name: str) -> BinaryIO:
        """A file's bytes, unbuffered: callers read in large blocks."""
        return open_file(self.path(name))

    def read_bytes(self, name: str) -> bytes:
        """A whole small file."""
        with self.open(name) as stream:
            return stream.read()

    def read_text(self, name: str) -> str:
        """A whole small file in UTF-8.

        Raises:
            DatasetError: it is not in UTF-8, or cannot be read.
        """
        try:
            return self.read_bytes(name).decode("utf-8")
        except (UnicodeDecodeError, OSError) as error:
            raise DatasetError(f"{self.path(name)!r}: expected text in UTF-8: {error}") from error

    def read_lines(self, name: str) -> list[str]:
        """The lines of a whole small file, which end with a newline and nothing else."""
        lines = self.read_text(name).split("\n")
        return lines if lines[-1] else lines[:-1]

    def size(self, name: str) -> int | None:
        """Of a file, in bytes; None where there is none."""
        size = self.sizes.get(name)
        if size is not None:
            return size
        path = self.path(name)
        if "://" in path:
            return int(_gfile().stat(path).length) if _gfile().exists(path) else None
        return os.path.getsize(path) if os.path.isfile(path) else None

    def without(self, name: str) -> "DatasetFiles":
        """The same, as if one of the files were not there."""
        return DatasetFiles(self.uri, {n: size for n, size in self.sizes.items() if n != name})

    def layout(self) -> Layout:
        """Which of the files are shards, and what says so.

        Raises:
            DatasetError: there is no dataset, or it is not whole.
        """
        return find_layout(self.sizes, self.read_text, uri=self.uri)


def open_file(path: str) -> BinaryIO:
    """A file's bytes by its whole path, as `DatasetFiles.open`."""
    if "://" in path:
        return cast(BinaryIO, _gfile().GFile(path, "rb"))
    return open(path, "rb", buffering=0)  # type: ignore[return-value]


def list_dataset(uri: str) -> DatasetFiles:
    """Lists a dataset.

    Raises:
        DatasetError: there is no such folder.
    """
    uri = uri.rstrip("/") or uri
    list_folder = _list_remote if "://" in uri else _list_local
    sizes = list_folder(uri)
    if sizes is None:
        raise DatasetError(f"{uri!r}: expected the folder of a dataset, found none")
    return DatasetFiles(uri, sizes)


def _list_local(uri: str) -> dict[str, int | None] | None:
    if not os.path.isdir(uri):
        return None
    sizes: dict[str, int | None] = {}
    with os.scandir(uri) as entries:
        for entry in entries:
            if not entry.is_dir():
                sizes[entry.name] = _size(entry)
            elif entry.name == WORKING_FOLDER:
                sizes[f"{WORKING_FOLDER}/"] = None
            else:
                with os.scandir(entry.path) as inner:
                    sizes |= {f"{entry.name}/{e.name}": _size(e) for e in inner}
    return sizes


def _size(entry: os.DirEntry[str]) -> int | None:
    try:
        return entry.stat().st_size
    except OSError:  # such as a link to nothing
        return None


def _list_remote(uri: str) -> dict[str, int | None] | None:
    gfile = _gfile()
    if not gfile.isdir(uri):
        return None
    sizes: dict[str, int | None] = {}
    for name in (name.rstrip("/") for name in gfile.listdir(uri)):
        folder = posixpath.join(uri, name)
        if not gfile.isdir(folder):
            sizes[name] = None
        elif name == WORKING_FOLDER:
            sizes[f"{name}/"] = None
        else:
            is_split = name.startswith(SPLIT_PREFIX)
            for inner in (inner.rstrip("/") for inner in gfile.listdir(folder)):
                path = posixpath.join(folder, inner)
                sizes[f"{name}/{inner}"] = int(gfile.stat(path).length) if is_split else None
    return sizes


def _gfile() -> Any:
    import tensorflow as tf  # takes seconds; local files do without

    return tf.io.gfile
