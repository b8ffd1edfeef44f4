"""Paths and urls, what a place where files lie must be able to do, and whose fault an error is: a
file's, which may be rejected, or the machine's, which is tried again.

    data = persist(path, read_bytes, path)     # a MachineError where it fails each time
"""

import errno
import logging
import os
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple, ParamSpec, Protocol, TypeVar

from trainer_utils.format.errors import ConfigError, DatasetError

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
"""The schemes of object stores, and the extra of this distribution that brings each."""

_PAUSES = (0.05, 0.2, 0.8)  # seconds before each further attempt
# Seconds, in a run that writes a dataset: at first, at the most, and in all.
_FIRST_LONG_PAUSE, _LONGEST_PAUSE, _RETRY_SECONDS = 2.0, 30.0, 300.0
# Faults that end by themselves, or once somebody has freed a disk or brought a server up again.
_PASSING = {
    *(errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC),
    *(errno.EDQUOT, errno.ETIMEDOUT, errno.EREMOTEIO, errno.ENOTCONN, errno.EAGAIN, errno.EBUSY),
    *(errno.ECONNRESET, errno.ECONNREFUSED, errno.ECONNABORTED, errno.EPIPE, errno.ENOBUFS),
    *(errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET),
}
# What a file itself is to blame for. All else, from a full table of files to a disk that fails, is
# the machine's, and may be over in a moment.
_OF_THE_FILE = {
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES),
    *(errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP, errno.ENXIO),
    *(errno.EEXIST, errno.ENOTEMPTY),
}


def is_remote(path: str) -> bool:
    """Whether a path is a url, such as `gs://bucket/folder`."""
    return "://" in path


def local_path(uri: str) -> str:
    """Return the path that a `file://` URI names; any other string as it is.

    `Path.as_uri()` writes `%20` for a space. A name that is there with its `%` is meant itself,
    since many programs put `file://` before a path and encode nothing. Source: RFC 8089.
    """
    scheme, _, path = uri.partition("://")
    if scheme.lower() != "file":
        return uri
    path = path.removeprefix("localhost")
    decoded = urllib.parse.unquote(path, errors="surrogateescape")
    if decoded != path and os.path.lexists(path) and not os.path.lexists(decoded):
        return path
    return decoded


def is_object_store(path: str) -> bool:
    """Whether a path is a url of an object store, which can be written to from anywhere."""
    return is_remote(path) and path.partition("://")[0] in OBJECT_SCHEMES


def join(base: str, path: str) -> str:
    """`path` under `base`; `path` itself where it is whole, an absolute one or a url."""
    if not base or is_remote(path) or path.startswith("/"):
        return path
    if base.startswith("file://"):
        path = urllib.parse.quote(path, errors="surrogateescape")
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


class FileRefusedError(OSError):
    """A file is no longer what was listed; `code` says how, as a reject's does."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.code, str(self))


class MachineError(OSError, DatasetError):
    """The machine, the network or a store failed, and did so again: no input is to blame for it.

    `errno` is the system's number of what was wrong, where it has one.
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


# An ImportError is that of a library that cannot be loaded, for want of memory as well.
_OF_THE_MACHINE = (MemoryError, ImportError, MachineError, TimeoutError, ConnectionError)
# Of an OSError without a number: Pillow's; cffi's and soundfile's of a library that does not load.
_OF_LIBRARIES = ("out of memory", "cannot load library", "sndfile library not found")
_CV2_NO_MEMORY = -4  # cv::Error::StsNoMem, of an error that is no MemoryError


def is_fault(error: BaseException) -> bool:
    """Whether an error is the machine's, so that no input may be rejected for it."""
    is_of_cv2 = type(error).__module__ == "cv2" and getattr(error, "code", None) == _CV2_NO_MEMORY
    if is_of_cv2 or isinstance(error, _OF_THE_MACHINE):
        return True
    if not isinstance(error, OSError):
        return False
    if error.errno is None:  # a store's, of the credentials; or a library's
        is_of_library = type(error) is OSError and str(error).startswith(_OF_LIBRARIES)
        return is_of_library or isinstance(error, PermissionError)
    return error.errno not in _OF_THE_FILE


RETRY_VARIABLE = "TFX_SHARDS_RETRY_SECONDS"
"""The environment variable that bounds how long a run that writes a dataset retries a call."""


@contextmanager
def retrying_for_minutes() -> Iterator[None]:
    """Retry calls for minutes and not for a second, in all threads, until the block ends.

    For runs whose work is dear: a conversion of hours must not end by an outage of a minute.
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
    """Return how long calls are retried, at most."""
    try:
        return float(os.environ.get(RETRY_VARIABLE) or _RETRY_SECONDS)
    except ValueError as error:
        given = os.environ[RETRY_VARIABLE]
        raise ConfigError.of(RETRY_VARIABLE, given, allowed="a number of seconds") from error


def _is_passing(error: BaseException) -> bool:
    """Return whether an error of the machine may be over in minutes."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _PASSING
    return isinstance(error, (MachineError, TimeoutError, ConnectionError))


def persist(
    path: str, call: Callable[_Given, _Result], *args: _Given.args, **more: _Given.kwargs
) -> _Result:
    """Return the result of a call; if the machine fails, the call is repeated after pauses.

    Raises:
        MachineError: it fails each time; the message names `path` and what is wrong.
        Exception: what else the call raises.
    """
    pauses: Iterator[float] | None = None
    while True:
        try:
            return call(*args, **more)
        except (OSError, MemoryError) as error:
            if not is_fault(error) or isinstance(error, (MachineError, PermissionError)):
                raise
            pauses = pauses or retry_pauses(path, error)
            if (pause := next(pauses, None)) is None:
                raise machine_error(path, error) from error
        time.sleep(pause)


def machine_error(
    path: str, error: OSError | MemoryError, *, offset: int | None = None
) -> MachineError:
    """Return the error of a file at which the machine failed, at an offset where one is known."""
    if isinstance(error, MachineError):
        return error
    number = errno.ENOMEM if isinstance(error, MemoryError) else error.errno
    if number is None:  # of a store, and named
        return MachineError(str(error), path=path)
    said = getattr(error, "strerror", None) or os.strerror(number)
    name = errno.errorcode.get(number, number)
    place = "" if offset is None else f" (byte {offset})"
    return MachineError(
        f"{path!r}: expected the system to serve it, got {name}: {said}{place}. It is not the "
        "file's fault, and nothing was rejected for it: fix the disk, the network or the limit, "
        "and run it again.",
        path=path,
        errno=number,
        offset=offset,
    )


def changed_size(expected: int, found: int) -> FileRefusedError:
    """Of a file that was listed with another size."""
    detail = f"expected {expected} bytes as it was listed, got {found}"
    return FileRefusedError("CHANGED_FILE", detail)


def problem_of(error: OSError, path: str) -> tuple[str, str]:
    """Why a file that was listed cannot be read, as a reject's code and detail; a MachineError
    where the file is not to blame."""
    if is_fault(error):
        raise machine_error(path, error) from error
    if isinstance(error, FileRefusedError):
        return error.code, str(error)
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return "VANISHED", "listed, but gone when it was to be read"
    return "UNREADABLE", error.strerror or str(error)


@contextmanager
def naming_file(path: str) -> Iterator[None]:
    """Gives errors of the system the file's name where they lack it, as those of reads do."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = path
        raise


OUTSIDE = ("OUTSIDE_INPUT_BASE", "a symbolic link that leads out of the input base")
"""The problem of a link that is not followed out of the folder that is listed."""
LINKED_FOLDER = ("NOT_A_FILE", "a linked folder")
"""The problem of a link to a folder that is not followed."""
LINK_LOOP = ("LINK_LOOP", "a link to a folder that contains it")
"""The problem of a link that is followed nowhere, since its files are listed already."""


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

    def walk(self, base: str, *, follow_links: bool = False) -> Iterator[InputFile]:
        """Yield every file under a folder, however deep, in no order; buckets have no links."""

    def find(self, base: str, name: str, *, follow_links: bool = False) -> InputFile:
        """Return one file of a folder, as `walk` has it."""
        found = self.info(join(base, name))
        return InputFile(name, found.size or 0, found.version)

    def find_in_folder(self, folder: str, names: Sequence[str]) -> dict[str, InputFile]:
        """Return those of some files of one folder that are there, as `walk` has them, by name."""
        try:
            found = {each.name: each for each in self.list_folder(folder) if not each.is_folder}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        return {
            name: InputFile(name, found[name].size or 0, found[name].version)
            for name in names
            if name in found
        }

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
