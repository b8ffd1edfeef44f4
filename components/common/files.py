"""Files, on the local disk through the standard library and elsewhere through tf.io.gfile.

    for file in list_files("photos/"):
        data = read_bytes(join("photos/", file.path))

Local files do not go through gfile because opening one there costs several times as much.
"""

import dataclasses
import errno
import os
import posixpath
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from trainer_utils.format.texts import text_of

__all__ = [
    "FileRefusedError",
    "InputFile",
    "display_path",
    "exists",
    "file_size",
    "find_file",
    "is_folder",
    "is_remote",
    "join",
    "list_files",
    "list_names",
    "make_folder",
    "open_for_reading",
    "os_errors",
    "problem_of",
    "read_bytes",
    "read_bytes_of_size",
    "read_text",
    "remove_file",
    "remove_tree",
    "rename",
    "write_atomically",
    "write_text",
]


_HERE = "/proc/self/fd"  # says where an open file lies; Linux alone has it
_MOST_READ = 1 << 30  # bytes at a time: systems read less than 2 GiB


class FileRefusedError(OSError):
    """A file is no longer what was listed; `code` says how, as a reject's does."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, str(self))


@dataclasses.dataclass(frozen=True)
class InputFile:
    """One file under a base folder.

    Args:
        path: relative to the base, with `/`; bytes of the name that are not UTF-8 are surrogates.
        size: in bytes.
        version: changes with every write, even one that keeps size and modification time: the
            change time of a local file, the generation of an object.
        problem: why it cannot be read, as a reject's code and detail; None where it can.
        is_folder: whether it is a folder, which is listed only where it cannot be looked into.
    """

    path: str
    size: int
    version: str
    problem: tuple[str, str] | None = None
    is_folder: bool = False


def problem_of(error: OSError) -> tuple[str, str]:
    """Why a file that was listed cannot be read, as a reject's code and detail."""
    if isinstance(error, FileRefusedError):
        return error.code, str(error)
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return "VANISHED", "listed, but gone when it was to be read"
    return "UNREADABLE", error.strerror or str(error)


def is_remote(path: str) -> bool:
    """Whether a path is a url, such as `gs://bucket/folder`."""
    return "://" in path


def join(base: str, path: str) -> str:
    """`path` under `base`; `path` itself where it is whole, an absolute one or a url."""
    if is_remote(path):
        return path
    return posixpath.join(base, path) if is_remote(base) else os.path.join(base, path)


def display_path(path: str) -> str:
    """A path as text that any file or terminal can hold: bytes that are not UTF-8 are escaped."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def exists(path: str) -> bool:
    """Whether there is a file or folder."""
    return bool(_gfile().exists(path)) if is_remote(path) else os.path.exists(path)


def is_folder(path: str) -> bool:
    """Whether there is a folder."""
    return bool(_gfile().isdir(path)) if is_remote(path) else os.path.isdir(path)


def list_names(folder: str) -> list[str]:
    """What is in a folder, without what is below its folders."""
    if is_remote(folder):
        return [name.rstrip("/") for name in _gfile().listdir(folder)]
    return os.listdir(folder)


def file_size(path: str) -> int:
    """A file's size in bytes."""
    return int(_gfile().stat(path).length) if is_remote(path) else os.path.getsize(path)


def make_folder(path: str) -> None:
    """Makes a folder and those above it; one that is there already stays as it is."""
    if is_remote(path):
        _gfile().makedirs(path)
    else:
        os.makedirs(path, exist_ok=True)


def remove_file(path: str) -> None:
    """Removes a file."""
    if is_remote(path):
        _gfile().remove(path)
    else:
        os.remove(path)


def remove_tree(path: str) -> None:
    """Removes a folder and what is in it, if it is there."""
    if not is_remote(path):
        shutil.rmtree(path, ignore_errors=True)
    elif exists(path):
        _gfile().rmtree(path)


def rename(source: str, target: str) -> None:
    """Gives a file its final name, over whatever has that name."""
    if is_remote(target):
        _gfile().rename(source, target, overwrite=True)
    else:
        os.replace(source, target)


def open_for_reading(path: str, *, root: str | None = None) -> BinaryIO:
    """A file's bytes as an unbuffered stream: callers read in large blocks.

    Args:
        path: of a regular file; nothing else is waited for.
        root: the real path of the folder that the file must lie in, wherever links lead.

    Raises:
        FileRefusedError: it is no regular file, or lies elsewhere.
        OSError: it cannot be opened.
    """
    if is_remote(path):
        return cast(BinaryIO, _gfile().GFile(path, "rb"))
    return open(_open_regular(path, root)[0], "rb", buffering=0)  # type: ignore[return-value]


def _open_regular(path: str, root: str | None) -> tuple[int, int]:
    """The descriptor of a regular file and its size in bytes. Opening never waits, as for pipes."""
    flags = os.O_RDONLY | os.O_NONBLOCK | (os.O_NOFOLLOW if root is not None else 0)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a device that is not there
            raise FileRefusedError("NOT_A_FILE", "no regular file") from error
        if root is None or error.errno != errno.ELOOP:
            raise
        # A link: looked at before it is opened, since opening alone may do something to a device.
        target = os.path.realpath(path)
        _check_inside(target, root)
        descriptor = os.open(target, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            raise FileRefusedError("NOT_A_FILE", "no regular file")
        if root is not None:
            _check_inside(_place_of(descriptor, path), root)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, status.st_size


def _place_of(descriptor: int, path: str) -> str:
    """Where an open file really lies: a folder above it may have become a link."""
    try:
        return os.readlink(f"{_HERE}/{descriptor}")
    except OSError:
        return os.path.realpath(path)


def _check_inside(path: str, root: str) -> None:
    if path != root and not path.startswith(root.rstrip("/") + "/"):
        raise FileRefusedError(
            "OUTSIDE_INPUT_BASE", "a symbolic link that leads out of the input base"
        )


@contextmanager
def os_errors(path: str) -> Iterator[None]:
    """Turns what tf.io.gfile raises for a url into the errors of local files."""
    if not is_remote(path):
        yield
        return
    import tensorflow as tf

    try:
        yield
    except tf.errors.NotFoundError as error:
        raise FileNotFoundError(path) from error
    except tf.errors.OpError as error:
        raise OSError(error.message) from error


def read_bytes(path: str, *, root: str | None = None) -> bytes:
    """A whole file; `root` and errors are those of `open_for_reading`."""
    with open_for_reading(path, root=root) as stream:
        return stream.read()


def read_bytes_of_size(path: str, size: int, *, root: str | None = None) -> bytes:
    """A whole file that was listed with `size` bytes; one that has become empty as well.

    It takes five system calls, fewer than `open` and `read` take; with threads, each of them is a
    turn at the interpreter's lock.

    Args:
        path: of the file.
        size: in bytes, of which no more than one too many is read.
        root: as of `open_for_reading`.

    Raises:
        FileRefusedError: CHANGED_FILE: it has another size now; or as `open_for_reading`.
        OSError: it cannot be read.
    """
    if is_remote(path):
        with open_for_reading(path) as stream:
            data = stream.read(size + 1)
        found = len(data)
    else:
        descriptor, found = _open_regular(path, root)
        try:
            data = _read_up_to(descriptor, size + 1) if found == size else b""
        finally:
            os.close(descriptor)
    if found and (found, len(data)) != (size, size):
        got = found if found != size else len(data)
        raise FileRefusedError("CHANGED_FILE", f"expected {size} bytes as it was listed, got {got}")
    return data


def _read_up_to(descriptor: int, most: int) -> bytes:
    data = os.read(descriptor, min(most, _MOST_READ))
    while data and len(data) < most - 1 and (more := os.read(descriptor, most - len(data))):
        data += more
    return data


def read_text(path: str) -> str:
    """A whole UTF-8 file.

    Raises:
        DatasetError: it is not UTF-8; the message names it and the byte.
    """
    return text_of(read_bytes(path), path=path)


class _BytesOnly:
    """A gfile stream, which takes bytes alone, for writers of any buffer."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, data: Any) -> None:
        self._stream.write(data if isinstance(data, bytes) else bytes(data))


@contextmanager
def write_atomically(
    path: str, *, temporary_folder: str, is_durable: bool = False
) -> Iterator[BinaryIO]:
    """A stream to a temporary file that gets its name once all is written, or is removed.

    Concurrent writers of one file, such as a retry beside a straggler, do not disturb each other.

    Args:
        path: of the file.
        temporary_folder: on the same file system.
        is_durable: whether all is on the disk before the file gets its name.
    """
    temporary = join(temporary_folder, uuid.uuid4().hex)
    try:
        stream: Any = (
            _gfile().GFile(temporary, "wb") if is_remote(temporary) else open(temporary, "wb")  # noqa: SIM115
        )
        with stream:
            yield cast(BinaryIO, _BytesOnly(stream)) if is_remote(temporary) else stream
            if is_durable and not is_remote(temporary):
                stream.flush()
                os.fsync(stream.fileno())
        rename(temporary, path)
    except BaseException:
        if exists(temporary):
            remove_file(temporary)
        raise


def write_text(path: str, text: str, *, temporary_folder: str, is_durable: bool = False) -> None:
    """A whole UTF-8 file, and the folder it is in; a reader sees all of it or none."""
    data = text.encode()
    make_folder(os.path.dirname(path))
    with write_atomically(path, temporary_folder=temporary_folder, is_durable=is_durable) as stream:
        stream.write(data)


def list_files(base: str) -> list[InputFile]:
    """Every file under a folder, however deep, sorted by path. Reads no file.

    A link to a file inside `base` counts as that file; one that leads out, a linked folder,
    whatever is no regular file and a folder that cannot be looked into are listed with their
    `problem`.

    Raises:
        OSError: `base` itself cannot be looked into.
    """
    if base.startswith("gs://"):
        files = _list_objects(base)
    elif is_remote(base):
        files = _list_with_gfile(base)
    else:
        files = _list_local(base)
    return sorted(files, key=lambda file: os.fsencode(file.path))


def find_file(base: str, name: str) -> InputFile:
    """One file of a folder, as `list_files` lists it.

    Raises:
        FileNotFoundError: it is not there.
        OSError: the folder cannot be looked into.
    """
    if is_remote(base):
        status = _gfile().stat(join(base, name))
        return InputFile(name, status.length, str(status.mtime_nsec))
    with os.scandir(base) as entries:
        for entry in entries:
            if entry.name == name:
                return _local_file(entry, name, os.path.realpath(base))
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.path.join(base, name))


def _list_local(base: str) -> Iterator[InputFile]:
    root = os.path.realpath(base)
    folders = [""]
    while folders:
        folder = folders.pop()
        entries: list[os.DirEntry[str]] = []
        try:
            with os.scandir(os.path.join(base, folder)) as found:
                entries.extend(found)
        except OSError as error:
            if not folder:
                raise
            code, detail = problem_of(error)
            yield InputFile(folder, 0, "", (code, f"a folder: {detail}"), is_folder=True)
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if _is_folder_itself(entry):
                folders.append(path)
            else:
                yield _local_file(entry, path, root)


def _is_folder_itself(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:  # of systems that list names without kinds
        return False


def _local_file(entry: os.DirEntry[str], path: str, root: str) -> InputFile:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:  # gone since, or in a folder that shows names alone
        return InputFile(path, 0, "", problem_of(error))
    version = f"{status.st_mtime_ns}-{status.st_ctime_ns}"
    if entry.is_symlink():
        target = os.path.realpath(entry.path)
        if os.path.commonpath([root, target]) != root:
            problem = ("OUTSIDE_INPUT_BASE", "a symbolic link that leads out of the input base")
            return InputFile(path, 0, version, problem)
        try:
            status = entry.stat()
        except OSError as error:
            return InputFile(path, 0, version, ("UNREADABLE", error.strerror or str(error)))
        version += f"-{status.st_mtime_ns}-{status.st_ctime_ns}"
    if not stat.S_ISREG(status.st_mode):
        what = "a linked folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
        return InputFile(path, 0, version, ("NOT_A_FILE", what))
    return InputFile(path, status.st_size, version)


def _list_objects(base: str) -> Iterator[InputFile]:
    """Lists a bucket's folder with sizes and generations, a thousand objects a request."""
    from google.cloud import storage  # takes seconds; only those who use gs:// pay

    bucket, _, folder = base.removeprefix("gs://").partition("/")
    prefix = f"{folder.rstrip('/')}/" if folder.strip("/") else ""
    client = storage.Client()
    fields = "items(name,size,generation),nextPageToken"
    for blob in client.list_blobs(bucket, prefix=prefix, fields=fields):
        if not blob.name.endswith("/"):  # else a folder's placeholder
            yield InputFile(blob.name.removeprefix(prefix), blob.size, str(blob.generation))


def _list_with_gfile(base: str) -> Iterator[InputFile]:
    gfile = _gfile()
    for folder, _, names in gfile.walk(base):
        for name in names:
            url = posixpath.join(folder, name)
            status = gfile.stat(url)
            path = url.removeprefix(base).lstrip("/")
            yield InputFile(path, status.length, str(status.mtime_nsec))


def _gfile() -> Any:
    import tensorflow as tf  # takes seconds; local files do without

    return tf.io.gfile
