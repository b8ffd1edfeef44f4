"""Single records of shards, read where they lie: for the global shuffle, and past damage.

shards = ShardReader()
shards.read("data_tfrecord-00000-of-00008", [5, 3])    # [b"…", b"…"]

Every checksum is checked. A record that cannot be read is an error with file and offset, or, where
damage is to be skipped, `UNREADABLE`; then it is counted, and reported once an epoch.
"""

import contextlib
import copy
import gzip
import io
import logging
import os
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.dataset.record_index import indexed_offsets
from trainer_utils.format import CorruptShardError, RecordIndex, Shard
from trainer_utils.format.file_ranges import FileRange
from trainer_utils.format.framing import unframe
from trainer_utils.format.tfrecord import scan_until_damage
from trainer_utils.reading.raw_ops import map_elements

__all__ = ["UNREADABLE", "ShardReader", "read_past_damage"]

UNREADABLE = b"\xff unreadable"  # no serialized example begins so: field 31 has no wire type 7
_MOST_OPEN = 256  # files; more than the lanes of a windowed shuffle have at a time
_SALVAGED_AT_ONCE = 4 << 10  # bytes of a damaged gzip file

_logger = logging.getLogger(__name__)


class ShardReader:
    """Reads records by number; from several threads at once.

    Args:
        locate: where a shard is to be read from, of its path; such as a copy of it. Asked when it
            is opened.
        entries: what the manifest says of shards, by path.
        skips: whether records that cannot be read become `UNREADABLE`.
    """

    def __init__(
        self,
        *,
        locate: Callable[[str], str] = lambda path: path,
        entries: Mapping[str, Shard] = MappingProxyType({}),
        skips: bool = False,
    ) -> None:
        self._locate = locate
        self._entries = entries
        self._skips = skips
        self._lock = threading.Lock()
        self._shards: dict[str, _Shard] = {}
        self.unreadable: dict[tuple[str, int], str] = {}
        """Why each record that could not be read could not, by path and number."""

    def read(self, path: str, numbers: Sequence[int]) -> list[bytes]:
        """The payloads of records of one shard."""
        shard = self._shard(path)
        return [self._record(path, shard, number) for number in numbers]

    def read_ahead(self, path: str, first: int, count: int) -> None:
        """Asks the system to have records in memory soon; returns at once."""
        self._shard(path).read_ahead(first, count)

    def damage_of(self, path: str) -> CorruptShardError | None:
        """What is wrong with a shard beside its records; None where nothing is."""
        return self._shard(path).damage

    def first_readable(self, ranges: Sequence[FileRange]) -> bytes | None:
        """The first record that can be read; None where there is none."""
        for part in ranges:
            for number in range(part.skip, part.skip + part.take):
                (record,) = self.read(part.path, [number])
                if record != UNREADABLE:
                    return record
        return None

    def warn_of_unreadable(self, epoch: np.int64, records: int) -> None:
        """Says how many records were skipped so far, and the first few of them."""
        if bad := sorted(self.unreadable.items()):
            first = "; ".join(reason for _, reason in bad[:3])
            _logger.warning(
                "epoch %d: %d of %d records could not be read and were skipped: %s%s",
                int(epoch),
                len(bad),
                records,
                first,
                "; …" if len(bad) > 3 else "",
            )

    def _record(self, path: str, shard: "_Shard", number: int) -> bytes:
        try:
            return shard.record(number)
        except CorruptShardError as error:
            if not self._skips:
                raise
            with self._lock:
                self.unreadable[path, number] = str(error)
            return UNREADABLE

    def _shard(self, path: str) -> "_Shard":
        with self._lock:
            shard = self._shards.pop(path, None)
            if shard is None:
                shard = _Shard(path, self._locate(path), self._entries.get(path))
            self._shards[path] = shard  # the last used is the last
            while len(self._shards) > (_MOST_OPEN if not path.endswith(".gz") else 2):
                self._shards.pop(next(iter(self._shards)))
            return shard


def read_past_damage(
    shards: Callable[[], ShardReader], at_once: int
) -> Callable[[dict[str, tf.Tensor]], tf.data.Dataset]:
    """How to read a piece (see `trainer_utils.reading.records`) where records may be damaged.

    Args:
        shards: what reads them, asked for at each call.
        at_once: records of a vector.
    """

    def block(path: bytes, first: np.int64, count: np.int64) -> npt.NDArray[np.object_]:
        numbers = range(int(first), int(first) + int(count))
        return np.array(shards().read(path.decode(), numbers), object)

    def read_piece(piece: dict[str, tf.Tensor]) -> tf.data.Dataset:
        def read(start: tf.Tensor) -> tf.Tensor:
            count = tf.minimum(piece["take"] - start, at_once)
            arguments = [piece["path"], piece["skip"] + start, count]
            records = tf.numpy_function(block, arguments, tf.string)
            return tf.ensure_shape(records, [None])

        return map_elements(tf.data.Dataset.range(0, piece["take"], at_once), read)

    return read_piece


class _Shard:
    """One open file and its offsets. A gzip file, which cannot seek, is held whole."""

    def __init__(self, path: str, location: str, entry: Shard | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        damage = None
        self._descriptor: int | None = None  # of a local file
        if path.endswith(".gz"):
            data, damage = _decompressed(location, path)
            self._stream: Any = io.BytesIO(data)
        elif "://" in location:
            self._stream = _SeekableFile(location)
        else:
            self._stream = open(location, "rb")  # noqa: SIM115 closed by `__del__`
            self._descriptor = self._stream.fileno() if hasattr(os, "pread") else None
        offsets = indexed_offsets(path, size=self._stream.seek(0, 2), entry=entry)
        found = None
        if offsets is None:
            self._stream.seek(0)
            lengths, found = scan_until_damage(self._stream, path=path)
            offsets = RecordIndex(lengths).offsets
        self._offsets = offsets
        self.damage = damage or found

    def __del__(self) -> None:
        if hasattr(self, "_stream"):
            self._stream.close()

    def read_ahead(self, first: int, count: int) -> None:
        if self._descriptor is None or not hasattr(os, "posix_fadvise"):
            return
        begin, end = self._offsets[[first, min(first + count, len(self._offsets) - 1)]].tolist()
        with contextlib.suppress(OSError):  # a file system that takes no advice
            os.posix_fadvise(self._descriptor, begin, end - begin, os.POSIX_FADV_WILLNEED)

    def record(self, number: int) -> bytes:
        if number + 1 >= len(self._offsets):
            # A copy: each time that it is raised, an error's traceback grows.
            raise copy.copy(self.damage) or CorruptShardError.at(
                self._path,
                expected="more records",
                got="the end of the file",
                record=number,
                offset=int(self._offsets[-1]),
            )
        begin, end = int(self._offsets[number]), int(self._offsets[number + 1])
        if self._descriptor is not None:
            data = os.pread(self._descriptor, end - begin, begin)
        else:
            with self._lock:
                self._stream.seek(begin)
                data = self._stream.read(end - begin)
        return unframe(data, path=self._path, record=number, offset=begin)


class _SeekableFile:
    """A file of `tf.io.gfile`, with `seek` as Python has it."""

    def __init__(self, path: str) -> None:
        self._file = tf.io.gfile.GFile(path, "rb")
        self._size = int(tf.io.gfile.stat(path).length)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._file.seek(offset + (self._size if whence == 2 else 0))
        return int(self._file.tell())

    def read(self, size: int) -> bytes:
        return bytes(self._file.read(size))

    def close(self) -> None:
        self._file.close()


def _decompressed(location: str, path: str) -> tuple[bytes, CorruptShardError | None]:
    """As much of a gzip file as can be read, and what is wrong where that is not all of it."""
    with tf.io.gfile.GFile(location, "rb") as stream:
        data = stream.read()
    try:
        return gzip.decompress(data), None
    except (EOFError, zlib.error, OSError) as error:
        found, end = _salvaged(data)
        message = f"{path!r}: expected a whole gzip stream: {error} (byte {end} of {len(data)})."
        message += " The file is damaged: write it again."
        return found, CorruptShardError(message, path=path, offset=end)


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
