"""The records of a step, wherever they lie: read, and every checksum checked.

    records = RecordReader(sources, options)
    rows = records.read(order.records(epoch=0, step=5, worker=0))
    rows.data, rows.begins, rows.ends        # payloads, row by row

Shards are mapped into memory, which costs nothing but the pages that are looked at. Those of
object stores are copied to the disk first, as `cache=` says; gzip files, in which nothing can be
found, are unpacked to a temporary file.
"""

import mmap
import shutil
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt

from trainer_utils.dataset.record_index import indexed_offsets
from trainer_utils.dataset.selection import Source
from trainer_utils.dataset.shards import is_gzip, open_records
from trainer_utils.format import ConfigError, CorruptShardError, RecordIndex, Shard
from trainer_utils.format.crc32c import mask_crc32c
from trainer_utils.format.file_ranges import RecordName
from trainer_utils.format.framing import (
    FOOTER_BYTES,
    HEADER_BYTES,
    bad_headers,
    footers_of,
    headers_of,
    lengths_in,
    unframe,
)
from trainer_utils.format.tfrecord import scan_until_damage
from trainer_utils.reading.shard_checksums import ShardChecksums
from trainer_utils.storage.cache import WholeCopies, cache_folder
from trainer_utils.storage.paths import is_remote

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions

__all__ = ["RecordReader", "Rows"]

_PADDING = bytes(16)  # after the last record, so that who parses reads nothing past the end
_VIEWED_FROM_BYTES = 4 << 10
_MOST_OPEN = 512  # files, which are mappings: no descriptor is held

Positions = npt.NDArray[np.int64]


class Rows(NamedTuple):
    """Records, one after the other.

    Attributes:
        data: framed records, end to end, and some zeros.
        begins, ends: `(rows,) int64`, of the payloads in it, in bytes.
        names: which records they are.
    """

    data: bytes
    begins: Positions
    ends: Positions
    names: Sequence[RecordName]


class RecordReader:
    """Reads records by file and number.

    Args:
        sources: what is read.
        options: of the input: `cache` and `on_corrupt` count here.

    Attributes:
        sums: what compares whole shards with the manifest, beside the reading.
        unreadable: why each record that was skipped could not be read, by path and number.
    """

    def __init__(self, sources: Sequence[Source], options: "InputOptions") -> None:
        self._skips = options.on_corrupt == "skip"
        files = [shard for source in sources for shard in source.dataset.shard_files]
        self._entries = {shard.path: shard.entry for shard in files if shard.entry is not None}
        self.sums = ShardChecksums(self._entries, skips=self._skips)
        self.unreadable: dict[tuple[str, int], str] = {}
        cache = options.cache
        if cache == "memory":
            raise ConfigError.of(
                "cache", cache, allowed="'disk', a folder or None, where TensorFlow's memory is not"
            )
        is_copied = cache is not None or options.cache_dir is not None
        self._copy = None
        if is_copied or any(is_remote(shard.path) for shard in files):
            folder = cache_folder(cache, options.cache_dir, options.cache_bytes)
            self._copy = WholeCopies(folder, self.sums.check, self._entries).locate
        self._shards: dict[str, _Shard] = {}

    def read(self, names: Sequence[RecordName]) -> Rows:
        """Records in the order of `names`; those that cannot be read are left out where they may.

        Raises:
            CorruptShardError: a record is damaged, or a shard is not the manifest's.
        """
        frames, found = [], []
        for name in names:
            try:
                frames.append(self._shard(name.path).frame(name.number))
                found.append(name)
            except CorruptShardError as error:
                self._skip(name, error)
        data = b"".join([*frames, _PADDING])
        ends = np.cumsum([len(frame) for frame in frames], dtype=np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), ends])[:-1]
        good = self._checked(data, starts, ends, found)
        if not good.all():
            starts, ends = starts[good], ends[good]
            found = [name for name, is_good in zip(found, good.tolist(), strict=True) if is_good]
        return Rows(data, starts + HEADER_BYTES, ends - FOOTER_BYTES, found)

    def _checked(
        self, data: bytes, starts: Positions, ends: Positions, names: Sequence[RecordName]
    ) -> npt.NDArray[np.bool_]:
        """Which frames are whole and have the sums that they say."""
        if not names:
            return np.zeros(0, bool)
        headers = headers_of(data, starts)
        bounds = zip((starts + HEADER_BYTES).tolist(), (ends - FOOTER_BYTES).tolist(), strict=True)
        # Of short ones a copy costs less than a view does.
        is_large = len(data) > _VIEWED_FROM_BYTES * len(names)
        given: Any = np.frombuffer(data, np.uint8) if is_large else data
        sums = np.array([google_crc32c.value(given[b:e]) for b, e in bounds], np.uint32)
        good: npt.NDArray[np.bool_] = (mask_crc32c(sums) == footers_of(data, ends)) & ~bad_headers(
            headers
        )
        good &= lengths_in(headers) == ends - starts - HEADER_BYTES - FOOTER_BYTES
        for index in np.flatnonzero(~good).tolist():
            path, number = names[index]
            offset = self._shard(path).offset(number)
            try:
                unframe(data[starts[index] : ends[index]], path=path, record=number, offset=offset)
            except CorruptShardError as error:
                self._skip(names[index], error)
        return good

    def _skip(self, name: RecordName, error: CorruptShardError) -> None:
        if not self._skips:
            raise error
        self.unreadable[name] = str(error)

    def _shard(self, path: str) -> "_Shard":
        shard = self._shards.get(path)
        if shard is None:
            location = path if self._copy is None else self._copy(path)
            self.sums.begin(path, location)
            while len(self._shards) >= _MOST_OPEN:
                self._shards.pop(next(iter(self._shards)))
            shard = self._shards[path] = _Shard(path, location, self._entries.get(path))
        return shard


class _Shard:
    """One file, mapped, and where its records lie."""

    def __init__(self, path: str, location: str, entry: Shard | None) -> None:
        self._path = path
        if is_gzip(path):
            with tempfile.TemporaryFile() as unpacked, open_records(location) as stream:
                shutil.copyfileobj(stream, unpacked, 8 << 20)
                unpacked.flush()
                self._data = _mapped(unpacked.fileno())
        else:
            with open(location, "rb") as file:
                self._data = _mapped(file.fileno())
        self._damage: CorruptShardError | None = None
        offsets = indexed_offsets(path, size=len(self._data), entry=entry)
        if offsets is None:
            if isinstance(self._data, mmap.mmap):
                self._data.seek(0)
                lengths, self._damage = scan_until_damage(self._data, path=path)  # type: ignore[arg-type]
            else:
                lengths = np.zeros(0, np.uint16)
            offsets = RecordIndex(lengths).offsets
        self._offsets = offsets

    def frame(self, number: int) -> bytes | memoryview:
        """A framed record; a view where it is large."""
        if number + 1 >= len(self._offsets):
            raise self._damage or CorruptShardError.at(
                self._path,
                expected="more records",
                got="the end of the file",
                record=number,
                offset=self.offset(number),
            )
        begin, end = int(self._offsets[number]), int(self._offsets[number + 1])
        is_large = end - begin > _VIEWED_FROM_BYTES
        return memoryview(self._data)[begin:end] if is_large else self._data[begin:end]

    def offset(self, number: int) -> int:
        """Where a record begins, in bytes."""
        return int(self._offsets[min(number, len(self._offsets) - 1)])


def _mapped(descriptor: int) -> mmap.mmap | bytes:
    try:
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    except ValueError:  # an empty file
        return b""
