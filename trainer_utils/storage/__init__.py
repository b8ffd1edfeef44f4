"""Read and write files by path or url, local or in any store, without TensorFlow.

for file in list_files("gs://bucket/photos"):
    data = read_bytes(join("gs://bucket/photos", file.path))

All functions retry if the machine fails, and then raise `MachineError`. Any other `OSError` is the
fault of the file itself.
"""

import collections
import concurrent.futures
import errno
import itertools
import os
import posixpath
import stat
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from trainer_utils.core.errors import ConfigError
from trainer_utils.core.json_text import text_of
from trainer_utils.storage.file_system import FileGroup, FileSystem, FolderEntry, InputFile
from trainer_utils.storage.host_errors import (
    FileRefusedError,
    MachineError,
    is_host_error,
    machine_error,
    naming_file,
    problem_of,
    raise_host_error,
)
from trainer_utils.storage.local import LOCAL, begin_sync, sync_files, sync_folder
from trainer_utils.storage.paths import (
    OBJECT_SCHEMES,
    display_path,
    encode_path,
    is_object_store,
    is_remote,
    join,
    local_path,
    path_of,
)
from trainer_utils.storage.retrying import retry_pauses, retry_transient, retrying_for_minutes

_COPIED_BYTES = 8 << 20  # per read
_LISTED_AT_ONCE = 32  # folders of a store


def file_system_of(path: str) -> FileSystem:
    """Return the file system of a path or url; raise ConfigError if it needs another package."""
    if not is_remote(path):
        return LOCAL
    if OBJECT_SCHEMES.get(path.partition("://")[0]) in ("s3", "azure"):
        from trainer_utils.storage.object_stores import OBJECT_STORES

        return OBJECT_STORES
    from trainer_utils.storage.remote import REMOTE  # imports fsspec, which local files do not need

    return REMOTE


def _info(path: str) -> FolderEntry:
    return retry_transient(path, file_system_of(path).info, path)


def _info_if_there(path: str) -> FolderEntry | None:
    try:
        return _info(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        if is_host_error(error) or isinstance(error, ConfigError):
            raise
    return None


def exists(path: str) -> bool:
    """Return whether there is a file or folder."""
    return _info_if_there(path) is not None


def is_folder(path: str) -> bool:
    """Return whether there is a folder."""
    info = _info_if_there(path)
    return info is not None and info.is_folder


def file_size(path: str) -> int:
    """Return a file's size in bytes."""
    size = _info(path).size
    if size is None:
        raise FileNotFoundError(errno.ENOENT, "a folder, and no file", path)
    return size


def file_version(path: str) -> str:
    """Return a string that changes when a file does, even if its size stays the same."""
    return _info(path).version


def modification_time(path: str) -> int:
    """Return the time of the last write to a local file, in nanoseconds; 0 for one in a store."""
    return 0 if is_remote(path) else retry_transient(path, os.stat, path).st_mtime_ns


def list_folder(folder: str) -> list[FolderEntry]:
    """List a folder with sizes, without the contents of its folders, in no order."""
    return retry_transient(folder, file_system_of(folder).list_folder, folder)


def list_names(folder: str, *, may_lack: bool = False) -> list[str]:
    """Return the names in a folder, or nothing for a missing folder if it `may_lack`."""
    try:
        return [entry.name for entry in list_folder(folder)]
    except FileNotFoundError:
        if not may_lack:
            raise
        return []


def walk_files(base: str, *, follow_links: bool = False) -> Iterator[InputFile]:
    """Yield every file under a folder at any depth, in no order and one at a time. Reads no file.

    A link to a file inside `base` counts as that file. A link that leads out, a linked folder,
    anything that is not a regular file and a folder that cannot be listed are yielded with their
    `problem`.

    Args:
        base: a folder, or the url of one.
        follow_links: whether to follow links to files and folders, also out of the folder. A link
            to a folder that contains it is yielded with the problem `LINK_LOOP`, and not followed.
    """
    return file_system_of(base).walk(base, follow_links=follow_links)


def walk_groups(base: str, *, follow_links: bool = False) -> Iterator[FileGroup]:
    """Yield the files of `walk_files` in groups, for folders with many files."""
    return file_system_of(base).walk_groups(base, follow_links=follow_links)


def walks_in_pages(base: str) -> bool:
    """Return whether the first files of `walk_files` take one request, however many there are."""
    return file_system_of(base).walks_in_pages


def list_files(base: str) -> list[InputFile]:
    """Return the files of `walk_files` sorted by path, for folders that are known to be small."""
    return sorted(walk_files(base), key=lambda file: encode_path(file.path))


def find_file(base: str, name: str, *, follow_links: bool = False) -> InputFile:
    """Return one file of a folder as `walk_files` lists it, or raise FileNotFoundError."""
    return retry_transient(base, file_system_of(base).find, base, name, follow_links=follow_links)


def find_files(base: str, paths: Sequence[str]) -> dict[str, InputFile]:
    """Return the files among `paths` that exist below a folder, as `walk_files` lists them.

    It lists each folder once, concurrently in a store, and requests no file on its own.
    """
    by_folder: dict[str, list[str]] = collections.defaultdict(list)
    for path in dict.fromkeys(paths):
        folder, name = posixpath.split(path)
        by_folder[folder].append(name)

    def look(folder: str) -> dict[str, InputFile]:
        whole = join(base, folder) if folder else base
        files = file_system_of(whole)
        by_name = retry_transient(whole, files.find_in_folder, whole, by_folder[folder])
        return {join(folder, n) if folder else n: file for n, file in by_name.items()}

    with concurrent.futures.ThreadPoolExecutor(_LISTED_AT_ONCE if is_remote(base) else 1) as pool:
        looked_up: dict[str, InputFile] = {}
        for by_path in pool.map(look, by_folder):
            looked_up |= {path: file._replace(path=path) for path, file in by_path.items()}
    return looked_up


def open_for_reading(path: str, *, root: str | None = None) -> BinaryIO:
    """Open a file as a binary stream. A local one is unbuffered, since callers read large blocks.

    Args:
        path: the path of a regular file. Opening a pipe or device raises instead of waiting.
        root: the real path of a folder. A local file must be inside it, also after all links.

    Raises:
        FileRefusedError: it is not a regular file, or is outside `root`.
        OSError: it cannot be opened.
    """
    return retry_transient(path, file_system_of(path).open, path, root=root)


def read_bytes(path: str) -> bytes:
    """Return the content of a file; raise the errors of `open_for_reading`."""
    return retry_transient(path, file_system_of(path).read, path)


def read_bytes_of_size(path: str, size: int, *, root: str | None = None) -> bytes:
    """Return the content of a file that was listed with `size` bytes, or has become empty.

    It reads at most one byte more than `size`; `root` is that of `open_for_reading`.

    Raises:
        FileRefusedError: the file has another size now (CHANGED_FILE), or see `open_for_reading`.
        OSError: it cannot be read.
    """
    return retry_transient(path, _read_of_size, path, size, root)


def _read_of_size(path: str, size: int, root: str | None) -> bytes:
    files = file_system_of(path)
    try:
        return files.read_of_size(path, size, root=root)
    except FileRefusedError as error:
        if not is_remote(path) or files.info(path).size != size:
            raise
        raise ConnectionError(f"{path!r}: an answer was cut off: {error}") from error


def read_range(path: str, *, start: int, stop: int) -> bytes:
    """Return the bytes `[start, stop)` of a file; fewer if it is shorter."""
    return retry_transient(path, file_system_of(path).read, path, start=start, stop=stop)


def read_text(path: str) -> str:
    """Return the text of a UTF-8 file; raise DatasetError with the first byte that is invalid."""
    return text_of(read_bytes(path), path=path)


def make_folder(path: str) -> None:
    """Create a folder and its parents; do nothing if it exists."""
    retry_transient(path, file_system_of(path).make_folder, path)


def remove_file(path: str) -> None:
    """Remove a file."""
    files, attempts = file_system_of(path), itertools.count(1)

    def remove() -> None:
        attempt = next(attempts)
        try:
            files.remove(path)
        except FileNotFoundError:
            if attempt == 1:  # else an earlier attempt removed it, and its answer was lost
                raise

    retry_transient(path, remove)


def remove_tree(path: str) -> None:
    """Remove a folder and its contents, if it exists."""
    file_system_of(path).remove_tree(path)


def rename(source: str, target: str) -> None:
    """Rename a file or a folder, replacing any file with that name.

    An attempt may succeed although its answer is lost, as on NFS. If a retry does not find the
    source, and the target has the source's identity, the rename has succeeded.
    """
    files, attempts = file_system_of(target), itertools.count(1)
    before = retry_transient(source, _identity, files, source)

    def move() -> None:
        attempt = next(attempts)
        try:
            files.rename(source, target)
        except FileNotFoundError:
            if attempt == 1 or before is None or _identity(files, target) != before:
                raise

    retry_transient(target, move)


def _identity(files: FileSystem, path: str) -> tuple[object, ...] | None:
    """Return the identity of a file, which a rename keeps; None if there is no such file."""
    try:
        if files is LOCAL:
            status = os.lstat(path)
            return status.st_dev, status.st_ino
        entry = files.info(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return entry.size, entry.is_folder


def copy_file(source: str, target: str, *, temporary_folder: str) -> bool:
    """Give a file that is never written to again a second name, replacing any file there.

    Args:
        source: the file.
        target: the second name.
        temporary_folder: a folder on the target's file system.

    Returns:
        Whether the second name is a hard link. Else it is a copy, made by the store if possible.
    """
    files = file_system_of(target)
    if files is file_system_of(source):
        is_linked = files.duplicate(source, target, join(temporary_folder, uuid.uuid4().hex))
        if is_linked is not None:
            return is_linked
    with (
        open_for_reading(source) as stream,
        write_atomically(target, temporary_folder=temporary_folder) as copy,
    ):
        while data := stream.read(_COPIED_BYTES):
            copy.write(data)
    return False


@contextmanager
def write_atomically(
    path: str, *, temporary_folder: str, is_durable: bool = False
) -> Iterator[BinaryIO]:
    """Yield a stream to a temporary file that is renamed when complete, or removed on an error.

    In object stores, where a rename would be a copy, it writes to the final name, since an object
    appears when its stream is closed. It also writes directly to a device or pipe, such as
    `/dev/stdout`. Concurrent writers of one file, such as a retry and a straggler, do not
    disturb each other.

    Args:
        path: the final name.
        temporary_folder: a folder on the same file system.
        is_durable: whether a local file is synced to the disk before the rename.
    """
    files = file_system_of(path)
    if files.appears_whole:
        with retry_transient(path, files.create, path) as stream:
            yield stream
        return
    if _is_device(path):
        with naming_file(path), open(path, "wb") as stream:
            yield stream
        return
    temporary = join(temporary_folder, uuid.uuid4().hex)
    try:
        with naming_file(path), retry_transient(path, files.create, temporary) as stream:
            yield stream
            if is_durable and files is LOCAL:
                stream.flush()
                os.fsync(stream.fileno())
        rename(temporary, path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename = path
        if exists(temporary):
            files.remove(temporary)
        raise


def _is_device(path: str) -> bool:
    """Return whether a local path exists and is neither a file nor a folder."""
    if is_remote(path) or not os.path.exists(path):
        return False
    return stat.S_IFMT(os.stat(path).st_mode) not in (stat.S_IFREG, stat.S_IFDIR)


def write_text(path: str, text: str, *, temporary_folder: str, is_durable: bool = False) -> None:
    """Write a UTF-8 file atomically, and create its folder if needed."""
    data = text.encode()
    make_folder(os.path.dirname(path))
    with write_atomically(path, temporary_folder=temporary_folder, is_durable=is_durable) as stream:
        stream.write(data)
