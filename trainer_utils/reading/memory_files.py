"""TensorFlow's file system in memory, `ram://`, for `storage`: where `cache="memory"` keeps shards.

TensorFlow reads records from there as from a disk, and no other memory of this process.
"""

from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import tensorflow as tf

from trainer_utils.storage import (
    FileSystem,
    FolderEntry,
    InputFile,
    join,
    register_file_system,
)

__all__ = ["TensorFlowFiles"]


class TensorFlowFiles(FileSystem):
    """Any file system of `tf.io.gfile`; see `trainer_utils.storage.FileSystem`."""

    appears_whole = False

    def open(self, path: str, *, root: str | None = None) -> BinaryIO:
        """A file's bytes."""
        if not tf.io.gfile.exists(path):
            raise FileNotFoundError(path)
        return cast(BinaryIO, _File(path, "rb"))

    def read(self, path: str, *, start: int = 0, stop: int | None = None) -> bytes:
        """A part of a file."""
        with self.open(path) as stream:
            stream.seek(start)
            return stream.read(-1 if stop is None else max(stop - start, 0))

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        return bool(tf.io.gfile.exists(path))

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder."""
        return bool(tf.io.gfile.isdir(path))

    def size(self, path: str) -> int:
        """A file's size in bytes."""
        return int(self._stat(path).length)

    def version(self, path: str) -> str:
        """What changes when the file does."""
        found = self._stat(path)
        return f"{found.length}-{found.mtime_nsec}"

    def list_folder(self, path: str) -> list[FolderEntry]:
        """What is in a folder."""
        entries = []
        for name in (name.rstrip("/") for name in tf.io.gfile.listdir(path)):
            whole = join(path, name)
            is_folder = self.is_folder(whole)
            entries.append(FolderEntry(name, None if is_folder else self.size(whole), is_folder))
        return entries

    def walk(self, base: str) -> Iterator[InputFile]:
        """Every file under a folder."""
        for folder, _, names in tf.io.gfile.walk(base):
            for name in names:
                path = join(folder, name).removeprefix(base).lstrip("/")
                yield self.find(base, path)

    def find(self, base: str, name: str) -> InputFile:
        """One file of a folder."""
        path = join(base, name)
        return InputFile(name, self.size(path), self.version(path))

    def create(self, path: str) -> BinaryIO:
        """A stream to a new file."""
        return cast(BinaryIO, _File(path, "wb"))

    def rename(self, source: str, target: str) -> None:
        """Gives a file its final name."""
        tf.io.gfile.rename(source, target, overwrite=True)

    def duplicate(self, source: str, target: str, temporary: str) -> bool | None:
        """Gives a file another name too, as a copy."""
        tf.io.gfile.copy(source, target, overwrite=True)
        return False

    def make_folder(self, path: str) -> None:
        """Makes a folder and those above it."""
        tf.io.gfile.makedirs(path)

    def remove(self, path: str) -> None:
        """Removes a file."""
        tf.io.gfile.remove(path)

    def remove_tree(self, path: str) -> None:
        """Removes a folder and what is in it, if it is there."""
        if self.exists(path):
            tf.io.gfile.rmtree(path)

    def _stat(self, path: str) -> Any:
        try:
            return tf.io.gfile.stat(path)
        except tf.errors.NotFoundError as error:
            raise FileNotFoundError(path) from error


class _File(tf.io.gfile.GFile):  # type: ignore[misc]
    """A file of `tf.io.gfile` with `seek` and `write` as Python has them."""

    def seek(self, offset: int, whence: int = 0) -> int:
        super().seek(offset, whence)
        return int(self.tell())

    def write(self, data: Any) -> None:
        super().write(data if isinstance(data, bytes) else bytes(data))


_FILES: FileSystem = TensorFlowFiles()
register_file_system("ram", _FILES)
