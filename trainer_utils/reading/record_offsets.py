"""Find the bytes of any record of many shards, in bounded memory.

    offsets = RecordOffsets(shards, open_index, is_global=False, max_files=100, readers=1)
    begins, ends, sums, are_known = offsets.bounds(indices, numbers)

Indices of large shards are read by segments of 4,096 records, which an LRU cache keeps. A global
shuffle over more records than it can hold reads groups of 64 records and keeps nothing. So memory
does not grow with the number or size of shards.
"""

import collections
import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from trainer_utils import storage
from trainer_utils.core.errors import CorruptShardError
from trainer_utils.format import RecordIndex
from trainer_utils.format.index import HEAD_BYTES, STRIDE, IndexLayout
from trainer_utils.format.layouts import ShardFile
from trainer_utils.format.tfrecord import RECORD_OVERHEAD_BYTES
from trainer_utils.storage.open_files import (
    FileMapping,
    MappedReader,
    can_copy_mapped,
    read_bytes_at,
)

SEGMENT = 4096
"""Records in a segment, a multiple of `STRIDE`."""

_PART = 256 * SEGMENT  # records whose lengths are read at a time
_MAX_SEGMENTS = 2048  # in the cache: 8 million records, 100 MB
_MAX_INDEX_BYTES = 128 << 20  # bytes of whole indices, for shards whose index has no offsets
_UNKNOWN = np.iinfo(np.int64).max
_MAX_SOURCES = 1 << 14  # indices that are open
_LOW = 0xFFFFFFFF

Positions = npt.NDArray[np.int64]
Sums = npt.NDArray[np.uint32]
_Item = TypeVar("_Item")


class IndexSource(Protocol):
    """The index of one shard.

    Attributes:
        records: the number of records.
        has_sums: whether it has the checksums of the records.
        memory: bytes that it holds.
        files: files that it keeps open.
    """

    records: int
    has_sums: bool
    memory: int
    files: int

    def read(self, first: int, stop: int) -> tuple[Positions, Sums | None]:
        """Return the offsets of frames, with the end of the last, and checksums if known.

        `first` is a multiple of `STRIDE`.
        """


class WholeIndex:
    """An index in memory."""

    files = 0

    def __init__(self, index: RecordIndex) -> None:
        self._lengths, self._sums = index.lengths, index.payload_crcs
        self._starts = index.starts
        self.records, self.has_sums = len(index), self._sums is not None
        self.memory = sum(
            array.nbytes for array in (self._lengths, self._sums, self._starts) if array is not None
        )

    def read(self, first: int, stop: int) -> tuple[Positions, Sums | None]:
        """Return the offsets of frames, with the end of the last, and checksums if known."""
        part = RecordIndex(self._lengths[first:stop])
        start = int(self._starts[first // STRIDE]) if first < self.records else 0
        return part.offsets + start, None if self._sums is None else self._sums[first:stop]


class SlicedIndex:
    """An index file that is read in parts, as needed.

    Args:
        path: the path of the index file.
        layout: the places of its columns.
        index_bytes: the size of the file.
        reader: copies parts of mapped files.

    Attributes:
        layout: the places of its columns.
        address: the address of its mapping, for `MappedReader`; 0 if it is not mapped.
    """

    memory = 0

    def __init__(
        self, path: str, layout: IndexLayout, *, index_bytes: int, reader: MappedReader
    ) -> None:
        self._path, self.layout, self._reader = path, layout, reader
        self.records, self.has_sums = layout.records, layout.payload_crcs is not None
        self._stream, self.address = None, 0
        if not storage.is_remote(path):
            stream = storage.open_for_reading(path)
            if can_copy_mapped():
                self._mapping = FileMapping(stream.fileno(), index_bytes)
                self.address = self._mapping.address
                stream.close()
            else:
                self._stream = stream
        self.files = int(self._stream is not None)
        # The offset of each segment's first record, for an index without starts.
        self._segment_starts: Positions | None = None

    def read(self, first: int, stop: int) -> tuple[Positions, Sums | None]:
        """Return the offsets of frames, with the end of the last, and checksums.

        Raises:
            CorruptShardError: the file is damaged.
        """
        if self.layout.starts is not None:
            return self.layout.read(self._read, first, stop, path=self._path)
        if self._segment_starts is None:
            self._segment_starts = self._add_up()  # some KB
        segment = first // SEGMENT
        begin, start = segment * SEGMENT, int(self._segment_starts[segment])
        offsets, sums = self.layout.read(self._read, begin, stop, path=self._path, start=start)
        return offsets[first - begin :], None if sums is None else sums[first - begin :]

    def _add_up(self) -> Positions:
        """Return the offset of the first record of each segment, from all lengths."""
        sizes = [np.zeros(1, np.int64)]
        for first in range(0, self.records, _PART):
            stop = min(first + _PART, self.records)
            part = self.layout.read_lengths(self._read, first, stop).astype(np.int64)
            part += RECORD_OVERHEAD_BYTES
            sizes.append(np.add.reduceat(part, np.arange(0, len(part), SEGMENT)))
        return np.cumsum(np.concatenate(sizes))

    def _read(self, begin: int, end: int) -> bytes:
        if self.address:
            place, size = np.array([self.address + begin]), np.array([end - begin])
            data, done = self._reader.copy(place, size)
            if done:
                return data
        if self._stream is None:
            return storage.read_range(self._path, start=begin, stop=end)
        return read_bytes_at(self._stream.fileno(), begin, end, path=self._path)


def open_sliced(shard: ShardFile, *, size: int, reader: MappedReader) -> SlicedIndex | None:
    """Open the index of a large shard to read parts of it, or return None if that is impossible.

    Args:
        shard: a shard. Its manifest vouches for the index.
        size: the size of the uncompressed shard in bytes.
        reader: copies parts of mapped files.
    """
    entry, path = shard.entry, shard.index_path
    if (
        entry is None
        or path is None
        or entry.index_crc32c is None
        or entry.records <= SEGMENT
        or shard.is_gzip
        or entry.bytes != size
    ):
        return None
    return _sliced(path, entry.records, reader)


def open_kept(shard: ShardFile, path: str, reader: MappedReader) -> SlicedIndex | None:
    """Open the offsets of a shard that an earlier scan kept, or return None without such a file.

    Args:
        shard: a shard without an index.
        path: the file of the offsets.
        reader: copies parts of mapped files.
    """
    return _sliced(path, shard.records, reader)


def _sliced(path: str, records: int | None, reader: MappedReader) -> SlicedIndex | None:
    """Open an index to read parts of it, or return None if that is impossible."""
    try:
        index_bytes = storage.file_size(path)
        head = storage.read_range(path, start=0, stop=min(HEAD_BYTES, index_bytes))
        layout = IndexLayout.of(head, index_bytes)
        if layout is None or records not in (None, layout.records):
            return None
        return SlicedIndex(path, layout, index_bytes=index_bytes, reader=reader)
    except storage.MachineError:
        raise
    except OSError:
        return None  # the caller reads the whole index, and reports the error


# Columns of `RecordOffsets._mapped`: the address of a mapped index, the offsets in it of lengths,
# checksums (0: none) and starts of groups, and the bytes of a length.
_ADDRESS, _LENGTHS, _SUMS, _STARTS, _LENGTH_BYTES = range(5)


class _CopiedGroups(NamedTuple):
    """Groups of records, copied from mapped indices.

    Attributes:
        offsets: `(groups, STRIDE + 1) int64`, the offset of each record and the end of the last.
        sums: `(groups, STRIDE) uint32`, the records' checksums; None if the indices have none.
        is_whole: `(groups,) bool`, whether the lengths add up to the offset of the next group.
    """

    offsets: Positions
    sums: Sums | None
    is_whole: npt.NDArray[np.bool_]


class RecordOffsets:
    """The offsets and checksums of records, for several threads.

    Args:
        shards: the shards.
        open_index: opens the index of a shard, given the shard's number. With True, it loads the
            whole index: a part of the file was damaged.
        reader: copies parts of mapped index files.
        is_global: whether records come from all shards at once, as with a global shuffle.
        max_files: index files that may be open.
        readers: segments that are read at the same time.

    Attributes:
        counts: `(shards,) int64`, the records of shards whose index has been opened; others have
            the largest integer.
    """

    def __init__(
        self,
        shards: Sequence[ShardFile],
        open_index: Callable[[int, bool], IndexSource],
        *,
        reader: MappedReader,
        is_global: bool,
        max_files: int,
        readers: int,
    ) -> None:
        self.counts = np.full(len(shards), _UNKNOWN)
        self._has_sums = np.zeros(len(shards), bool)
        self._open_index, self._max_files, self._readers = open_index, max_files, readers
        self._reader = reader
        # For mapped indices, the values of the columns named above; 0 for others.
        self._mapped = np.zeros((len(shards), 5), np.int64)
        sizes = [shard.records for shard in shards]
        segments = sum(-(-(size or 1) // SEGMENT) for size in sizes)
        num_slots = _MAX_SEGMENTS if None in sizes else max(1, min(segments, _MAX_SEGMENTS))
        self._is_direct = is_global and segments > num_slots
        self._lock = threading.Lock()
        self._sources = collections.OrderedDict[int, IndexSource]()
        self._memory = self._files = 0
        self._source_lock = threading.Lock()
        # The cached segments: sorted keys, the slot of each, and the time of each slot's last use.
        self._keys, self._slots = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._last_use, self._time = np.zeros(num_slots, np.int64), 0
        self._offsets = np.empty((num_slots, SEGMENT + 1), np.int64)
        self._sums = np.empty((num_slots, SEGMENT), np.uint32)

    def bounds(
        self, indices: Positions, numbers: Positions
    ) -> tuple[Positions, Positions, Sums, npt.NDArray[np.bool_]]:
        """Return the bytes of records in their shards.

        Args:
            indices: `(rows,) int64`, the shards.
            numbers: `(rows,) int64`, the records in them.

        Returns:
            The begin and the end of each frame, -1 if the shard has fewer records; the masked
            CRC-32C of each payload; and whether the index has that.
        """
        with self._lock:
            self._open_all(indices)
            is_there = numbers < self.counts[indices]
            if is_there.all():
                begins, ends, sums = self._find(indices, numbers)
            else:
                rows = np.flatnonzero(is_there)
                begins, ends = np.full((2, len(indices)), -1)
                sums = np.zeros(len(indices), np.uint32)
                begins[rows], ends[rows], sums[rows] = self._find(indices[rows], numbers[rows])
            return begins, ends, sums, self._has_sums[indices]

    def _find(self, indices: Positions, numbers: Positions) -> tuple[Positions, Positions, Sums]:
        """Return begins, ends and checksums of records that exist."""
        if self._is_direct:
            return self._read_groups(indices, numbers)
        keys = (indices << 32) | numbers // SEGMENT
        places = np.searchsorted(self._keys, keys)
        is_cached = np.append(self._keys, -1)[places] == keys
        if not is_cached.all():
            wanted = np.unique(keys)
            if len(wanted) > len(self._last_use):
                return self._read_groups(indices, numbers)
            self._load(wanted, np.unique(keys[~is_cached]))
            places = np.searchsorted(self._keys, keys)
        slots = self._slots[places]
        self._time += 1
        self._last_use[slots] = self._time
        within = numbers % SEGMENT
        return (
            self._offsets[slots, within],
            self._offsets[slots, within + 1],
            self._sums[slots, within],
        )

    def _load(self, wanted: Positions, missing: Positions) -> None:
        """Read the missing segments into slots that hold no wanted segment."""
        free = np.setdiff1d(np.arange(len(self._last_use)), self._slots)
        if len(free) < len(missing):
            is_spare = ~np.isin(self._keys, wanted)
            spare = self._slots[is_spare]
            oldest = spare[np.argsort(self._last_use[spare])][: len(missing) - len(free)]
            stays = ~np.isin(self._slots, oldest)
            self._keys, self._slots = self._keys[stays], self._slots[stays]
            free = np.concatenate([free, oldest])
        slots = free[: len(missing)]

        def load(item: tuple[int, int]) -> None:
            key, slot = item
            index, first = key >> 32, (key & _LOW) * SEGMENT
            stop = min(first + SEGMENT, int(self.counts[index]))
            offsets, sums = self._read(index, first, stop)
            self._offsets[slot, : len(offsets)] = offsets
            self._sums[slot, : stop - first] = 0 if sums is None else sums

        self._run(load, list(zip(missing.tolist(), slots.tolist(), strict=True)))
        keys, slots = np.append(self._keys, missing), np.append(self._slots, slots)
        order = np.argsort(keys)
        self._keys, self._slots = keys[order], slots[order]

    def _read_groups(
        self, indices: Positions, numbers: Positions
    ) -> tuple[Positions, Positions, Sums]:
        """Read the groups of 64 records that contain some records, and keep none."""
        groups, rows = np.unique((indices << 32) | numbers // STRIDE, return_inverse=True)
        offsets = np.empty((len(groups), STRIDE + 1), np.int64)
        sums = np.zeros((len(groups), STRIDE), np.uint32)

        def load(place: int) -> None:
            index, first = int(groups[place]) >> 32, (int(groups[place]) & _LOW) * STRIDE
            stop = min(first + STRIDE, int(self.counts[index]))
            read_offsets, known = self._read(index, first, stop)
            offsets[place, : len(read_offsets)] = read_offsets
            if known is not None:
                sums[place, : stop - first] = known

        is_read = self._copy_groups(groups, offsets, sums)
        self._run(load, np.flatnonzero(~is_read).tolist())
        rows, within = rows.reshape(-1), numbers % STRIDE
        return offsets[rows, within], offsets[rows, within + 1], sums[rows, within]

    def _copy_groups(
        self, groups: Positions, offsets: Positions, sums: Sums
    ) -> npt.NDArray[np.bool_]:
        """Read all groups of mapped indices together, and return which have been read.

        The last group of a shard, which may be shorter, is left to others, as is a damaged one.
        """
        indices, numbers = groups >> 32, groups & _LOW
        # If no index is ever closed, only new ones are opened. Else they must stay open until read.
        needs_source = np.unique(indices)
        if len(self.counts) <= _MAX_SOURCES:
            needs_source = needs_source[self._mapped[needs_source, _ADDRESS] == 0]
        held = [self._source(index) for index in needs_source.tolist()]
        is_full = (numbers + 1) * STRIDE < self.counts[indices]
        is_read = np.zeros(len(groups), bool)
        mapped = self._mapped[indices]
        is_mapped, has_sums = mapped[:, _ADDRESS] > 0, mapped[:, _SUMS] > 0
        for length_bytes, with_sums in itertools.product((2, 4, 8), (True, False)):
            is_alike = (mapped[:, _LENGTH_BYTES] == length_bytes) & (has_sums == with_sums)
            (rows,) = np.nonzero(is_full & is_mapped & is_alike)
            if len(rows):
                copied = self._copy_alike(
                    mapped[rows], numbers[rows], length_bytes, with_sums=with_sums
                )
                if copied is not None:
                    is_read[rows], offsets[rows] = copied.is_whole, copied.offsets
                    if copied.sums is not None:
                        sums[rows] = copied.sums
        held.clear()
        return is_read

    def _copy_alike(
        self, mapped: Positions, groups: Positions, length_bytes: int, *, with_sums: bool
    ) -> "_CopiedGroups | None":
        """Copy groups from indices of the same form; return None if a part cannot be copied.

        Args:
            mapped: `(groups, 5) int64`, the place of each group's index, as in `_mapped`.
            groups: `(groups,) int64`, the number of each group in its index.
            length_bytes: the bytes of a length in these indices.
            with_sums: whether these indices have checksums.
        """
        count = len(groups)
        # Of each index: the offsets of this group and the next one, the lengths, the checksums.
        sizes = [2 * 8, STRIDE * length_bytes]
        places = [mapped[:, _STARTS] + 8 * groups, mapped[:, _LENGTHS] + sizes[1] * groups]
        if with_sums:
            sizes.append(STRIDE * 4)
            places.append(mapped[:, _SUMS] + sizes[2] * groups)
        data, done = self._reader.copy(
            np.concatenate([mapped[:, _ADDRESS] + place for place in places]),
            np.repeat(sizes, count),
        )
        if done < len(sizes) * count:
            return None
        ends = np.cumsum(sizes) * count
        starts = np.frombuffer(data[: ends[0]], "<u8").reshape(count, 2).astype(np.int64)
        lengths = np.frombuffer(data[ends[0] : ends[1]], f"<u{length_bytes}")
        offsets = np.empty((count, STRIDE + 1), np.int64)
        offsets[:, 0] = 0
        np.cumsum(lengths.reshape(count, STRIDE), axis=1, dtype=np.int64, out=offsets[:, 1:])
        offsets += np.arange(STRIDE + 1) * RECORD_OVERHEAD_BYTES + starts[:, :1]
        sums = None
        if with_sums:
            sums = np.frombuffer(data[ends[1] : ends[2]], "<u4").reshape(count, STRIDE)
        return _CopiedGroups(offsets, sums, offsets[:, -1] == starts[:, 1])

    def _read(self, index: int, first: int, stop: int) -> tuple[Positions, Sums | None]:
        try:
            return self._source(index).read(first, stop)
        except CorruptShardError:  # the whole index is compared with its checksum, and reported
            return self._keep(index, self._open_index(index, True)).read(first, stop)

    def _open_all(self, indices: Positions) -> None:
        """Open the indices of shards whose number of records is not known yet."""
        unknown = indices[self.counts[indices] == _UNKNOWN]
        if len(unknown):
            self._run(self._source, np.unique(unknown).tolist())

    def _source(self, index: int) -> IndexSource:
        with self._source_lock:
            source = self._sources.get(index)
            if source is not None:
                self._sources.move_to_end(index)
                return source
        return self._keep(index, self._open_index(index, False))

    def _keep(self, index: int, source: IndexSource) -> IndexSource:
        """Keep an opened index, and close the least recently used ones if there are too many."""
        self.counts[index], self._has_sums[index] = source.records, source.has_sums
        self._mapped[index] = 0
        if isinstance(source, SlicedIndex) and source.address:
            layout = source.layout
            if layout.starts is not None:
                columns = layout.lengths, layout.payload_crcs or 0, layout.starts
                self._mapped[index] = (source.address, *columns, layout.dtype.itemsize)
        with self._source_lock:
            self._drop(index)
            self._sources[index] = source
            self._memory += source.memory
            self._files += source.files
            while len(self._sources) > 1 and (
                len(self._sources) > _MAX_SOURCES
                or self._memory > _MAX_INDEX_BYTES
                or self._files > self._max_files
            ):
                oldest = next(iter(self._sources))
                self._drop(oldest)
                self._mapped[oldest] = 0
        return source

    def _drop(self, index: int) -> None:
        old = self._sources.pop(index, None)
        if old is not None:
            self._memory -= old.memory
            self._files -= old.files

    def _run(self, work: Callable[[_Item], object], items: list[_Item]) -> None:
        """Call a function for each item, with several threads if that helps."""
        if self._readers == 1 or len(items) == 1:
            for item in items:
                work(item)
            return
        with ThreadPoolExecutor(self._readers) as pool:
            list(pool.map(work, items))
