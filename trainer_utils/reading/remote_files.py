"""Files of which parts are fetched and copied to the disk: of object stores, and with `cache=`.

parts = RemoteParts(folder=None, max_bytes=1 << 30, is_global=False)
parts.open(shard).read(0, 1 << 20)
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils.format import CorruptShardError
from trainer_utils.format.layouts import ShardFile
from trainer_utils.machine import MadeOnce
from trainer_utils.reading.shard_files import (
    CHANGED,
    Bytes,
    File,
    Positions,
    Run,
    naming_what_went,
)
from trainer_utils.storage import file_version, read_range
from trainer_utils.storage.cache_folder import PART_BYTES, CacheFolder, copy_name, shard_version
from trainer_utils.storage.open_files import can_copy_mapped

_MOST_RECENT = 512  # parts that are held in memory, for want of room on the disk: twice a block
_FETCHES, _READS = 16, 32  # requests at once: of parts ahead, and of what is waited for


class RemoteParts:
    """What all files share of which parts are fetched: the folder of copies, threads, memory.

    Where the folder has no room, some parts are held in memory, or, with `is_global`, where records
    are read from everywhere, these records alone are fetched.
    """

    def __init__(self, folder: str | None, max_bytes: int | None, *, is_global: bool) -> None:
        self.folder, self._is_global = CacheFolder(folder, max_bytes), is_global
        self.recent = MadeOnce[bytes](_MOST_RECENT)
        self.ahead = ThreadPoolExecutor(_FETCHES, thread_name_prefix="tfx-shards-parts")
        self._reads = ThreadPoolExecutor(_READS, thread_name_prefix="tfx-shards-reads")

    def open(self, shard: ShardFile) -> "CachedFile":
        """A shard of which parts are copied."""
        return CachedFile(shard, self)

    @property
    def is_ranged(self) -> bool:
        """Whether records are fetched alone."""
        return self._is_global and self.folder.is_full

    def fetch(self, files: Mapping[int, File], runs: Sequence[Run]) -> dict[Run, bytes]:
        """Return the bytes of those runs that copies do not hold, fetched at the same time."""
        missing = [run for run in runs if not files[run[0]].holds_all(*run[1:])]
        if not missing:
            return {}
        found = self._reads.map(lambda run: files[run[0]].read(*run[1:]), missing)
        return dict(zip(missing, found, strict=True))


class CachedFile:
    """A file of which parts are copied when they are first read; used as a `LocalFile`."""

    damage: CorruptShardError | None = None

    def __init__(self, shard: ShardFile, parts: RemoteParts) -> None:
        self.path, self.size, self._parts = shard.path, shard.bytes, parts
        version = file_version(self.path) if shard.entry is None else shard_version(shard.entry)
        name = copy_name(self.path, version)
        self.copy = parts.folder.open(name, self.size) if self.size else None
        self.address = self.copy.address if self.copy is not None and can_copy_mapped() else 0

    def check(self) -> None:
        """Do nothing: a copy stays as it is."""

    def holds(self, begins: Positions, ends: Positions) -> npt.NDArray[np.bool_]:
        """Return for each range whether its bytes are in the copy, and need not be fetched."""
        if self.copy is None:
            return np.zeros(len(begins), bool)
        missing = np.cumsum(np.append(0, ~self.copy.parts()))
        found: npt.NDArray[np.bool_] = (
            missing[-(-ends // PART_BYTES)] == missing[begins // PART_BYTES]
        )
        return found

    def holds_all(self, begin: int, end: int) -> bool:
        """Return whether the bytes of a range are in the copy."""
        return self.copy is not None and self.copy.holds(begin, end)

    def read(self, begin: int, end: int) -> Any:
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
        """Begins to fetch parts, where they will find room."""
        for part in () if self._parts.is_ranged else _parts_of(begin, end):
            first = part * PART_BYTES
            is_there = self.holds_all(first, min(first + PART_BYTES, self.size))
            if not is_there and (self.path, part) not in self._parts.recent:
                self._parts.ahead.submit(self._part, part)

    def forget(self, begin: int, end: int) -> bool:
        """Drops copies of damaged bytes."""
        for part in _parts_of(begin, end):
            self._parts.recent.forget((self.path, part))
        if self.copy is not None:
            self.copy.forget(begin, end)
        return True

    def _part(self, part: int) -> bytes:
        """The bytes of a part, which whoever asks for first fetches."""
        key, begin = (self.path, part), part * PART_BYTES
        end = min(begin + PART_BYTES, self.size)

        def fetch() -> bytes:
            if self.copy is not None and self.copy.holds(begin, end):
                return self.copy.read(begin, end)
            data = self._range(begin, end)
            if self.copy is not None and self.copy.store(part, data):
                self._parts.recent.forget(key)  # memory is for what finds no room
            return data

        return self._parts.recent.get(key, fetch)

    def _range(self, begin: int, end: int) -> bytes:
        with naming_what_went(self.path):
            data = read_range(self.path, start=begin, stop=end)
        if len(data) != end - begin:
            wanted, got = f"{end - begin} bytes", f"{len(data)} of them"
            raise CorruptShardError.at(
                self.path, expected=wanted, got=got, offset=begin, advice=CHANGED
            )
        return data


def _parts_of(begin: int, end: int) -> range:
    return range(begin // PART_BYTES, -(-end // PART_BYTES))
