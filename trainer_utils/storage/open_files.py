"""Read bytes of open files into arrays: whole ranges, or many short ones by one system call.

    read_at(descriptor, view, begin, path=path)          # loops over short reads
    mapping = FileMapping(descriptor, size)
    copy_mapped(mapping.address + begins, lengths, out)  # bytes copied before a page is unreadable

A page of a mapped file that cannot be read, because the disk fails or the file was cut short, ends
a process that looks at it, by SIGBUS. The kernel, asked to copy the same bytes, returns EFAULT.
So nothing here looks at mapped memory itself. Source: process_vm_readv(2).
"""

import ctypes
import functools
import mmap
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils.storage.file_system import MachineError, machine_error, persist

_MOST_RANGES = 1024  # UIO_MAXIOV: ranges that one call takes
_MOST_READ = 1 << 30  # bytes that one call is asked for: systems read less than 2 GiB

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]


def read_at(descriptor: int, view: Bytes, begin: int, *, path: str) -> int:
    """Fill an array with the bytes of a file from an offset; `path` is for messages.

    Returns:
        How many bytes were read: fewer than the array has only at the end of the file.

    Raises:
        MachineError: the system fails to read them, with path and offset.
    """
    done = 0
    while done < len(view):
        part = view[done : done + _MOST_READ].data
        try:
            count = persist(path, os.preadv, descriptor, [part], begin + done)
        except MachineError as error:
            cause = error.__cause__
            if not isinstance(cause, OSError):
                raise
            raise machine_error(path, cause, offset=begin + done) from cause
        if not count:
            break
        done += count
    return done


class FileMapping:
    """A file in memory, for `copy_mapped` alone; 0 is the address of an empty one."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.address = 0
        if size:
            self._memory = mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ)
            self.address = int(np.frombuffer(self._memory, np.uint8).ctypes.data)


def copy_mapped(addresses: Positions, lengths: Positions, out: Bytes) -> int:
    """Copy ranges of mapped files end to end into an array.

    Returns:
        How many of the ranges were copied, before the first that cannot be read, or in part.
    """
    call, process = _process_vm_readv(), os.getpid()
    ranges = np.stack([addresses, lengths], axis=1).astype(np.uint64)
    ends = np.cumsum(lengths)
    local = np.zeros((1, 2), np.uint64)
    done = 0
    while done < len(ranges):
        begin = int(ends[done] - lengths[done])
        stop = min(done + _MOST_RANGES, len(ranges))
        local[0] = out.ctypes.data + begin, int(ends[stop - 1]) - begin
        remote = ranges[done:stop]
        count = call(process, local.ctypes.data, 1, remote.ctypes.data, len(remote), 0)
        if count < int(local[0, 1]):
            return int(np.searchsorted(ends, begin + max(count, 0), side="right"))
        done = stop
    return done


@functools.cache
def can_copy_mapped() -> bool:
    """Return whether the system has the call and lets this process make it."""
    if _process_vm_readv() is None:
        return False
    given = np.arange(4, dtype=np.uint8)
    out = np.zeros(4, np.uint8)
    return copy_mapped(np.array([given.ctypes.data]), np.array([4]), out) == 1 and bool(out[3])


@functools.cache
def _process_vm_readv() -> Any:
    try:
        call = ctypes.CDLL(None, use_errno=True).process_vm_readv
    except (OSError, AttributeError):  # not Linux
        return None
    call.restype = ctypes.c_ssize_t
    call.argtypes = (
        *(ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong),
        *(ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong),
    )
    return call
