"""Files by path or url, wherever they lie, without TensorFlow.

for file in list_files("gs://bucket/photos"):
    data = read_bytes(join("gs://bucket/photos", file.path))

All of it tries again where the machine fails, and then says so by a `MachineError`: any other
`OSError` is of the file itself.
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

from trainer_utils.format.errors import ConfigError
from trainer_utils.format.json_text import text_of
from trainer_utils.storage.file_system import (
    OBJECT_SCHEMES,
    FileRefusedError,
    FileSystem,
    FolderEntry,
    InputFile,
    MachineError,
    display_path,
    encode_path,
    is_fault,
    is_object_store,
    is_remote,
    join,
    local_path,
    machine_error,
    naming_file,
    persist,
    problem_of,
    retry_pauses,
    retrying_for_minutes,
)
from trainer_utils.storage.local import LOCAL, begin_sync, sync_files, sync_folder

_COPIED_BYTES = 8 << 20  # at a time
_LISTED_AT_ONCE = 32  # folders of a store


def file_system_of(path: str) -> FileSystem:
    """Where a path or url leads; a ConfigError of a scheme says what to install."""
    if not is_remote(path):
        return LOCAL
    if OBJECT_SCHEMES.get(path.partition("://")[0]) in ("s3", "azure"):
        from trainer_utils.storage.object_stores import OBJECT_STORES

        return OBJECT_STORES
    from trainer_utils.storage.remote import REMOTE  # with fsspec: local files do without

    return REMOTE


def _info(path: str) -> FolderEntry:
    return persist(path, file_system_of(path).info, path)


def _info_if_there(path: str) -> FolderEntry | None:
    try:
        return _info(path)
    except (OSError, ValueError) as error:  # the latter of a NUL in the path
        if is_fault(error) or isinstance(error, ConfigError):
            raise
    return None


def exists(path: str) -> bool:
    """Whether there is a file or folder."""
    return _info_if_there(path) is not None


def is_folder(path: str) -> bool:
    """Whether there is a folder."""
    found = _info_if_there(path)
    return found is not None and found.is_folder


def file_size(path: str) -> int:
    """A file's size in bytes."""
    size = _info(path).size
    if size is None:
        raise FileNotFoundError(errno.ENOENT, "a folder, and no file", path)
    return size


def file_version(path: str) -> str:
    """What changes when a file does, even if it keeps its size."""
    return _info(path).version


def modification_time(path: str) -> int:
    """Return when a local file was last written to, in nanoseconds; 0 for one in a store."""
    return 0 if is_remote(path) else persist(path, os.stat, path).st_mtime_ns


def list_folder(folder: str) -> list[FolderEntry]:
    """What is in a folder with sizes, without what is below its folders, in no order."""
    return persist(folder, file_system_of(folder).list_folder, folder)


def list_names(folder: str, *, may_lack: bool = False) -> list[str]:
    """The names that `list_folder` gives; none where there `may_lack` such a folder."""
    try:
        return [entry.name for entry in list_folder(folder)]
    except FileNotFoundError:
        if not may_lack:
            raise
        return []


def walk_files(base: str, *, follow_links: bool = False) -> Iterator[InputFile]:
    """Yield every file under a folder, however deep, in no order and one at a time. Reads no file.

    A link to a file inside `base` counts as that file. A link that leads out, a linked folder,
    anything that is not a regular file and a folder that cannot be listed are yielded with their
    `problem`.

    Args:
        base: a folder, or the url of one.
        follow_links: whether links to files and folders are read wherever they lead. A link to a
            folder that contains it is yielded with the problem `LINK_LOOP`, and not followed.
    """
    return file_system_of(base).walk(base, follow_links=follow_links)


def list_files(base: str) -> list[InputFile]:
    """What `walk_files` gives, sorted by path: of folders that are known to be small."""
    return sorted(walk_files(base), key=lambda file: encode_path(file.path))


def find_file(base: str, name: str, *, follow_links: bool = False) -> InputFile:
    """Return one file of a folder as `walk_files` lists it, or raise a FileNotFoundError."""
    return persist(base, file_system_of(base).find, base, name, follow_links=follow_links)


def find_files(base: str, paths: Sequence[str]) -> dict[str, InputFile]:
    """Return those of many files below a folder that are there, as `walk_files` has them.

    Each folder is listed by itself, those of a store at once, and no file is asked for alone.
    """
    by_folder: dict[str, list[str]] = collections.defaultdict(list)
    for path in dict.fromkeys(paths):
        folder, name = posixpath.split(path)
        by_folder[folder].append(name)

    def look(folder: str) -> dict[str, InputFile]:
        whole = join(base, folder) if folder else base
        files = file_system_of(whole)
        found = persist(whole, files.find_in_folder, whole, by_folder[folder])
        return {join(folder, n) if folder else n: file for n, file in found.items()}

    with concurrent.futures.ThreadPoolExecutor(_LISTED_AT_ONCE if is_remote(base) else 1) as pool:
        looked_up: dict[str, InputFile] = {}
        for found in pool.map(look, by_folder):
            looked_up |= {path: file._replace(path=path) for path, file in found.items()}
    return looked_up


def open_for_reading(path: str, *, root: str | None = None) -> BinaryIO:
    """A file's bytes as a stream; a local one is unbuffered, since callers read in large blocks.

    Args:
        path: of a regular file; nothing else is waited for.
        root: the real path of the folder that a local file must lie in, wherever links lead.

    Raises:
        FileRefusedError: it is no regular file, or lies elsewhere.
        OSError: it cannot be opened.
    """
    return persist(path, file_system_of(path).open, path, root=root)


def read_bytes(path: str) -> bytes:
    """A whole file; errors as of `open_for_reading`."""
    return persist(path, file_system_of(path).read, path)


def read_bytes_of_size(path: str, size: int, *, root: str | None = None) -> bytes:
    """A whole file that was listed with `size` bytes; one that has become empty as well.

    No more than a byte too many is read; `root` is that of `open_for_reading`.

    Raises:
        FileRefusedError: CHANGED_FILE: it has another size now; or as `open_for_reading`.
        OSError: it cannot be read.
    """
    return persist(path, _read_of_size, path, size, root)


def _read_of_size(path: str, size: int, root: str | None) -> bytes:
    files = file_system_of(path)
    try:
        return files.read_of_size(path, size, root=root)
    except FileRefusedError as error:
        if not is_remote(path) or files.info(path).size != size:
            raise
        raise ConnectionError(f"{path!r}: an answer was cut off: {error}") from error


def read_range(path: str, *, start: int, stop: int) -> bytes:
    """The bytes `[start, stop)` of a file; fewer where it is shorter."""
    return persist(path, file_system_of(path).read, path, start=start, stop=stop)


def read_text(path: str) -> str:
    """A whole UTF-8 file; of any other a DatasetError names the byte."""
    return text_of(read_bytes(path), path=path)


def make_folder(path: str) -> None:
    """Makes a folder and those above it; one that is there already stays as it is."""
    persist(path, file_system_of(path).make_folder, path)


def remove_file(path: str) -> None:
    """Removes a file."""
    files, attempts = file_system_of(path), itertools.count(1)

    def remove() -> None:
        attempt = next(attempts)
        try:
            files.remove(path)
        except FileNotFoundError:
            if attempt == 1:  # else an earlier attempt removed it, and its answer was lost
                raise

    persist(path, remove)


def remove_tree(path: str) -> None:
    """Removes a folder and what is in it, if it is there."""
    file_system_of(path).remove_tree(path)


def rename(source: str, target: str) -> None:
    """Give a file or a folder its final name, over whatever has that name.

    Where an attempt fails and the next finds that the source is gone and the target is what the
    source was, it was renamed, and the answer was lost, as on NFS.
    """
    files, attempts = file_system_of(target), itertools.count(1)
    before = persist(source, _identity, files, source)

    def move() -> None:
        attempt = next(attempts)
        try:
            files.rename(source, target)
        except FileNotFoundError:
            if attempt == 1 or before is None or _identity(files, target) != before:
                raise

    persist(target, move)


def _identity(files: FileSystem, path: str) -> tuple[object, ...] | None:
    """Return what a file keeps when it is renamed; None if there is no such file."""
    try:
        if files is LOCAL:
            found = os.lstat(path)
            return found.st_dev, found.st_ino
        entry = files.info(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return entry.size, entry.is_folder


def copy_file(source: str, target: str, *, temporary_folder: str) -> bool:
    """Puts a file that is never written to again under another name too, whatever had that: as a
    hard link (then True), else as a copy that the store makes. `temporary_folder` is on the
    target's system."""
    files = file_system_of(target)
    if files is file_system_of(source):
        made = files.duplicate(source, target, join(temporary_folder, uuid.uuid4().hex))
        if made is not None:
            return made
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
    """A stream to a temporary file that gets its name once all is written (and, where `is_durable`,
    on the disk), or is removed. `temporary_folder` is on the same file system.

    In object stores, where a rename would be a copy, it is the file's own, which is not there until
    it is closed; a device or pipe, such as `/dev/stdout`, is written to. Writers of one file at the
    same time, such as a retry beside a straggler, do not disturb each other.
    """
    files = file_system_of(path)
    if files.appears_whole:
        with persist(path, files.create, path) as stream:
            yield stream
        return
    if _is_device(path):
        with naming_file(path), open(path, "wb") as stream:
            yield stream
        return
    temporary = join(temporary_folder, uuid.uuid4().hex)
    try:
        with naming_file(path), persist(path, files.create, temporary) as stream:
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
    """Whether there is something local that is neither a file nor a folder."""
    if is_remote(path) or not os.path.exists(path):
        return False
    return stat.S_IFMT(os.stat(path).st_mode) not in (stat.S_IFREG, stat.S_IFDIR)


def write_text(path: str, text: str, *, temporary_folder: str, is_durable: bool = False) -> None:
    """A whole UTF-8 file, and the folder it is in; a reader sees all of it or none."""
    data = text.encode()
    make_folder(os.path.dirname(path))
    with write_atomically(path, temporary_folder=temporary_folder, is_durable=is_durable) as stream:
        stream.write(data)
