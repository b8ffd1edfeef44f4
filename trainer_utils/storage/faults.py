"""Whose fault an error is: a file's, which may be rejected, or the machine's, which is tried again.

data = persist(path, read_bytes, path)     # a MachineError where it fails each time
"""

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from trainer_utils.format.errors import DatasetError

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

_PAUSES = (0.05, 0.2, 0.8)  # seconds before each further attempt
# What a file itself is to blame for. All else, from a full table of files to a disk that fails, is
# the machine's, and may be over in a moment.
_OF_THE_FILE = {
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES),
    *(errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP, errno.ENXIO),
    *(errno.EEXIST, errno.ENOTEMPTY),
}


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
        self, message: str = "", *, path: str | None = None, errno: int | None = None
    ) -> None:
        DatasetError.__init__(self, message, path=path)
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


def persist(
    path: str, call: Callable[_Given, _Result], *args: _Given.args, **more: _Given.kwargs
) -> _Result:
    """What a call gives; where the machine fails, it is made again, after pauses.

    Raises:
        MachineError: it fails each time; the message names `path` and what is wrong.
        Exception: what else the call raises.
    """
    for pause in (*_PAUSES, None):
        try:
            return call(*args, **more)
        except (OSError, MemoryError) as error:
            if not is_fault(error) or isinstance(error, (MachineError, PermissionError)):
                raise
            if pause is None:
                raise _machine_error(path, error) from error
        time.sleep(pause)
    raise AssertionError("unreachable")


def _machine_error(path: str, error: OSError | MemoryError) -> MachineError:
    if isinstance(error, MachineError):
        return error
    number = errno.ENOMEM if isinstance(error, MemoryError) else error.errno
    if number is None:  # of a store, and named
        return MachineError(str(error), path=path)
    said = getattr(error, "strerror", None) or os.strerror(number)
    name = errno.errorcode.get(number, number)
    return MachineError(
        f"{path!r}: expected the system to serve it, got {name}: {said}. It is not the file's "
        "fault, and nothing was rejected for it: mend the disk, the network or the limit, and run "
        "it again.",
        path=path,
        errno=number,
    )


def changed_size(expected: int, found: int) -> FileRefusedError:
    """Of a file that was listed with another size."""
    detail = f"expected {expected} bytes as it was listed, got {found}"
    return FileRefusedError("CHANGED_FILE", detail)


def problem_of(error: OSError, path: str) -> tuple[str, str]:
    """Why a file that was listed cannot be read, as a reject's code and detail; a MachineError
    where the file is not to blame."""
    if is_fault(error):
        raise _machine_error(path, error) from error
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
