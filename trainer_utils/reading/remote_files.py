"""Fetch parts of files and keep copies on disk, for object stores and with `cache=`.

parts = RemoteParts(folder=None, max_bytes=1 << 30, is_global=False)
parts.open(shard).read(0, 1 << 20)
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from trainer_utils.core.errors import CorruptShardError
from trainer_utils.format.layouts import ShardFile
from trainer_utils.reading.input_stats import StageCounters
from trainer_utils.reading.local_files import (
    CHANGED,
    Bytes,
    OpenShard,
    Positions,
    translate_missing_shard,
)
from trainer_utils.runtime.single_flight import SingleFlightCache
from trainer_utils.storage import read_range
from trainer_utils.storage.cache_folder import PART_BYTES, CacheFolder, copy_name, version_to_copy
from trainer_utils.storage.open_files import can_copy_mapped

_MAX_RECENT = 512  # parts held in memory when the disk is full: twice a block
_FETCHES, _READS = 16, 32  # concurrent requests: to read ahead, and to read now


Run: TypeAlias = tuple[int, int, int]
"""The index of a shard, and the begin and end of some of its bytes."""


class RemoteParts:
    """The folder of copies, threads and memory that all partly fetched files share.

    If the disk is full, some parts are kept in memory. With `is_global`, as for a global shuffle,
    single records are fetched instead.

    Args:
        folder: the folder of copies; None for the default.
        max_bytes: the maximum size of the copies; None for no limit.
        is_global: whether records are read from all shards at once.
        counters: the counters of the input's work.
    """

    def __init__(
        self,
        folder: str | None,
        max_bytes: int | None,
        *,
        is_global: bool,
        counters: StageCounters | None = None,
    ) -> None:
        self._counters = counters or StageCounters()
        self.folder, self._is_global = CacheFolder(folder, max_bytes), is_global
        self.recent = SingleFlightCache[bytes](_MAX_RECENT)
        self.ahead = ThreadPoolExecutor(_FETCHES, thread_name_prefix="tfx-shards-parts")
        self._reads = ThreadPoolExecutor(_READS, thread_name_prefix="tfx-shards-reads")

    def open(self, shard: ShardFile) -> "CachedFile":
        """Open a shard whose parts are copied when they are read."""
        return CachedFile(shard, self)

    @property
    def is_ranged(self) -> bool:
        """Whether single records are fetched instead of parts."""
        return self._is_global and self.folder.is_full

    def fetch(self, files: Mapping[int, OpenShard], runs: Sequence[Run]) -> dict[Run, bytes]:
        """Return the bytes of the runs that copies lack, fetched concurrently."""
        missing = [run for run in runs if not files[run[0]].holds_all(*run[1:])]
        num_cached = sum(files[run[0]].is_cached for run in runs)
        self._counters.add(cache_hits=num_cached - len(missing), cache_misses=len(missing))
        if not missing:
            return {}
        fetched = self._reads.map(lambda run: files[run[0]].read(*run[1:]), missing)
        return dict(zip(missing, fetched, strict=True))


class CachedFile:
    """A file whose parts are copied when they are first read; an `OpenShard`."""

    damage: CorruptShardError | None = None
    is_cached = True

    def __init__(self, shard: ShardFile, parts: RemoteParts) -> None:
        self.path, self.size, self._parts = shard.path, shard.bytes, parts
        name = copy_name(self.path, version_to_copy(self.path, shard.entry))
        self.copy = parts.folder.open(name, self.size) if self.size else None
        self.address = self.copy.address if self.copy is not None and can_copy_mapped() else 0

    def check(self) -> None:
        """Do nothing, since a copy does not change."""

    def holds(self, begins: Positions, ends: Positions) -> npt.NDArray[np.bool_]:
        """Return for each range whether its bytes are in the copy, and need not be fetched."""
        if self.copy is None:
            return np.zeros(len(begins), bool)
        missing = np.cumsum(np.append(0, ~self.copy.parts()))
        is_held: npt.NDArray[np.bool_] = (
            missing[-(-ends // PART_BYTES)] == missing[begins // PART_BYTES]
        )
        return is_held

    def holds_all(self, begin: int, end: int) -> bool:
        """Return whether the bytes of a range are in the copy."""
        return self.copy is not None and self.copy.holds(begin, end)

    def read(self, begin: int, end: int) -> bytes:
        """Return bytes, from the copy or fetched."""
        if self.copy is not None and self.copy.holds(begin, end):
            return self.copy.read(begin, end)
        if self._parts.is_ranged:
            return self._range(begin, end)
        pieces = []
        for part in _parts_of(begin, end):
            first = part * PART_BYTES
            pieces.append(self._part(part)[max(begin - first, 0) : end - first])
        return b"".join(pieces)

    def read_into(self, view: Bytes, begin: int) -> int:
        """Fill a view with bytes; return how many."""
        view[:] = np.frombuffer(self.read(begin, begin + len(view)), np.uint8)
        return len(view)

    def read_ahead(self, begin: int, end: int) -> None:
        """Start to fetch parts if there is space for them."""
        for part in () if self._parts.is_ranged else _parts_of(begin, end):
            first = part * PART_BYTES
            is_there = self.holds_all(first, min(first + PART_BYTES, self.size))
            if not is_there and (self.path, part) not in self._parts.recent:
                self._parts.ahead.submit(self._part, part)

    def forget(self, begin: int, end: int) -> bool:
        """Drop copies of damaged bytes."""
        for part in _parts_of(begin, end):
            self._parts.recent.forget((self.path, part))
        if self.copy is not None:
            self.copy.forget(begin, end)
        return True

    def _part(self, part: int) -> bytes:
        """Return the bytes of a part; the first caller fetches it."""
        key, begin = (self.path, part), part * PART_BYTES
        end = min(begin + PART_BYTES, self.size)

        def fetch() -> bytes:
            if self.copy is not None and self.copy.holds(begin, end):
                return self.copy.read(begin, end)
            data = self._range(begin, end)
            if self.copy is not None and self.copy.store(part, data):
                self._parts.recent.forget(key)  # keep in memory only parts that do not fit on disk
            return data

        return self._parts.recent.get(key, fetch)

    def _range(self, begin: int, end: int) -> bytes:
        with translate_missing_shard(self.path):
            data = read_range(self.path, start=begin, stop=end)
        if len(data) != end - begin:
            wanted, got = f"{end - begin} bytes", f"{len(data)} of them"
            raise CorruptShardError.at(
                self.path, expected=wanted, got=got, offset=begin, advice=CHANGED
            )
        return data


def _parts_of(begin: int, end: int) -> range:
    return range(begin // PART_BYTES, -(-end // PART_BYTES))
