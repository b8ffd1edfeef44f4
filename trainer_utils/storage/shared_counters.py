"""Share counters between processes of one machine: each has a row, and one process adds them up.

    counters = SharedCounters("stats", 12)     # before the others start
    counters.write([1] * 12)                   # in any process, forked or spawned
    counters.total()                           # the sum of the last rows of all processes

A row survives its process. The kernel appends each new row behind the others, without a lock.
Source: open(2), O_APPEND.
"""

import array
import contextlib
import os
import weakref
from collections.abc import Sequence

from trainer_utils.storage.owned_file import OwnedFile

_ITEM_BYTES = 8


class SharedCounters(OwnedFile):
    """A temporary file of rows of integers, removed with the object in the process that created it.

    Args:
        name: a part of the file's name.
        width: the number of integers in a row.
    """

    def __init__(self, name: str, width: int) -> None:
        super().__init__(name)
        self._width = width
        self._writer, self._descriptor, self._place = 0, -1, 0

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_writer": 0, "_descriptor": -1}

    def write(self, row: Sequence[int]) -> None:
        """Replace this process's row, unless the file is gone or the disk full."""
        data = array.array("q", row).tobytes()
        with contextlib.suppress(OSError):
            self._write(data)

    def _write(self, data: bytes) -> None:
        if self._writer != os.getpid():  # the first call, or a forked process
            self._append(data)
        else:
            os.pwrite(self._descriptor, data, self._place)

    def _append(self, data: bytes) -> None:
        appending = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(appending, data)
            self._place = os.lseek(appending, 0, os.SEEK_CUR) - len(data)
        finally:
            os.close(appending)
        # If a file was opened for appending, Linux ignores the offset of a write.
        self._descriptor = os.open(self.path, os.O_WRONLY)
        weakref.finalize(self, os.close, self._descriptor).atexit = False
        self._writer = os.getpid()

    def total(self) -> list[int]:
        """Return the sums of all rows, or zeros if the file is gone."""
        rows = array.array("q")
        with contextlib.suppress(FileNotFoundError), open(self.path, "rb") as stream:
            data = stream.read()
            rows.frombytes(data[: len(data) // _ITEM_BYTES * _ITEM_BYTES])
        return [sum(rows[place :: self._width]) for place in range(self._width)]
