"""Tell errors of a file, which may be rejected, from errors of the machine, which are retried.

problem_of(error, "a.jpg")      # ('UNREADABLE', …), or raises a MachineError
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from trainer_utils.core.errors import DatasetError

# Errors of a file itself. All others, from too many open files to a failing disk, are errors of the
# machine and may pass.
_OF_THE_FILE = {
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES),
    *(errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP, errno.ENXIO),
    *(errno.EEXIST, errno.ENOTEMPTY),
}


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
