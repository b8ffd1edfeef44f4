"""Paths and urls, and what a place where files lie must be able to do."""

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, Protocol

from trainer_utils.storage.faults import changed_size

OBJECT_SCHEMES = {
    **dict.fromkeys(("s3", "s3a", "minio"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gcs"),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), "azure"),
}
"""The schemes of object stores, and the extra of this distribution that brings each."""


def is_remote(path: str) -> bool:
    """Whether a path is a url, such as `gs://bucket/folder`."""
    return "://" in path


def is_object_store(path: str) -> bool:
    """Whether a path is a url of an object store, which can be written to from anywhere."""
    return is_remote(path) and path.partition("://")[0] in OBJECT_SCHEMES


def join(base: str, path: str) -> str:
    """`path` under `base`; `path` itself where it is whole, an absolute one or a url."""
    if not base or is_remote(path) or path.startswith("/"):
        return path
    return f"{base}{path}" if base.endswith("/") else f"{base}/{path}"


def encode_path(path: str) -> bytes:
    """A path's own bytes, of which those that are not UTF-8 are surrogates."""
    return path.encode("utf-8", "surrogateescape")


def decode_path(path: bytes) -> str:
    """What `encode_path` took."""
    return path.decode("utf-8", "surrogateescape")


def display_path(path: str) -> str:
    """A path as text that any file or terminal can hold: bytes that are not UTF-8 are escaped."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class InputFile(NamedTuple):
    """One file under a base folder.

    Args:
        path: relative to the base, with `/`; bytes of the name that are not UTF-8 are surrogates.
        size: in bytes.
        version: changes with every write, even one that keeps size and modification time: the
            change time of a local file, the generation of an object.
        problem: why it cannot be read, as a reject's code and detail; None where it can.
        is_folder: whether it is a folder, which is listed only where its files cannot be.
    """

    path: str
    size: int
    version: str
    problem: tuple[str, str] | None = None
    is_folder: bool = False


class FolderEntry(NamedTuple):
    """What stands in a folder: its name, its size in bytes (None: a folder, or a dead link).

    `version` changes when the file does, and compares with that of other listings alone; empty
    where it would take another request.
    """

    name: str
    size: int | None
    is_folder: bool = False
    version: str = ""


class FileSystem(Protocol):
    """Files by path. What cannot be done is an `OSError`; a fault that may pass has the system's
    number, or is a `ConnectionError` or `TimeoutError`, and is tried again by `files`.

    Attributes:
        appears_whole: whether a new file is there once its stream is closed, and not at all where
            that fails, as in object stores. Else it is written under another name first.
        is_seen_by_others: whether other processes of this machine find at a path what this one
            does: local files, and those to which the environment alone leads.
    """

    appears_whole: bool = False
    is_seen_by_others: bool = False

    def open(self, path: str, *, root: str | None = None) -> BinaryIO:
        """A file as a stream that can seek; `root` is the real path that it must lie in."""

    def read(self, path: str, *, start: int = 0, stop: int | None = None) -> bytes:
        """The bytes `[start, stop)` of a file; fewer where it is shorter."""

    def read_of_size(self, path: str, size: int, *, root: str | None = None) -> bytes:
        """A whole file that was listed with `size` bytes, else a `FileRefusedError`."""
        data = self.read(path, stop=size + 1)
        if data and len(data) != size:
            raise changed_size(size, len(data))
        return data

    def info(self, path: str) -> FolderEntry:
        """What a file or folder is, with its version; or a `FileNotFoundError` and the like."""

    def list_folder(self, path: str) -> list[FolderEntry]:
        """What is in a folder, without what is below its folders, in no order."""

    def walk(self, base: str) -> Iterator[InputFile]:
        """Every file under a folder, however deep, in no order."""

    def find(self, base: str, name: str) -> InputFile:
        """One file of a folder, as `walk` has it."""
        found = self.info(join(base, name))
        return InputFile(name, found.size or 0, found.version)

    def create(self, path: str) -> BinaryIO:
        """A stream to a new file, whole once it is closed."""

    def rename(self, source: str, target: str) -> None:
        """Gives a file its final name, over whatever has that name."""

    def duplicate(self, source: str, target: str, temporary: str) -> bool | None:
        """Gives a file another name too, over whatever has it, without its bytes passing here.

        Returns whether it is one file then; None where it cannot be done. `temporary` may be used.
        """

    def make_folder(self, path: str) -> None:
        """Makes a folder and those above it, where there are such things as folders."""
        return

    def remove(self, path: str) -> None:
        """Removes a file."""

    def remove_tree(self, path: str) -> None:
        """Removes a folder and what is in it, if it is there."""
