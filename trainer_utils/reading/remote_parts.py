"""Files that are elsewhere, of which parts are copied when they are first read.

    parts = RemoteParts(CacheFolder("/nvme/cache"), is_global=False)
    file = CachedFile(shard, parts)
    file.read_ahead(0, 5 << 20)         # begins to fetch its first six parts
    file.read(0, 100)

Parts are fetched once, whoever asks, and kept in the cache folder as long as there is room; then
some are held in memory, or, where records are read from everywhere, these alone are fetched.
"""

import functools
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from trainer_utils.dataset.shards import ShardFile
from trainer_utils.format import CorruptShardError
from trainer_utils.reading.shard_bytes import CHANGED, File, naming_what_went
from trainer_utils.storage import read_range
from trainer_utils.storage.cache_folder import (
    PART_BYTES,
    CacheFolder,
    Copy,
    copy_name,
    shard_version,
)
from trainer_utils.storage.files import file_version

__all__ = ["CachedFile", "RemoteParts", "Run"]

_MOST_RECENT = 512  # parts that are held in memory, for want of room on the disk: twice a block
_FETCHES, _READS = 16, 32  # requests at once: of parts ahead, and of what is waited for

Run = tuple[int, int, int]
"""The index of a shard, and where some bytes of it begin and end."""


class CachedFile(File):
    """A file of which parts are copied when they are first read."""

    def __init__(self, shard: ShardFile, parts: "RemoteParts") -> None:
        self.path, self.size, self._parts = shard.path, shard.bytes, parts
        self.copy = parts.copy_of(shard) if shard.bytes else None

    def holds(self, begin: int, end: int) -> bool:
        """Whether some bytes are in the copy."""
        return self.copy is not None and self.copy.holds(begin, end)

    def read(self, begin: int, end: int) -> Any:
        """As of `File`."""
        if self.copy is not None and self.copy.holds(begin, end):
            return self.copy.memory[begin:end]
        return self._parts.fetched(self, begin, end)

    def read_ahead(self, begin: int, end: int) -> None:
        """As of `File`."""
        self._parts.read_ahead(self, begin, end)

    def forget(self, begin: int, end: int) -> bool:
        """As of `File`."""
        self._parts.forget(self, begin, end)
        if self.copy is not None:
            self.copy.forget(begin, end)
        return True


class RemoteParts:
    """Fetches parts of remote files, once each, and keeps them as there is room.

    Args:
        folder: of the copies.
        is_global: whether records are read from everywhere, so that where there is no room a part
            of which one is needed would be fetched for that one.
    """

    def __init__(self, folder: CacheFolder, *, is_global: bool) -> None:
        self._folder, self._is_global = folder, is_global
        self._lock = threading.Lock()
        self._coming: dict[tuple[str, int], Future[bytes]] = {}
        self._recent: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    @functools.cached_property
    def _ahead(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_FETCHES, thread_name_prefix="tfx-shards-parts")

    @functools.cached_property
    def _reads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_READS, thread_name_prefix="tfx-shards-reads")

    def copy_of(self, shard: ShardFile) -> Copy | None:
        """Where parts of a shard are kept; None where there is no room at all."""
        entry = shard.entry
        version = file_version(shard.path) if entry is None else shard_version(entry)
        return self._folder.open(copy_name(shard.path, version), shard.bytes)

    def fetch(self, files: Mapping[int, File], runs: Sequence[Run]) -> dict[Run, bytes]:
        """All of some runs that is not in copies, fetched at the same time."""
        missing = []
        for run in runs:
            file = files[run[0]]
            if isinstance(file, CachedFile) and not file.holds(*run[1:]):
                missing.append((run, file))
        if not missing:
            return {}
        found = self._reads.map(lambda one: self.fetched(one[1], *one[0][1:]), missing)
        return dict(zip([run for run, _ in missing], found, strict=True))

    def read_ahead(self, file: CachedFile, begin: int, end: int) -> None:
        """Begins to fetch parts, where they will find room."""
        if self._is_ranged:
            return
        for part in range(begin // PART_BYTES, -(-end // PART_BYTES)):
            key, place = (file.path, part), part * PART_BYTES
            with self._lock:
                is_there = key in self._coming or key in self._recent
            if not is_there and not file.holds(place, min(place + PART_BYTES, file.size)):
                self._ahead.submit(self._part, file, part)

    def forget(self, file: CachedFile, begin: int, end: int) -> None:
        """Drops parts that are held in memory."""
        with self._lock:
            for part in range(begin // PART_BYTES, -(-end // PART_BYTES)):
                self._recent.pop((file.path, part), None)

    @property
    def _is_ranged(self) -> bool:
        return self._is_global and self._folder.is_full

    def fetched(self, file: CachedFile, begin: int, end: int) -> bytes:
        """The bytes of a run that is not in a copy, or was not a moment ago."""
        if self._is_ranged:
            return _range(file, begin, end)
        pieces = []
        for part in range(begin // PART_BYTES, -(-end // PART_BYTES)):
            first = part * PART_BYTES
            start, stop = max(begin - first, 0), min(end - first, PART_BYTES)
            pieces.append(self._part(file, part)[start:stop])
        return b"".join(pieces)

    def _part(self, file: CachedFile, part: int) -> bytes:
        """The bytes of a part, which whoever asks for first fetches."""
        key = file.path, part
        begin = part * PART_BYTES
        end = min(begin + PART_BYTES, file.size)
        with self._lock:
            if (recent := self._recent.get(key)) is not None:
                self._recent.move_to_end(key)
                return recent
            if file.copy is not None and file.holds(begin, end):
                return bytes(file.copy.memory[begin:end])
            coming = self._coming.get(key)
            own: Future[bytes] = Future()
            if coming is None:
                self._coming[key] = own
        if coming is not None:
            return coming.result()
        try:
            data = _range(file, begin, end)
            is_kept = file.copy is not None and file.copy.store(part, data)
            with self._lock:
                if not is_kept:
                    self._recent[key] = data
                while len(self._recent) > _MOST_RECENT:
                    self._recent.popitem(last=False)
            own.set_result(data)
            return data
        except BaseException as error:
            own.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._coming[key]


def _range(file: CachedFile, begin: int, end: int) -> bytes:
    with naming_what_went(file.path):
        data = read_range(file.path, start=begin, stop=end)
    if len(data) != end - begin:
        raise CorruptShardError.at(
            file.path,
            expected=f"{end - begin} bytes",
            got=f"{len(data)} of them",
            offset=begin,
            advice=CHANGED,
        )
    return data
