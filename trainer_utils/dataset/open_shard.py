"""One open shard, any record of which is taken by its number.

shard = OpenShard("data_tfrecord-00000-of-00008")
shard.record(5)                      # its payload, verified
shard.frame(5), shard.offset(5)      # its framed bytes, unchecked, and where they begin
"""

import contextlib
import copy
import io
import mmap
import os
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from trainer_utils.dataset.record_index import indexed_offsets
from trainer_utils.dataset.shards import is_gzip, open_records
from trainer_utils.format import CorruptShardError, RecordIndex, Shard
from trainer_utils.format.framing import FOOTER_BYTES, HEADER_BYTES, is_frame, unframe
from trainer_utils.format.tfrecord import scan_until_damage
from trainer_utils.storage import FileRefusedError, open_for_reading, read_bytes
from trainer_utils.storage.paths import is_remote

__all__ = ["OpenShard", "naming_what_went"]

_LARGE_BYTES = 4 << 10  # a record: of shorter ones a copy costs less than a view
_COPIED_BYTES = 8 << 20
_BUFFER_BYTES = 4 << 10  # as `open` has it: short records in order come several at a time
_GROWN = "It is being written to: open its dataset again once it is whole."
_SALVAGED_AT_ONCE = 4 << 10  # bytes of a damaged gzip file


@contextlib.contextmanager
def naming_what_went(path: str) -> Iterator[None]:
    """Makes a `CorruptShardError` of a shard that is no file any more; other errors are a disk's.

    Args:
        path: of the shard, which was there when its dataset was opened.
    """
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


class OpenShard:
    """A shard, and where its records lie; for several threads at once.

    A gzip file, in which nothing can be found, is unpacked to a temporary file.

    Args:
        path: of the shard, for its index and for messages.
        location: where it is read from, such as a copy; None: there.
        entry: what the manifest says of it.
        is_mapped: whether a local file is mapped into memory, which costs nothing but the pages
            that are looked at, and the process where somebody cuts the file short between
            `look_again` and a record.

    Attributes:
        damage: what is wrong with it beside its records; None where nothing is.

    Raises:
        CorruptShardError: it is not there.
    """

    def __init__(
        self,
        path: str,
        location: str | None = None,
        entry: Shard | None = None,
        *,
        is_mapped: bool = False,
    ) -> None:
        location = location or path
        self._path, self._lock = path, threading.Lock()
        self.damage: CorruptShardError | None = None
        with naming_what_went(path):
            if is_gzip(path):
                self._stream, self.damage = _unpacked(location, path)
            else:
                self._stream = open_for_reading(location)
        if isinstance(self._stream, io.RawIOBase):
            self._stream = io.BufferedReader(self._stream, _BUFFER_BYTES)
        size = self._stream.seek(0, io.SEEK_END)
        offsets = indexed_offsets(path, size=size, entry=entry)
        if offsets is None:
            self._stream.seek(0)
            lengths, found = scan_until_damage(self._stream, path=path)
            self.damage = self.damage or found
            offsets = RecordIndex(lengths).offsets
        self._offsets = offsets
        self._size = size
        self._descriptor = None if is_remote(location) else self._stream.fileno()
        self._memory: Any = None
        if is_mapped and size and not is_remote(location):
            self._memory = mmap.mmap(self._stream.fileno(), 0, access=mmap.ACCESS_READ)
            self._stream.close()  # a mapping needs no descriptor
            self._descriptor = None

    def __del__(self) -> None:
        if hasattr(self, "_stream"):
            self._stream.close()

    def look_again(self) -> None:
        """Sees how long a mapped file is by now: a look behind its end ends the process.

        Raises:
            CorruptShardError: it grew, so that nobody reads what it has behind its last record.
        """
        if self._memory is None:
            return
        self._size = self._memory.size()
        if self._size > len(self._memory):
            raise CorruptShardError.at(
                self._path,
                expected=f"a file of {len(self._memory)} bytes, as when it was opened",
                got=f"one that has grown to {self._size}",
                offset=len(self._memory),
                advice=_GROWN,
            )

    def refuse_more_than(self, records: int | None) -> None:
        """Refuses a shard that has more than its dataset says.

        Args:
            records: that it had when the dataset was opened; None: nothing says it.

        Raises:
            CorruptShardError: it has more records, or damage behind the last.
        """
        found = len(self._offsets) - 1
        if records is not None and found > records:
            raise CorruptShardError.at(
                self._path,
                expected=f"{records} records, as when its dataset was opened",
                got=str(found),
                record=records,
                offset=self.offset(records),
                advice=_GROWN,
            )
        if found == records and self.damage is not None:
            raise copy.copy(self.damage)

    def record(self, number: int) -> bytes:
        """The payload of a record, verified.

        Raises:
            CorruptShardError: it is damaged, or there are not so many.
        """
        begin, end = self._bounds(number)
        frame = bytes(self._bytes(begin, end))
        return unframe(frame, path=self._path, record=number, offset=begin)

    def view(self, number: int, memory: Callable[[int], npt.NDArray[np.uint8]]) -> memoryview:
        """The payload of a record, verified, in memory that is used again.

        Args:
            number: of the record.
            memory: gives an array of at least so many bytes, which the view may be of. New memory
                for each large record would be pages that the system clears first.

        Raises:
            CorruptShardError: it is damaged, or there are not so many.
        """
        begin, end = self._bounds(number)
        if end - begin <= _LARGE_BYTES or self._descriptor is None:
            return memoryview(self.record(number))
        frame = memory(end - begin)[: end - begin]
        if os.preadv(self._descriptor, [frame.data], begin) < len(frame) or not is_frame(frame):
            return memoryview(self.record(number))  # which says what is wrong, and where
        return frame[HEADER_BYTES:-FOOTER_BYTES].data

    def frame(self, number: int) -> bytes | memoryview:
        """A framed record, unchecked; a view where it is large and mapped.

        Raises:
            CorruptShardError: there are not so many.
        """
        return self._bytes(*self._bounds(number))

    def read_ahead(self, first: int, count: int) -> None:
        """Asks the system to have some records of a local file in memory soon; returns at once."""
        if self._descriptor is not None and hasattr(os, "posix_fadvise"):
            begin, end = self.offset(first), self.offset(first + count)
            with contextlib.suppress(OSError):  # a file system that takes no advice
                os.posix_fadvise(self._descriptor, begin, end - begin, os.POSIX_FADV_WILLNEED)

    def _bounds(self, number: int) -> tuple[int, int]:
        if number + 1 < len(self._offsets):
            begin, end = self._offsets[number : number + 2].tolist()
            return begin, end
        # A copy: each time that it is raised, an error's traceback grows.
        raise copy.copy(self.damage) or CorruptShardError.at(
            self._path,
            expected="more records",
            got="the end of the file",
            record=number,
            offset=self.offset(number),
        )

    def _bytes(self, begin: int, end: int) -> bytes | memoryview:
        is_large = end - begin > _LARGE_BYTES
        if is_large and self._descriptor is not None:
            return os.pread(self._descriptor, end - begin, begin)
        if self._memory is None:
            with self._lock:
                self._stream.seek(begin)
                return self._stream.read(end - begin)
        if end > self._size:
            raise CorruptShardError.at(
                self._path,
                expected=f"a file of at least {end} bytes",
                got=f"one that was cut to {self._size} since it was opened",
                offset=begin,
            )
        found: bytes | memoryview = (memoryview(self._memory) if is_large else self._memory)[
            begin:end
        ]
        return found

    def offset(self, number: int) -> int:
        """Where a record begins, or the last one ends, in bytes."""
        return int(self._offsets[min(number, len(self._offsets) - 1)])


def _unpacked(location: str, path: str) -> tuple[BinaryIO, CorruptShardError | None]:
    """As much of a gzip file as can be read, and what is wrong where that is not all of it."""
    unpacked: Any = tempfile.TemporaryFile()  # noqa: SIM115 closed by `__del__`
    damage = None
    try:
        for part in _parts(location):  # so that an error of the disk is no damage
            unpacked.write(part)
    except CorruptShardError as error:
        data = read_bytes(location)
        found, end = _salvaged(data)
        unpacked.seek(0)
        unpacked.truncate()
        unpacked.write(found)
        message = f"{path!r}: expected a whole gzip stream: {error.__cause__} "
        message += f"(byte {end} of {len(data)}). The file is damaged: write it again."
        damage = CorruptShardError(message, path=path, offset=end)
    unpacked.flush()
    return unpacked, damage


def _parts(location: str) -> Iterator[bytes]:
    with open_records(location) as stream:
        while data := stream.read(_COPIED_BYTES):
            yield data


def _salvaged(data: bytes) -> tuple[bytes, int]:
    """What can be unpacked before the first byte that cannot, and where that is."""
    unpacker = zlib.decompressobj(wbits=31)
    parts = []
    for start in range(0, len(data), _SALVAGED_AT_ONCE):
        before = unpacker.copy()
        try:
            parts.append(unpacker.decompress(data[start : start + _SALVAGED_AT_ONCE]))
        except zlib.error:
            for place in range(start, len(data)):  # what one call found is lost if it fails
                try:
                    parts.append(before.decompress(data[place : place + 1]))
                except zlib.error:
                    return b"".join(parts), place
    return b"".join(parts), len(data)
