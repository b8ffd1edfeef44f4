"""Define the interface of file systems, and the entries that they list."""

import array
import itertools
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple, Protocol

from trainer_utils.storage.host_errors import changed_size
from trainer_utils.storage.paths import join

OUTSIDE = ("OUTSIDE_INPUT_BASE", "a symbolic link that leads out of the input base")
"""The problem of a link that leads out of the listed folder and is not followed."""
LINKED_FOLDER = ("NOT_A_FILE", "a linked folder")
"""The problem of a link to a folder that is not followed."""
LINK_LOOP = ("LINK_LOOP", "a link to a folder that contains it")
"""The problem of a link that is never followed, since its files are listed already."""


class InputFile(NamedTuple):
    """One file under a base folder.

    Args:
        path: the path relative to the base, with `/`. Bytes that are not UTF-8 are surrogates.
        size: the size in bytes.
        version: a string that changes with every write, even if size and modification time stay
            the same: the change time of a local file, or the generation of an object.
        problem: the reject code and detail if it cannot be read, else None.
        is_folder: whether it is a folder; one is listed only if its files cannot be.
    """

    path: str
    size: int
    version: str
    problem: tuple[str, str] | None = None
    is_folder: bool = False


class FileGroup(NamedTuple):
    """Some files under a base folder: plain files of one folder as columns, and any others.

    Args:
        folder: the folder of the plain files, relative to the base; empty for the base.
        names: their names.
        sizes: their sizes in bytes.
        modified: the times of their last write, in nanoseconds.
        changed: the times of their last change, in nanoseconds.
        others: files that may have a problem, or another kind of version.
    """

    folder: str
    names: list[str]
    sizes: "array.array[int]"
    modified: "array.array[int]"
    changed: "array.array[int]"
    others: list[InputFile]

    @classmethod
    def of_folder(cls, folder: str) -> "FileGroup":
        """Return an empty group. Numbers take 8 bytes each."""
        return cls(folder, [], array.array("q"), array.array("q"), array.array("q"), [])

    def files(self) -> Iterator[InputFile]:
        """Yield the files one by one."""
        columns = zip(self.names, self.sizes, self.modified, self.changed, strict=True)
        for name, size, modified, changed in columns:
            path = f"{self.folder}/{name}" if self.folder else name
            yield InputFile(path, size, f"{modified}-{changed}")
        yield from self.others


class FolderEntry(NamedTuple):
    """An entry of a folder: its name and its size in bytes (None: a folder, or a dead link).

    `version` changes when the file does, and compares only with versions of other listings. It is
    empty if it would take another request.
    """

    name: str
    size: int | None
    is_folder: bool = False
    version: str = ""


GROUP_FILES = 1 << 15
"""The maximum number of files in a group."""


class FileSystem(Protocol):
    """Files by path. All errors are `OSError`.

    Errors that may pass have the system's error number, or are `ConnectionError` or `TimeoutError`.
    The functions of this package retry them.

    Attributes:
        appears_whole: whether a new file appears when its stream is closed, and not at all on an
            error, as in object stores. Else it is written under another name first.
        is_seen_by_others: whether other processes of this machine find the same files at a path:
            local files, and stores configured by the environment only.
        walks_in_pages: whether `walk` requests one page at a time, of files in the order of names.
    """

    appears_whole: bool = False
    is_seen_by_others: bool = False
    walks_in_pages: bool = False

    def open(self, path: str, *, root: str | None = None) -> BinaryIO:
        """Open a file as a stream that can seek; `root` is the real path that must contain it."""

    def read(self, path: str, *, start: int = 0, stop: int | None = None) -> bytes:
        """Return the bytes `[start, stop)` of a file; fewer if it is shorter."""

    def read_of_size(self, path: str, size: int, *, root: str | None = None) -> bytes:
        """Return a file that was listed with `size` bytes, or raise FileRefusedError."""
        data = self.read(path, stop=size + 1)
        if data and len(data) != size:
            raise changed_size(size, len(data))
        return data

    def info(self, path: str) -> FolderEntry:
        """Describe a file or folder, with its version; raise FileNotFoundError if it is missing."""

    def list_folder(self, path: str) -> list[FolderEntry]:
        """List a folder, without the contents of its folders, in no order."""

    def walk(self, base: str, *, follow_links: bool = False) -> Iterator[InputFile]:
        """Yield every file under a folder at any depth, in no order. Buckets have no links."""

    def walk_groups(self, base: str, *, follow_links: bool = False) -> Iterator[FileGroup]:
        """Yield the files of `walk` in groups, which takes less time for many files."""
        files = self.walk(base, follow_links=follow_links)
        while others := list(itertools.islice(files, GROUP_FILES)):
            yield FileGroup.of_folder("")._replace(others=others)

    def find(self, base: str, name: str, *, follow_links: bool = False) -> InputFile:
        """Return one file of a folder as `walk` lists it."""
        info = self.info(join(base, name))
        return InputFile(name, info.size or 0, info.version)

    def find_in_folder(self, folder: str, names: Sequence[str]) -> dict[str, InputFile]:
        """Return the existing files among `names` in one folder by name, as `walk` lists them."""
        try:
            entries = {each.name: each for each in self.list_folder(folder) if not each.is_folder}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        return {
            name: InputFile(name, entries[name].size or 0, entries[name].version)
            for name in names
            if name in entries
        }

    def create(self, path: str) -> BinaryIO:
        """Open a stream to a new file, which is complete once the stream is closed."""

    def rename(self, source: str, target: str) -> None:
        """Rename a file, replacing any file with that name."""

    def duplicate(self, source: str, target: str, temporary: str) -> bool | None:
        """Give a file a second name, replacing any file there, without reading its bytes here.

        Return whether both names are one file; None if it is not possible. It may use `temporary`.
        """

    def make_folder(self, path: str) -> None:
        """Create a folder and its parents, if the file system has folders."""
        return

    def remove(self, path: str) -> None:
        """Remove a file."""

    def remove_tree(self, path: str) -> None:
        """Remove a folder and its contents, if it exists."""
