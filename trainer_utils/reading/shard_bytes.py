"""What a shard's bytes come from: a local file, or what a gzip file holds.

    file = LocalFile(path, stream, is_mapped=True)
    file.check()                  # refuses one that somebody has written to
    file.read(0, 100)

Short records are cut out of files that are mapped into memory: a call of the system for each would
cost more than all else, and give every other thread a turn. Long ones are read to their place.
"""

import contextlib
import io
import mmap
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils.dataset.shards import open_records
from trainer_utils.format import CorruptShardError
from trainer_utils.storage import FileRefusedError

CHANGED = "It was written to since its dataset was opened: open the dataset again."

_BUFFER_BYTES = 1 << 20
_UNPACKED_AT_ONCE = 64 << 10  # so much of a damaged gzip file may be lost before the damage

Bytes = npt.NDArray[np.uint8]


class File:
    """What one shard's bytes come from.

    Attributes:
        size: of the framed records, in bytes.
        memory: all of them, of a local file of short records.
        damage: what is wrong with the file as a whole.
    """

    size = 0
    memory: Any = b""
    damage: CorruptShardError | None = None

    def check(self) -> None:
        """Refuses a file that has changed since it was opened."""

    def read(self, begin: int, end: int) -> Any:
        """Some bytes."""
        raise NotImplementedError

    def read_into(self, view: Bytes, begin: int) -> None:
        """As many bytes as there is room for."""
        view[:] = np.frombuffer(self.read(begin, begin + len(view)), np.uint8)

    def read_ahead(self, begin: int, end: int) -> None:
        """Asks for bytes that are needed soon."""

    def forget(self, begin: int, end: int) -> bool:
        """Drops copies of damaged bytes; False: there are none."""
        return False

    def stream(self) -> Any:
        """All bytes, in order."""
        return io.BufferedReader(_Stream(self), _BUFFER_BYTES)


class _Stream(io.RawIOBase):
    def __init__(self, file: File) -> None:
        self._file, self._place = file, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(self._place, min(self._place + len(buffer), self._file.size))
        buffer[: len(data)] = data
        self._place += len(data)
        return len(data)


class LocalFile(File):
    """A local file, open."""

    def __init__(self, path: str, stream: Any, *, is_mapped: bool) -> None:
        self._path, self._stream, self._is_mapped = path, stream, is_mapped
        self.size = os.fstat(stream.fileno()).st_size
        if is_mapped and self.size:
            self.memory = mmap.mmap(stream.fileno(), self.size, access=mmap.ACCESS_READ)
            stream.close()  # a mapping has a descriptor of its own

    def check(self) -> None:
        """As of `File`."""
        size = self.memory.size() if self.memory else os.fstat(self._stream.fileno()).st_size
        if size != self.size:  # a look behind the end of a mapped file would end the process
            raise resized(self._path, self.size, size)

    def read(self, begin: int, end: int) -> Any:
        """As of `File`."""
        if self._is_mapped:
            return self.memory[begin:end]
        return os.pread(self._stream.fileno(), end - begin, begin)

    def read_into(self, view: Bytes, begin: int) -> None:
        """As of `File`."""
        # Of a file that was cut short the records have other sums.
        os.preadv(self._stream.fileno(), [view.data], begin)

    def read_ahead(self, begin: int, end: int) -> None:
        """As of `File`."""
        if not self._is_mapped and hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError):  # a file system that takes no advice
                os.posix_fadvise(self._stream.fileno(), begin, end - begin, os.POSIX_FADV_WILLNEED)


class UnpackedFile(LocalFile):
    """A gzip file, unpacked to a temporary one; as much of it as can be."""

    def __init__(self, path: str, *, is_mapped: bool) -> None:
        stream = tempfile.TemporaryFile()  # noqa: SIM115 it is closed with this
        try:
            for part in _parts_of(path):  # so that an error of the disk is no damage
                stream.write(part)
        except CorruptShardError as error:
            self.damage = error
        stream.flush()
        super().__init__(path, stream, is_mapped=is_mapped)


def _parts_of(path: str) -> Iterator[bytes]:
    with open_records(path) as stream:
        while data := stream.read(_UNPACKED_AT_ONCE):
            yield data


@contextlib.contextmanager
def naming_what_went(path: str) -> Iterator[None]:
    """Makes a `CorruptShardError` of a shard that is no file any more."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, FileRefusedError) as error:
        is_other = isinstance(error, (IsADirectoryError, FileRefusedError))
        raise CorruptShardError.at(
            path,
            expected="a shard that is there as long as it is read",
            got="something else of that name" if is_other else "no such file",
            advice="It was removed, or the dataset is being written anew: open it again.",
        ) from error


def resized(path: str, expected: int, got: int) -> CorruptShardError:
    """The error of a file that has another size than it had."""
    return CorruptShardError.at(
        path,
        expected=f"a file of {expected} bytes, as when its dataset was opened",
        got=f"one of {got}",
        offset=min(expected, got),
        advice=CHANGED,
    )
