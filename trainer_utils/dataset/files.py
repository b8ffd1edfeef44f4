"""A dataset's files, and what layout they are in.

files = list_dataset("datasets/photos")
files.sizes                       # {'manifest.json': 8123, 'Split-train/data_tfrecord-…': 31457280}
files.read_text("manifest.json")
"""

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import BinaryIO

from trainer_utils.format import DatasetError
from trainer_utils.format.layouts import DatasetLayout, find_layout
from trainer_utils.format.naming import WORKING_FOLDER
from trainer_utils.format.texts import text_of
from trainer_utils.storage import (
    exists,
    file_size,
    is_folder,
    join,
    list_folder,
    open_for_reading,
    read_bytes,
)

__all__ = ["DatasetFiles", "list_dataset"]


@dataclasses.dataclass(frozen=True)
class DatasetFiles:
    """The files of a folder and of the folders in it.

    Args:
        uri: of the folder.
        sizes: in bytes, by path relative to `uri`; None of a link to nothing.
    """

    uri: str
    sizes: Mapping[str, int | None]

    def path(self, name: str) -> str:
        """The whole path of a file that the dataset names, which may lie elsewhere."""
        return join(self.uri, name)

    def open(self, name: str) -> BinaryIO:
        """A file's bytes: callers read in large blocks."""
        return open_for_reading(self.path(name))

    def read_bytes(self, name: str) -> bytes:
        """A whole small file."""
        return read_bytes(self.path(name))

    def read_text(self, name: str) -> str:
        """A whole small file in UTF-8.

        Raises:
            DatasetError: it is not in UTF-8, or cannot be read.
        """
        path = self.path(name)
        try:
            return text_of(self.read_bytes(name), path=path)
        except OSError as error:
            raise DatasetError(f"{path!r}: cannot be read: {error}") from error

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
        try:
            return file_size(path) if exists(path) and not is_folder(path) else None
        except FileNotFoundError:
            return None

    def without(self, name: str) -> "DatasetFiles":
        """The same, as if one of the files were not there."""
        return DatasetFiles(self.uri, {n: size for n, size in self.sizes.items() if n != name})

    def layout(self) -> DatasetLayout:
        """Which of the files are shards, and what says so.

        Raises:
            DatasetError: there is no dataset, or it is not whole.
        """
        return find_layout(self.sizes, self.read_text, uri=self.uri)


def list_dataset(uri: str) -> DatasetFiles:
    """Lists a dataset.

    Raises:
        DatasetError: there is no such folder.
        OSError: a folder cannot be listed.
    """
    uri = uri.rstrip("/") or uri
    if not is_folder(uri):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            file_size(uri)  # says why, where that is another reason
        raise DatasetError(f"{uri!r}: expected the folder of a dataset, found none", path=uri)
    sizes: dict[str, int | None] = {}
    for entry in list_folder(uri):
        if not entry.is_folder:
            sizes[entry.name] = entry.size
        elif entry.name == WORKING_FOLDER:
            sizes[f"{WORKING_FOLDER}/"] = None
        else:
            for inner in list_folder(join(uri, entry.name)):
                sizes[f"{entry.name}/{inner.name}{'/' if inner.is_folder else ''}"] = inner.size
    return DatasetFiles(uri, sizes)
