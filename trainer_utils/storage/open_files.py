"""Read bytes of open files: whole ranges into arrays, or many short ranges by few system calls.

    read_at(descriptor, view, begin, path=path)          # loops over short reads
    mapping = FileMapping(descriptor, size)
    data, done = MappedReader().copy(mapping.address + begins, lengths)

A page of a mapped file may be unreadable because the disk fails or the file was truncated. A
process that accesses such a page is killed by SIGBUS. The kernel returns EFAULT when asked to write
the page to another file. So this module never accesses mapped memory: it writes it to a memory
file, and reads that file. Source: pwritev(2), memfd_create(2).
"""

import collections
import contextlib
import ctypes
import fcntl
import functools
import io
import mmap
import os
import resource
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils.storage.host_errors import MachineError, machine_error
from trainer_utils.storage.retrying import retry_transient

_MAX_RANGES = 1024  # IOV_MAX: the maximum number of ranges per call
_MAX_SPARE = 64 << 20  # bytes of memory that a thread keeps for its next copy
_OTHER_FILES = 4096  # descriptors that are left to other code, with `open_more_files`
_SELECT_LIMIT = 1024  # FD_SETSIZE
_MAX_READ = 1 << 30  # bytes per call: systems read less than 2 GiB

_MAP_FAILED = ctypes.c_void_p(-1).value

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]


def read_at(descriptor: int, view: Bytes, begin: int, *, path: str) -> int:
    """Fill an array with the bytes of a file from an offset; `path` is for messages.

    Returns:
        The number of bytes read, which is less than the size of the array only at the end of the
        file.

    Raises:
        MachineError: the system cannot read them; it has the path and the offset.
    """
    done = 0
    while done < len(view):
        part = view[done : done + _MAX_READ].data
        with _naming_offset(path, begin + done):
            count = retry_transient(path, os.preadv, descriptor, [part], begin + done)
        if not count:
            break
        done += count
    return done


def read_bytes_at(descriptor: int, begin: int, end: int, *, path: str) -> bytes:
    """Return a range of bytes of a file, fewer at its end; raise the errors of `read_at`."""
    with _naming_offset(path, begin):
        data = retry_transient(path, os.pread, descriptor, min(end - begin, _MAX_READ), begin)
    if not data or len(data) == end - begin:
        return data
    rest = np.empty(end - begin - len(data), np.uint8)
    return data + rest[: read_at(descriptor, rest, begin + len(data), path=path)].tobytes()


@contextlib.contextmanager
def _naming_offset(path: str, offset: int) -> Iterator[None]:
    try:
        yield
    except MachineError as error:
        cause = error.__cause__
        if not isinstance(cause, OSError):
            raise
        raise machine_error(path, cause, offset=offset) from cause


class FileMapping:
    """A file mapped into memory, for `MappedReader` only. An empty file has address 0.

    Python's `mmap` keeps a descriptor open, and a process may have 1,024. This mapping needs none.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        self.address = 0
        if size:
            map_file, unmap = _mmap()
            address = map_file(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
            if address in (None, _MAP_FAILED):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
            self.address = int(address)
            weakref.finalize(self, unmap, address, size).atexit = False


class MappedReader:
    """Copies ranges of mapped files, for several threads of one process."""

    def __init__(self) -> None:
        self._spare = collections.deque[_Scratch]()  # one for each thread that is copying

    def copy(self, addresses: Positions, lengths: Positions) -> tuple[bytes, int]:
        """Copy ranges into one bytes object.

        Returns:
            The bytes, and the number of ranges that were copied: fewer than all if a page of the
            next one cannot be read.
        """
        try:
            scratch = self._spare.pop()
        except IndexError:
            scratch = _Scratch()
        data, done = scratch.copy(addresses, lengths)
        if scratch.size <= _MAX_SPARE:
            self._spare.append(scratch)
        return data, done


class _Scratch:
    """A file in memory through which bytes pass."""

    def __init__(self) -> None:
        self._descriptor = os.memfd_create("tfx-shards-read")
        self.size = 1 << 20
        os.ftruncate(self._descriptor, self.size)
        self._memory = mmap.mmap(self._descriptor, self.size)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self._descriptor)  # `os` may be gone as Python ends

    def copy(self, addresses: Positions, lengths: Positions) -> tuple[bytes, int]:
        """Copy ranges of mapped memory; return their bytes, and the number of ranges copied."""
        ends = np.cumsum(lengths)
        total, count = int(ends[-1]) if len(ends) else 0, len(ends)
        if total > self.size:
            self.size = 1 << (total - 1).bit_length()
            os.ftruncate(self._descriptor, self.size)
            self._memory.resize(self.size)
        ranges = np.stack([addresses, lengths], axis=1).astype(np.uint64)
        call, written, done = _pwritev(), 0, 0
        while done < count:
            stop = min(done + _MAX_RANGES, count)
            place = ranges[done:stop].ctypes.data
            written += max(call(self._descriptor, place, stop - done, written), 0)
            if written < ends[stop - 1]:
                whole = int(np.searchsorted(ends, written, side="right"))
                if whole == done:
                    break
                stop, written = whole, int(ends[whole - 1])  # the system wrote a part of the ranges
            done = stop
        return self._memory[: int(ends[done - 1]) if done else 0], done


def open_more_files(count: int) -> bool:
    """Allow this process to have `count` more files open; return False if the system forbids it.

    The soft limit is often 1,024, which a process may raise to the hard limit. Source:
    getrlimit(2).
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _OTHER_FILES
    if hard != resource.RLIM_INFINITY and wanted > hard:
        return False
    if soft != resource.RLIM_INFINITY and wanted > soft:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return False
    return True


def with_high_descriptor(stream: Any) -> io.FileIO:
    """Move an open file to a descriptor above 1,023, and close the given one.

    Other code of the process may use select(2), which takes only smaller numbers.
    """
    with stream:
        return io.FileIO(fcntl.fcntl(stream.fileno(), fcntl.F_DUPFD_CLOEXEC, _SELECT_LIMIT))


@functools.cache
def can_copy_mapped() -> bool:
    """Return whether the system has the calls of `MappedReader`."""
    return hasattr(os, "memfd_create") and _pwritev() is not None


@functools.cache
def _mmap() -> tuple[Any, Any]:
    """Return the system's `mmap` and `munmap`."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (
        *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int),
        *(ctypes.c_int, ctypes.c_int, ctypes.c_int64),
    )
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return library.mmap, library.munmap


@functools.cache
def _pwritev() -> Any:
    try:
        call = ctypes.CDLL(None).pwritev
    except (OSError, AttributeError):
        return None
    call.restype = ctypes.c_ssize_t
    call.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64)
    return call
