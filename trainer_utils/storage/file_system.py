"""What a place where files lie must be able to do, what it lists, and how it refuses a file.

class MyFiles(FileSystem):      # for `register_file_system("mine", MyFiles())`
    def open(self, path, *, root=None): ...
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple, Protocol

__all__ = [
    "FileRefusedError",
    "FileSystem",
    "FolderEntry",
    "InputFile",
    "changed_size",
    "naming_file",
    "problem_of",
]


class FileRefusedError(OSError):
    """A file is no longer what was listed; `code` says how, as a reject's does."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.code, str(self))


def changed_size(expected: int, found: int) -> FileRefusedError:
    """Of a file that was listed with another size."""
    return FileRefusedError(
        "CHANGED_FILE", f"expected {expected} bytes as it was listed, got {found}"
    )


def problem_of(error: OSError) -> tuple[str, str]:
    """Why a file that was listed cannot be read, as a reject's code and detail."""
    if isinstance(error, FileRefusedError):
        return error.code, str(error)
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return "VANISHED", "listed, but gone when it was to be read"
    return "UNREADABLE", error.strerror or str(error)


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
    """Files by path. What cannot be done is an `OSError`.

    Attributes:
        appears_whole: whether a new file is there once its stream is closed, and not at all where
            that fails, as in object stores. Else it is written under another name first.
    """

    appears_whole: bool

    def open(self, path: str, *, root: str | None = None) -> BinaryIO:
        """A file's bytes, from its start, as a stream that can seek.

        `root`: the real path of the folder that the file must lie in, wherever links lead.
        """

    def read(self, path: str, *, start: int = 0, stop: int | None = None) -> bytes:
        """A file's bytes from `start` up to `stop`, or to its end; fewer where it is shorter."""

    def read_of_size(self, path: str, size: int, *, root: str | None = None) -> bytes:
        """A whole file that was listed with `size` bytes, else a `FileRefusedError`."""
        data = self.read(path, stop=size + 1)
        if data and len(data) != size:
            raise changed_size(size, len(data))
        return data

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder."""

    def size(self, path: str) -> int:
        """A file's size in bytes."""

    def version(self, path: str) -> str:
        """What changes when the file does."""

    def list_folder(self, path: str) -> list[FolderEntry]:
        """What is in a folder, without what is below its folders, in no order."""

    def walk(self, base: str) -> Iterator[InputFile]:
        """Every file under a folder, however deep, in no order."""

    def find(self, base: str, name: str) -> InputFile:
        """One file of a folder, as `walk` has it."""

    def create(self, path: str) -> BinaryIO:
        """A stream to a new file, whole once it is closed."""

    def sync(self, stream: BinaryIO) -> None:
        """Waits until what was written is kept through a loss of power; of stores it is at once."""
        return

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


@contextmanager
def naming_file(path: str) -> Iterator[None]:
    """Gives errors of the system the name of a file that they lack, as those of reads and writes.

    with naming_file(path):
        stream.write(data)            # OSError: [Errno 28] No space left on device: '…'
    """
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = path
        raise
