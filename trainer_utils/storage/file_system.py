"""Define paths and urls, the interface of file systems, and which errors to retry.

An error is either the fault of a file, which may be rejected, or of the machine, which is retried.

    data = retry_transient(path, read_bytes, path)     # raises MachineError if every attempt fails
"""

import errno
import itertools
import logging
import os
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple, ParamSpec, Protocol, TypeVar

from trainer_utils.core.errors import ConfigError, DatasetError

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_patient_blocks = 0
_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

OBJECT_SCHEMES = {
    **dict.fromkeys(("s3", "s3a", "minio"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gcs"),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), "azure"),
}
"""The schemes of object stores, and the extra of this distribution that supports each."""

_PAUSES = (0.05, 0.2, 0.8)  # seconds before each retry
# Seconds, in a run that writes a dataset: the first pause, the longest one, and the total.
_FIRST_LONG_PAUSE, _LONGEST_PAUSE, _RETRY_SECONDS = 2.0, 30.0, 300.0
# Faults that may end by themselves, or after somebody frees disk space or restarts a server.
_PASSING = {
    *(errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC),
    *(errno.EDQUOT, errno.ETIMEDOUT, errno.EREMOTEIO, errno.ENOTCONN, errno.EAGAIN, errno.EBUSY),
    *(errno.ECONNRESET, errno.ECONNREFUSED, errno.ECONNABORTED, errno.EPIPE, errno.ENOBUFS),
    *(errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET),
}
# Errors of a file itself. All others, from too many open files to a failing disk, are errors of the
# machine and may pass.
_OF_THE_FILE = {
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES),
    *(errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP, errno.ENXIO),
    *(errno.EEXIST, errno.ENOTEMPTY),
}


def is_remote(path: str) -> bool:
    """Return whether a path is a url, such as `gs://bucket/folder`."""
    return "://" in path


def local_path(uri: str | os.PathLike[str]) -> str:
    """Return the path of a `file://` URI; any other uri or path unchanged, as a string.

    `Path.as_uri()` writes `%20` for a space. A path that exists literally with its `%` is returned
    undecoded, since many programs put `file://` before a path without encoding. Source: RFC 8089.
    """
    uri = os.fspath(uri)
    scheme, _, path = uri.partition("://")
    if scheme.lower() != "file":
        return uri
    path = path.removeprefix("localhost")
    decoded = urllib.parse.unquote(path, errors="surrogateescape")
    if decoded != path and os.path.lexists(path) and not os.path.lexists(decoded):
        return path
    return decoded


def path_of(name: str, value: object) -> str:
    """Return a path or url as a string, given one or an `os.PathLike`; decode a `file://` URI.

    Args:
        name: the name of the argument, for the message.
        value: the argument.

    Raises:
        ConfigError: it is anything else.
    """
    path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise ConfigError.of(name, value, allowed="a path or a url")
    return local_path(path)


def is_object_store(path: str) -> bool:
    """Return whether a path is a url of an object store, which is writable from any machine."""
    return is_remote(path) and path.partition("://")[0] in OBJECT_SCHEMES


def join(base: str | os.PathLike[str], path: str) -> str:
    """Join `path` to `base`; return `path` itself if it is absolute or a url."""
    base = os.fspath(base)
    if not base or is_remote(path) or path.startswith("/"):
        return path
    if base.startswith("file://"):
        path = urllib.parse.quote(path, errors="surrogateescape")
    return f"{base}{path}" if base.endswith("/") else f"{base}/{path}"


def encode_path(path: str) -> bytes:
    """Return the original bytes of a path with surrogates for bytes that are not UTF-8."""
    return path.encode("utf-8", "surrogateescape")


def decode_path(path: bytes) -> str:
    """Decode the bytes of a path, the inverse of `encode_path`."""
    return path.decode("utf-8", "surrogateescape")


def display_path(path: str) -> str:
    """Return a path for display, with escapes for bytes that are not UTF-8."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class FileRefusedError(OSError):
    """A file has changed since it was listed; `code` is that of a reject."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.code, str(self))


class MachineError(OSError, DatasetError):
    """The machine, the network or a store failed repeatedly; no input is the cause.

    `errno` is the error number of the system, if there is one.
    """

    def __init__(
        self,
        message: str = "",
        *,
        path: str | None = None,
        errno: int | None = None,
        offset: int | None = None,
    ) -> None:
        DatasetError.__init__(self, message, path=path, offset=offset)
        self.errno = errno

    __str__ = DatasetError.__str__

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, {**vars(self), "errno": self.errno}


# An ImportError means that a library cannot be loaded, sometimes for lack of memory.
_OF_THE_MACHINE = (MemoryError, ImportError, MachineError, TimeoutError, ConnectionError)
# OSErrors without a number: of Pillow, and of cffi and soundfile for a missing library.
_OF_LIBRARIES = ("out of memory", "cannot load library", "sndfile library not found")
_CV2_NO_MEMORY = -4  # cv::Error::StsNoMem, raised by OpenCV instead of MemoryError


def is_host_error(error: BaseException) -> bool:
    """Return whether an error is the machine's fault, so that no input may be rejected for it."""
    is_of_cv2 = type(error).__module__ == "cv2" and getattr(error, "code", None) == _CV2_NO_MEMORY
    if is_of_cv2 or isinstance(error, _OF_THE_MACHINE):
        return True
    if not isinstance(error, OSError):
        return False
    if error.errno is None:  # of a store, about credentials; or of a library
        is_of_library = type(error) is OSError and str(error).startswith(_OF_LIBRARIES)
        return is_of_library or isinstance(error, PermissionError)
    return error.errno not in _OF_THE_FILE


RETRY_VARIABLE = "TFX_SHARDS_RETRY_SECONDS"
"""The environment variable that limits the retry time per call in runs that write a dataset."""


@contextmanager
def retrying_for_minutes() -> Iterator[None]:
    """Retry calls for minutes instead of a second, in all threads, until the block ends.

    It is for expensive runs: an outage of a minute must not end a conversion of hours.
    """
    global _patient_blocks
    with _lock:
        _patient_blocks += 1
    try:
        yield
    finally:
        with _lock:
            _patient_blocks -= 1


def retry_pauses(path: str, error: BaseException) -> Iterator[float]:
    """Yield the seconds to wait before each further attempt at a call; log the long ones.

    Args:
        path: the file or folder, for the log.
        error: the error of the first attempt.
    """
    yield from _PAUSES
    end, pause = time.monotonic() + _retry_seconds(), _FIRST_LONG_PAUSE
    while _patient_blocks and _is_passing(error) and time.monotonic() + pause <= end:
        _logger.warning(
            "%r: %s. Trying again in %.0f s, for %.0f s more at most (%s)",
            path,
            getattr(error, "strerror", None) or error,
            pause,
            end - time.monotonic(),
            RETRY_VARIABLE,
        )
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE)


def _retry_seconds() -> float:
    """Return the maximum time in seconds to retry a call."""
    try:
        return float(os.environ.get(RETRY_VARIABLE) or _RETRY_SECONDS)
    except ValueError as error:
        text = os.environ[RETRY_VARIABLE]
        raise ConfigError.of(RETRY_VARIABLE, text, allowed="a number of seconds") from error


def _is_passing(error: BaseException) -> bool:
    """Return whether an error of the machine may pass within minutes."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _PASSING
    return isinstance(error, (MachineError, TimeoutError, ConnectionError))


def retry_transient(
    path: str, call: Callable[_Given, _Result], *args: _Given.args, **more: _Given.kwargs
) -> _Result:
    """Return the result of a call; retry it after pauses if the machine fails.

    Args:
        path: the file or folder, for messages.
        call: the function to call.
        args: its positional arguments.
        more: its keyword arguments.

    Raises:
        MachineError: every attempt failed; the message has `path` and the cause.
        Exception: any other error of the call.
    """
    pauses: Iterator[float] | None = None
    while True:
        try:
            return call(*args, **more)
        except (OSError, MemoryError) as error:
            if not is_host_error(error) or isinstance(error, (MachineError, PermissionError)):
                raise
            pauses = pauses or retry_pauses(path, error)
            if (pause := next(pauses, None)) is None:
                raise machine_error(path, error) from error
        time.sleep(pause)


def machine_error(
    path: str, error: OSError | MemoryError, *, offset: int | None = None
) -> MachineError:
    """Return the MachineError for a file, with the offset if it is known."""
    if isinstance(error, MachineError):
        return error
    number = errno.ENOMEM if isinstance(error, MemoryError) else error.errno
    if number is None:  # an error of a store, with its name in the message
        return MachineError(str(error), path=path)
    said = getattr(error, "strerror", None) or os.strerror(number)
    name = errno.errorcode.get(number, number)
    place = "" if offset is None else f" (byte {offset})"
    return MachineError(
        f"{path!r}: the system failed with {name}: {said}{place}. The file is not at fault and was "
        "not rejected. Fix the disk, the network or the limit, and run it again.",
        path=path,
        errno=number,
        offset=offset,
    )


def changed_size(expected: int, actual: int) -> FileRefusedError:
    """Return the error for a file that was listed with another size."""
    detail = f"expected {expected} bytes as it was listed, got {actual}"
    return FileRefusedError("CHANGED_FILE", detail)


def raise_host_error(error: OSError, path: str) -> None:
    """Raise a MachineError if the machine or its storage failed, and not the file."""
    if is_host_error(error):
        raise machine_error(path, error) from error


def problem_of(error: OSError, path: str) -> tuple[str, str]:
    """Return the reject code and detail for a listed file that cannot be read.

    Raises:
        MachineError: the file is not the cause.
    """
    raise_host_error(error, path)
    if isinstance(error, FileRefusedError):
        return error.code, str(error)
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return "VANISHED", "listed, but gone when it was to be read"
    return "UNREADABLE", error.strerror or str(error)


@contextmanager
def naming_file(path: str) -> Iterator[None]:
    """Add the file's name to system errors that lack it, such as errors of reads."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = path
        raise


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
    sizes: list[int]
    modified: list[int]
    changed: list[int]
    others: list[InputFile]

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
            yield FileGroup("", [], [], [], [], others)

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
