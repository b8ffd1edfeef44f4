"""Read the bytes of records from shards: local files, gzip, and remote files.

    files = ShardFiles(shards, options, mean_bytes=120.0)
    begins, ends, *_ = files.bounds(indices, numbers)   # of records' frames in their shards
    data, starts = files.gather(indices, begins, ends)

`shard_opening` opens the shards, and `shard_indices` finds the records in them. Short records are
copied out of mapped files, many with one system call. A call for each record would cost more than
everything else. Accessing an unreadable page directly would end the process.
"""

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from trainer_utils.format.layouts import ShardFile
from trainer_utils.options import InputOptions
from trainer_utils.reading.input_stats import StageCounters
from trainer_utils.reading.local_files import (
    Bytes,
    LocalFile,
    OpenShard,
    Positions,
    resized_error,
)
from trainer_utils.reading.record_offsets import RecordOffsets
from trainer_utils.reading.remote_files import Run
from trainer_utils.reading.shard_indices import ShardIndices
from trainer_utils.reading.shard_opening import OpenShards, open_shards
from trainer_utils.storage.open_files import MappedReader

_LONG_BYTES = 8 << 10  # bytes; longer records are read with a call each
_PADDING = bytes(16)  # after the last record, so that parsers may read past its end
_CHECK_SECONDS = 1.0  # between two looks at the size of a shard that stays open
_INDICES_AT_ONCE = 16
_MAX_GAP = 256 << 10  # bytes between records that are requested together

Runs: TypeAlias = tuple[Positions, Positions, Positions]
"""Columns of runs: shard, begin and end."""


class ShardFiles:
    """Reader of the bytes of records, for several threads.

    Args:
        shards: the shards.
        options: the settings of the input.
        mean_bytes: the mean size of a record.
        counters: the counters of the input's work.
        read: the indices of the shards that are read; None for all.

    Attributes:
        damage: the error of each damaged shard, by index. It affects the records after the last
            intact one.
        reads_ahead: whether calls of `read_ahead` make reading faster.
        reads_in_order: whether reading is fast only in the order of the shards, by one thread.
    """

    def __init__(
        self,
        shards: Sequence[ShardFile],
        options: InputOptions,
        *,
        mean_bytes: float,
        counters: StageCounters | None = None,
        read: Sequence[int] | None = None,
    ) -> None:
        self._counters = counters or StageCounters()
        self._is_long = mean_bytes >= _LONG_BYTES
        read = range(len(shards)) if read is None else read
        self._files = files = open_shards(
            shards, options, is_long=self._is_long, read=read, counters=self._counters
        )
        self._mapped = MappedReader()
        indices = ShardIndices(shards, files, options, self._mapped)
        self.damage = indices.damage
        self._offsets = RecordOffsets(
            shards,
            indices.open,
            reader=self._mapped,
            is_global=options.shuffle == "global",
            max_files=files.limits.max_open_indices,
            readers=1 if files.parts is None else _INDICES_AT_ONCE,
        )
        self._held = HeldFiles(files, len(shards)) if files.limits.is_held else None
        self.reads_in_order = files.reads_in_order
        self.reads_ahead = not self.reads_in_order and (self._is_long or files.parts is not None)
        self._turn: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        if self.reads_in_order:  # other threads' shards would not fit next to this one's
            self._turn = threading.Lock()

    @property
    def counts(self) -> Positions:
        """Number of records by shard, `(shards,) int64`; the largest integer if unopened."""
        return self._offsets.counts

    def bounds(
        self, indices: Positions, numbers: Positions
    ) -> tuple[Positions, Positions, npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
        """Return the bytes of records in their shards; see `RecordOffsets.bounds`.

        A shard that does not belong to its dataset is an error, unless damage is skipped.
        """
        return self._offsets.bounds(indices, numbers)

    def gather(
        self, indices: Positions, begins: Positions, ends: Positions
    ) -> tuple[Any, Positions]:
        """Return the bytes of ranges, and the offset of each row in them.

        Args:
            indices: `(rows,) int64`, the shards.
            begins: `(rows,) int64`, the begin of each range in its shard.
            ends: `(rows,) int64`, the end of each range.

        Raises:
            CorruptShardError: a shard was changed, even if damage is skipped.
        """
        order, runs = _runs(indices, begins, ends, gap=0)
        lengths = (ends - begins)[order]
        places = np.empty(len(order), np.int64)
        places[order] = np.cumsum(lengths) - lengths
        if self._held is not None:
            data = self._held.read(runs)
            if data is not None:
                return data, places
        groups = _split(runs, max_shards=self._files.limits.max_open)
        with self._turn:
            if not self._is_long:
                parts = [self._read_short(group) for group in groups]
                return b"".join([*parts, _PADDING]), places
            array = np.empty(int(lengths.sum()) + len(_PADDING), np.uint8)
            place = 0
            for group in groups:
                place += self._read_long(group, array[place:])
            return array, places

    def check(self, indices: Positions) -> None:
        """Raise a CorruptShardError if the size of a shard has changed since it was opened."""
        self._files.check(indices)

    def _copy_mapped(self, files: Mapping[int, OpenShard], runs: Runs) -> bytes | None:
        """Return the bytes of runs of mapped files, or None if some need another way of reading."""
        shards, starts, stops = runs
        if len(shards) and (stops - starts).mean() >= _LONG_BYTES:
            return None  # a call for each record is cheaper than a copy
        names, firsts = _distinct(shards)
        addresses = np.array([files[index].address for index in names.tolist()], np.int64)
        if not addresses.all():
            return None
        counts = np.diff(np.append(firsts, len(shards)))
        if self._files.parts is not None:
            for index, first, count in zip(*(names, firsts, counts), strict=True):
                piece_range = slice(first, first + count)
                if not files[int(index)].holds(starts[piece_range], stops[piece_range]).all():
                    return None
        data, done = self._mapped.copy(np.repeat(addresses, counts) + starts, stops - starts)
        if self._files.parts is not None and done == len(shards):
            are_cached = [files[index].is_cached for index in names.tolist()]
            self._counters.add(cache_hits=int(counts[are_cached].sum()))
        return data if done == len(shards) else None

    def _read_short(self, runs: Runs) -> bytes:
        """Return the bytes of runs of short records, copied out of mappings if that is faster."""
        files = self._open(runs)
        if self._files.limits.is_mapped:
            data = self._copy_mapped(files, runs)
            if data is not None:
                return data
        rows = _rows_of(runs)
        fetched = self._fetch(files, rows)
        parts = []
        for run in rows:
            index, begin, end = run
            part = fetched[run] if run in fetched else files[index].read(begin, end)
            _check_length(files[index], run, len(part))
            parts.append(part)
        return b"".join(parts)

    def _read_long(self, runs: Runs, data: Bytes) -> int:
        """Read runs of long records into an array, in order; return the number of bytes."""
        files, rows = self._open(runs), _rows_of(runs)
        fetched = self._fetch(files, rows)
        place = 0
        for run in rows:
            index, begin, end = run
            view = data[place : place + end - begin]
            if run in fetched:
                view[:] = np.frombuffer(fetched[run], np.uint8)
            else:
                _check_length(files[index], run, files[index].read_into(view, begin))
            place += len(view)
        return place

    def _open(self, runs: Runs) -> Mapping[int, OpenShard]:
        """Return the open files of runs, by index, and check their sizes.

        Callers keep no reference, so that unpacked copies can make space for the next ones.
        """
        files = {index: self._files.file(index) for index in _distinct(runs[0])[0].tolist()}
        for file in files.values():
            file.check()
        return files

    def _fetch(self, files: Mapping[int, OpenShard], rows: Sequence[Run]) -> Mapping[Run, bytes]:
        """Return the bytes of the runs that must be fetched from a store."""
        return {} if self._files.parts is None else self._files.parts.fetch(files, rows)

    def read_ahead(self, indices: Positions, numbers: Positions) -> None:
        """Start reading records that are needed soon; only their offsets are waited for."""
        begins, ends, _, _ = self.bounds(indices, numbers)
        exists = begins >= 0
        runs = _runs(indices[exists], begins[exists], ends[exists], gap=_MAX_GAP)[1]
        for index, begin, end in _rows_of(runs):
            self._files.file(index).read_ahead(begin, end)

    def forget(self, index: int, begin: int, end: int) -> bool:
        """Drop copies of damaged bytes; return False if there are no copies."""
        return self._files.file(index).forget(begin, end)


class HeldFiles:
    """Descriptors of local shards that stay open, for reads of single records.

    Args:
        files: the shards.
        count: the number of shards.
    """

    def __init__(self, files: OpenShards, count: int) -> None:
        self._files = files
        self._descriptors = np.full(count, -1)
        self._checked_at = np.full(count, -np.inf)  # seconds of a monotonic clock

    def read(self, runs: Runs) -> bytes | None:
        """Return the bytes of runs, and padding; None to read them another way.

        Raises:
            CorruptShardError: the size of a shard has changed.
        """
        shards, starts, stops = runs
        names = _distinct(shards)[0]
        self._open(names)
        self._check(names)
        descriptors, lengths = self._descriptors[shards].tolist(), stops - starts
        try:
            parts = [*map(os.pread, descriptors, lengths.tolist(), starts.tolist())]
        except OSError:
            return None  # another way of reading retries, and names the file
        data = b"".join([*parts, _PADDING])
        return data if len(data) == int(lengths.sum()) + len(_PADDING) else None

    def _open(self, names: Positions) -> None:
        for index in names[self._descriptors[names] < 0].tolist():
            file = self._files.file(index)
            assert isinstance(file, LocalFile)
            self._descriptors[index] = file.descriptor

    def _check(self, names: Positions) -> None:
        """Check the sizes of shards that have not been checked for a while."""
        now = time.monotonic()
        unchecked = names[self._checked_at[names] < now - _CHECK_SECONDS]
        self._files.check(unchecked)
        self._checked_at[unchecked] = now


def _runs(
    indices: Positions, begins: Positions, ends: Positions, *, gap: int
) -> tuple[Positions, Runs]:
    """Return the order of rows by file, and the runs of bytes with gaps of at most `gap`."""
    order = np.lexsort((begins, indices))
    shards, starts, stops = indices[order], begins[order], ends[order]
    is_new = np.ones(len(order), bool)
    apart = starts[1:] - stops[:-1]
    is_new[1:] = (shards[1:] != shards[:-1]) | (apart > gap) | ((apart != 0) & (not gap))
    firsts = np.flatnonzero(is_new)
    lasts = np.append(firsts, len(order))[1:] - 1
    return order, (shards[firsts], starts[firsts], stops[lasts])


def _split(runs: Runs, *, max_shards: int) -> Iterator[Runs]:
    """Yield groups of runs that are of at most `max_shards` shards."""
    shards, starts, stops = runs
    firsts = _distinct(shards)[1]
    bounds = [*firsts[::max_shards].tolist(), len(shards)]
    for begin, end in itertools.pairwise(bounds):
        yield shards[begin:end], starts[begin:end], stops[begin:end]


def _rows_of(runs: Runs) -> list[Run]:
    """Return runs as tuples."""
    return list(zip(*(column.tolist() for column in runs), strict=True))


def _distinct(shards: Positions) -> tuple[Positions, Positions]:
    """Return the distinct values of sorted indices, and the first place of each."""
    firsts = np.flatnonzero(np.append(True, shards[1:] != shards[:-1])[: len(shards)])
    return shards[firsts], firsts


def _check_length(file: OpenShard, run: Run, count: int) -> None:
    """Raise a CorruptShardError if a run had fewer bytes: the file was truncated."""
    _, begin, end = run
    if count < end - begin:
        raise resized_error(file.path, file.size, begin + count)
