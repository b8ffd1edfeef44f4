"""Access local files by calls of the operating system, and sync them to the disk.

Opening never waits, even for a pipe, and links that lead out of a given folder are refused.
After a loss of power, a file system may keep the latest rename but not earlier writes. A dataset's
files are therefore synced before its manifest lists them.
Source: fsync(2), rename(2); "All File Systems Are Not Created Equal" (OSDI 2014), section 3.
"""

import contextlib
import ctypes
import errno
import io
import os
import shutil
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from trainer_utils.storage.file_system import (
    GROUP_FILES,
    LINK_LOOP,
    LINKED_FOLDER,
    OUTSIDE,
    FileGroup,
    FileSystem,
    FolderEntry,
    InputFile,
)
from trainer_utils.storage.host_errors import (
    FileRefusedError,
    changed_size,
    is_host_error,
    naming_file,
    problem_of,
    raise_host_error,
)
from trainer_utils.storage.paths import is_remote, join
from trainer_utils.storage.retrying import retry_transient

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_MAX_READ = 1 << 30  # bytes per call: systems read less than 2 GiB
_NO_FILE = ("NOT_A_FILE", "no regular file")
_SYNC_THREADS = 16  # the calls wait for the disk, which handles many at once
_NO_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EISDIR)


class _LocalFileSystem(FileSystem):
    is_seen_by_others = True

    def open(self, path: str, *, root: str | None = None) -> BinaryIO:
        return cast(BinaryIO, _LocalFile(_open_regular(path, root)[0], path))

    def read(self, path: str, *, start: int = 0, stop: int | None = None) -> bytes:
        with naming_file(path), self.open(path) as stream:
            if start:
                stream.seek(start)
            return stream.read(-1 if stop is None else max(stop - start, 0))

    def read_of_size(self, path: str, size: int, *, root: str | None = None) -> bytes:
        # Five system calls, fewer than `open` and `read` take. With threads, each of them waits for
        # the GIL.
        descriptor, actual = _open_regular(path, root)
        try:
            data = _read_up_to(descriptor, size + 1) if actual == size else b""
        finally:
            os.close(descriptor)
        if actual and (actual, len(data)) != (size, size):
            raise changed_size(size, actual if actual != size else len(data))
        return data

    def info(self, path: str) -> FolderEntry:
        status = os.stat(path)
        is_folder = stat.S_ISDIR(status.st_mode)
        version = f"{status.st_size}-{status.st_mtime_ns}-{status.st_ctime_ns}-{status.st_ino}"
        return FolderEntry(path, None if is_folder else status.st_size, is_folder, version)

    def list_folder(self, path: str) -> list[FolderEntry]:
        return [_folder_entry(entry) for entry in _scan(path)]

    def walk(self, base: str, *, follow_links: bool = False) -> Iterator[InputFile]:
        for group in self.walk_groups(base, follow_links=follow_links):
            yield from group.files()

    def walk_groups(self, base: str, *, follow_links: bool = False) -> Iterator[FileGroup]:
        """Yield the files below a folder in groups of one folder, with links and problems apart."""
        root = os.path.realpath(base)
        # With `follow_links`, each has the real paths of the folders that contain it.
        folders: list[tuple[str, frozenset[str]]] = [("", frozenset([root]))]
        while folders:
            folder, above = folders.pop()
            place = os.path.join(base, folder)
            group = FileGroup.of_folder(folder)
            names, sizes, modified, changed, others = group[1:]
            try:
                with _opened_folder(place) as entries:
                    while entries:
                        entry = entries.pop()  # frees it, with its status, before the next one
                        try:
                            status = entry.stat(follow_symlinks=False)
                            if is_plain := stat.S_ISREG(status.st_mode):
                                modified.append(status.st_mtime_ns)
                        except (OSError, OverflowError):  # unknown, or a time after the year 2262
                            is_plain = False
                        if is_plain:
                            changed.append(status.st_ctime_ns)
                            sizes.append(status.st_size)
                            names.append(entry.name)
                            if len(names) == GROUP_FILES:
                                yield group
                                group = FileGroup.of_folder(folder)
                                names, sizes, modified, changed, others = group[1:]
                            continue
                        path = f"{folder}/{entry.name}" if folder else entry.name
                        whole = os.path.join(place, entry.name)
                        other = _folder_or_file(
                            entry, whole, path, above, root=None if follow_links else root
                        )
                        if isinstance(other, InputFile):
                            others.append(other)
                        else:
                            folders.append((path, other))
            except OSError as error:
                if not folder:
                    raise
                code, detail = problem_of(error, place)
                others.append(InputFile(folder, 0, "", (code, f"a folder: {detail}"), True))
            yield group

    def find(self, base: str, name: str, *, follow_links: bool = False) -> InputFile:
        entry = Path(base, name)
        entry.lstat()  # otherwise a missing file would be listed as vanished
        inside = None if follow_links else os.path.realpath(base)
        return _local_file(entry, os.fspath(entry), name, inside)

    def find_in_folder(self, folder: str, names: Sequence[str]) -> dict[str, InputFile]:
        by_name = {}
        for name in names:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                by_name[name] = self.find(folder, name)
        return by_name

    def create(self, path: str) -> BinaryIO:
        return open(path, "wb")

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def duplicate(self, source: str, target: str, temporary: str) -> bool | None:
        try:
            os.link(os.path.realpath(source), temporary)
        except OSError:  # another disk, or one without links
            return None
        try:
            os.replace(temporary, target)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(temporary)  # remains if the target was the same file already
        return True

    def make_folder(self, path: str) -> None:
        try:
            os.makedirs(path or os.curdir, exist_ok=True)  # "" is the folder of a bare file name
        except FileExistsError:  # some systems do not report that it is a folder
            if not stat.S_ISDIR(os.stat(path).st_mode):
                raise

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_tree(self, path: str) -> None:
        for _ in range(2):  # an error may pass; the next run cleans up the rest
            shutil.rmtree(path, ignore_errors=True)


LOCAL = _LocalFileSystem()


class _LocalFile(io.FileIO):
    """A file open for reading, which retries a read if the machine fails.

    A read returns fewer bytes than requested only at the end of the file. One system call reads at
    most 2,147,479,552 bytes, and Arrow, NumPy and others treat a short read as the end of the file.
    Source: read(2).
    """

    def __init__(self, descriptor: int, path: str) -> None:
        super().__init__(descriptor, "rb")
        self._path = path

    def read(self, size: int | None = -1, /) -> bytes:
        return retry_transient(
            self._path, self._read_from, self.tell(), -1 if size is None else size
        )

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        return retry_transient(self._path, self._read_into_from, self.tell(), buffer)

    def readall(self) -> bytes:
        return self.read()

    def _read_from(self, start: int, size: int) -> bytes:
        self.seek(start)  # an earlier attempt may have failed half-way
        if size < 0:
            return super().readall() or b""
        data = self._read_once(size)
        if 0 < len(data) < size:
            parts = [data]
            while data and (size := size - len(data)):
                data = self._read_once(size)
                parts.append(data)
            return b"".join(parts)
        return data

    def _read_into_from(self, start: int, buffer: "WriteableBuffer") -> int:
        self.seek(start)
        count, view = 0, memoryview(buffer).cast("B")
        while count < len(view) and (more := super().readinto(view[count:])):
            count += more
        return count

    def _read_once(self, size: int) -> bytes:
        """Return the bytes of one system call, which may be fewer than requested."""
        return super().read(min(size, _MAX_READ)) or b""


def _open_regular(path: str, root: str | None) -> tuple[int, int]:
    """Return the descriptor of a regular file and its size in bytes, without waiting for a pipe."""
    flags = os.O_RDONLY | os.O_NONBLOCK | (os.O_NOFOLLOW if root is not None else 0)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a missing device
            raise FileRefusedError(*_NO_FILE) from error
        if root is None or error.errno != errno.ELOOP:
            raise
        # Check the link's target before opening it, since opening a device may have effects.
        target = os.path.realpath(path)
        _check_inside(target, root)
        descriptor = os.open(target, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            raise FileRefusedError(*_NO_FILE)
        if root is not None:
            try:  # the real location: a parent folder may have become a link
                place = os.readlink(f"/proc/self/fd/{descriptor}")
            except OSError:  # only Linux has this link
                place = os.path.realpath(path)
            _check_inside(place, root)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, status.st_size


def _check_inside(path: str, root: str) -> None:
    if path != root and not path.startswith(root.rstrip("/") + "/"):
        raise FileRefusedError(*OUTSIDE)


def _read_up_to(descriptor: int, most: int) -> bytes:
    data = os.read(descriptor, min(most, _MAX_READ))
    while data and len(data) < most - 1 and (more := os.read(descriptor, most - len(data))):
        data += more
    return data


def _folder_entry(entry: os.DirEntry[str]) -> FolderEntry:
    try:
        if entry.is_dir():
            return FolderEntry(entry.name, None, is_folder=True)
        return FolderEntry(entry.name, entry.stat().st_size)
    except OSError as error:  # such as a dead link
        if is_host_error(error):
            raise
        return FolderEntry(entry.name, None)


def _scan(folder: str | int) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return list(entries)


@contextlib.contextmanager
def _opened_folder(folder: str) -> Iterator[list[os.DirEntry[str]]]:
    """Yield the entries of a folder, which are looked up in the open folder, not by whole paths.

    This saves a fifth of the time of listing many files. An entry's `path` is only its name.
    """
    descriptor = retry_transient(folder, os.open, folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield retry_transient(folder, _scan, descriptor)
    finally:
        os.close(descriptor)


def _folder_or_file(
    entry: os.DirEntry[str], place: str, path: str, above: frozenset[str], *, root: str | None
) -> frozenset[str] | InputFile:
    """Return the listing of an entry; for a folder to walk, the real paths that contain its files.

    Args:
        entry: anything but a regular file, or a file whose status is not known.
        place: its whole path.
        path: its path for the listing.
        above: the real paths of the folders that contain it.
        root: the real path of the listed folder, which links must not lead out of. None: follow
            links.
    """
    if _is_folder_itself(entry, place):
        return above | {os.path.realpath(place)} if root is None else above
    if root is None and _is_linked_folder(entry, place):
        target = os.path.realpath(place)
        if target in above:
            return InputFile(path, 0, "", LINK_LOOP, is_folder=True)
        return above | {target}
    return _local_file(entry, place, path, root)


def _is_folder_itself(entry: os.DirEntry[str], place: str) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)  # without a system call, as a rule
    except OSError:
        pass
    try:
        return retry_transient(place, entry.is_dir, follow_symlinks=False)
    except OSError as error:  # some systems list names without types
        raise_host_error(error, place)
        return False


def _is_linked_folder(entry: os.DirEntry[str], place: str) -> bool:
    try:
        return entry.is_symlink() and retry_transient(place, entry.is_dir)
    except OSError as error:
        raise_host_error(error, place)
        return False


def _local_file(
    entry: os.DirEntry[str] | Path, place: str, path: str, root: str | None
) -> InputFile:
    """Return the listing of a file.

    Args:
        entry: the file, which may be looked up in an open folder.
        place: its whole path.
        path: its path for the listing.
        root: the real path of the folder that links must not lead out of, or None.
    """
    version = ""
    try:
        status = retry_transient(place, entry.stat, follow_symlinks=False)
        version = f"{status.st_mtime_ns}-{status.st_ctime_ns}"
        if is_link := stat.S_ISLNK(status.st_mode):
            if root and os.path.commonpath([root, os.path.realpath(place)]) != root:
                return InputFile(path, 0, version, OUTSIDE)
            status = retry_transient(place, entry.stat)
            version += f"-{status.st_mtime_ns}-{status.st_ctime_ns}"
    except OSError as error:  # deleted since, or in a folder that only shows names
        problem = problem_of(error, place)
        if version:  # a dead link did not vanish
            problem = "UNREADABLE", _problem_of_link(place) or error.strerror or problem[1]
        return InputFile(path, 0, version, problem)
    if stat.S_ISREG(status.st_mode):
        return InputFile(path, status.st_size, version)
    is_linked_folder = is_link and stat.S_ISDIR(status.st_mode)
    return InputFile(path, 0, version, LINKED_FOLDER if is_linked_folder else _NO_FILE)


def _problem_of_link(place: str) -> str:
    """Return how a link is broken; an empty string if its target exists."""
    try:
        is_broken = not os.path.lexists(os.path.realpath(place, strict=False))
        target = os.readlink(place)
    except OSError:
        return ""
    return f"a link to {target!r}, which does not exist" if is_broken else ""


def begin_sync(path: str) -> None:
    """Make Linux begin to write a file to the disk, so that `sync_files` waits less.

    An fsync here would consume a disk error that `sync_files` must report. Source:
    sync_file_range(2).
    """

    def begin() -> None:
        none = ctypes.c_int64(0)
        with contextlib.suppress(OSError, AttributeError), open(path, "rb") as stream:
            call = ctypes.CDLL(None).sync_file_range
            call(stream.fileno(), none, none, 2)  # SYNC_FILE_RANGE_WRITE

    if not is_remote(path):
        threading.Thread(target=begin, daemon=True).start()


def sync_files(uri: str, paths: Iterable[str]) -> None:
    """Wait until a dataset's files, their names and its folders are on the disk."""
    if is_remote(uri):
        return
    whole = [join(uri, path) for path in paths]
    folders = {os.path.dirname(path) for path in whole} | {uri, os.path.dirname(uri.rstrip("/"))}
    with ThreadPoolExecutor(_SYNC_THREADS) as pool:
        list(pool.map(_sync, whole))
    for folder in sorted(folders, reverse=True):  # inner folders first
        sync_folder(folder)


def sync_folder(folder: str) -> None:
    """Wait until the names in a folder are on the disk, if the file system supports it."""
    try:
        if not is_remote(folder):
            _sync(folder or ".")
    except OSError as error:
        if error.errno not in _NO_FOLDERS:
            raise


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with naming_file(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
