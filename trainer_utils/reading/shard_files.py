"""The bytes of shards, wherever they lie: local files, gzip, parts of remote ones.

    files = ShardFiles(shards, options, mean_bytes=120.0)
    begins, ends = files.bounds(indices, numbers)       # of records' frames in their shards
    data, starts = files.gather(indices, begins, ends)

What lies side by side is read at once, and no more files are open than may be. Of remote files, and
with `cache=` of local ones, parts are kept in the cache folder.
"""

import contextlib
import itertools
import resource
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils.dataset.shards import ShardFile, believed_index
from trainer_utils.format import CorruptShardError, RecordIndex
from trainer_utils.format.tfrecord import scan_until_damage
from trainer_utils.options import CacheOptions, InputOptions
from trainer_utils.reading.remote_parts import CachedFile, RemoteParts, Run
from trainer_utils.reading.shard_bytes import (
    CHANGED,
    File,
    LocalFile,
    UnpackedFile,
    naming_what_went,
    resized,
)
from trainer_utils.storage import file_size, open_for_reading
from trainer_utils.storage.cache_folder import PART_BYTES, CacheFolder
from trainer_utils.storage.file_system import is_remote

__all__ = ["ShardFiles"]

_LONG_BYTES = 8 << 10  # a record
_PADDING = bytes(16)  # after the last record, so that who parses reads nothing past the end
_MOST_OPEN = 512  # files of which each holds a descriptor or two
_MOST_OFFSETS = 64 << 20  # of records, 8 bytes each, that are held
_INDICES_AT_ONCE = 16

Positions = npt.NDArray[np.int64]


class ShardFiles:
    """Opens shards when they are first read; for several threads.

    Args:
        shards: all of them.
        options: of the input: its cache, `shuffle` and `on_corrupt` count here.
        mean_bytes: of a record.

    Attributes:
        damage: what is wrong with shards, by index, behind the last record that they have.
    """

    def __init__(
        self, shards: Sequence[ShardFile], options: InputOptions, *, mean_bytes: float
    ) -> None:
        self.damage: dict[int, CorruptShardError] = {}
        self._shards, self._is_long = shards, mean_bytes >= _LONG_BYTES
        self._is_strict = options.on_corrupt != "skip"
        self.reads_ahead = self._is_long
        """Whether it is worth while to say what is read soon."""
        self._parts: RemoteParts | None = None
        self._caches_all, cache = options.cache is not None, options.cache or CacheOptions()
        if self._caches_all or any(is_remote(shard.path) for shard in shards):
            assert isinstance(cache, CacheOptions)
            folder = CacheFolder(cache.folder, cache.max_bytes)
            self._parts = RemoteParts(folder, is_global=options.shuffle == "global")
            self.reads_ahead = True
        self._lock = threading.Lock()  # of the open files
        self._opening: dict[int, threading.Lock] = {}
        self._open: OrderedDict[int, File] = OrderedDict()
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4
        self._most_open = max(1, min(_MOST_OPEN, descriptors) // (1 if self._parts is None else 2))
        self._loading = threading.Lock()  # of the offsets: those of a shard are side by side
        self._first = np.full(len(shards), -1, np.int64)
        self._counts = np.zeros(len(shards), np.int64)
        self._offsets, self._used = np.zeros(1 << 16, np.int64), 0
        self._crcs, self._has_crcs = np.zeros(1 << 16, np.uint32), np.zeros(len(shards), bool)

    def bounds(
        self, indices: Positions, numbers: Positions
    ) -> tuple[Positions, Positions, npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
        """Where records' frames begin and end in their shards; -1 where there are not so many.

        Beside them the masked CRC-32C of each as the index of its shard says it, and whether it
        does.

        Args:
            indices: `(n,)`, of shards.
            numbers: `(n,)`, of records in them.

        Raises:
            CorruptShardError: a shard is not there, or is not the one of its dataset, unless what
                is damaged is skipped.
        """
        with self._loading:
            self._load(indices)
            counts, offsets = self._counts[indices], self._offsets
            is_there = numbers < counts
            places = self._first[indices] + np.minimum(numbers, counts)
            begins, ends = offsets[places], offsets[places + is_there]
            sums, are_known = self._crcs[places], self._has_crcs[indices]
        if not is_there.all():
            begins[~is_there] = ends[~is_there] = -1
        return begins, ends, sums, are_known

    def gather(
        self, indices: Positions, begins: Positions, ends: Positions
    ) -> tuple[Any, Positions] | None:
        """The bytes between some begins and ends, and where in them each row's begin.

        Args:
            indices: `(n,)`, of shards.
            begins, ends: `(n,)`, in bytes.

        Returns:
            None where a shard was written to, so that its records begin elsewhere now.

        Raises:
            CorruptShardError: as `bounds`.
        """
        order, runs = _runs(indices, begins, ends, gap=0)
        lengths = (ends - begins)[order]
        places = np.empty(len(order), np.int64)
        places[order] = np.cumsum(lengths) - lengths
        data = None
        if self._is_long:
            data = np.empty(int(lengths.sum()) + len(_PADDING), np.uint8)
        parts: list[Any] = []
        place = 0
        for some in _by_shards(runs, self._most_open):
            files = {index: self._file(index) for index in {run[0] for run in some}}
            for index, file in files.items():
                if not self._is_as_it_was(index, file):
                    return None
            fetched = {} if self._parts is None else self._parts.fetch(files, some)
            if data is None and self._parts is None:  # a call for each would take as long as all
                memory = {index: file.memory for index, file in files.items()}
                parts += [memory[index][begin:end] for index, begin, end in some]
                continue
            for run in some:
                index, begin, end = run
                if data is None:
                    parts.append(fetched[run] if run in fetched else files[index].read(begin, end))
                elif run in fetched:
                    data[place : place + end - begin] = np.frombuffer(fetched[run], np.uint8)
                else:
                    files[index].read_into(data[place : place + end - begin], begin)
                place += end - begin
        return (b"".join([*parts, _PADDING]) if data is None else data), places

    def read_ahead(self, indices: Positions, numbers: Positions) -> None:
        """Has records at hand soon; returns at once, but for what says where they lie."""
        begins, ends, _, _ = self.bounds(indices, numbers)
        found = begins >= 0
        runs = _runs(indices[found], begins[found], ends[found], gap=PART_BYTES // 4)[1]
        for index, begin, end in runs:
            self._file(index).read_ahead(begin, end)

    def forget(self, index: int, begin: int, end: int) -> bool:
        """Drops copies of damaged bytes; False: there are none."""
        return self._file(index).forget(begin, end)

    def _is_as_it_was(self, index: int, file: File) -> bool:
        """Whether nobody has written to a file since it was opened."""
        try:
            file.check()
        except CorruptShardError:
            if self._is_strict:
                raise
            with self._loading:
                self._first[index] = -1
            with self._lock:
                self._open.pop(index, None)
            return False
        return True

    def _file(self, index: int) -> File:
        file = self._open.get(index)
        if file is not None:
            with contextlib.suppress(KeyError):  # it just went
                self._open.move_to_end(index)
            return file
        with self._lock:
            lock = self._opening.setdefault(index, threading.Lock())
        with lock:
            file = self._open.get(index) or self._opened(self._shards[index])
            with self._lock:
                self._open[index] = file
                while len(self._open) > self._most_open:
                    self._open.popitem(last=False)
            return file

    def _opened(self, shard: ShardFile) -> File:
        with naming_what_went(shard.path):
            size = shard.bytes if is_remote(shard.path) else file_size(shard.path)
            if size != shard.bytes and self._is_strict:
                raise resized(shard.path, shard.bytes, size)
            if shard.is_gzip:
                file = UnpackedFile(shard.path, is_mapped=not self._is_long)
                if file.damage is not None and self._is_strict:
                    raise file.damage
                return file
            if self._parts is not None and (self._caches_all or is_remote(shard.path)):
                return CachedFile(shard, self._parts)
            stream = open_for_reading(shard.path)
            return LocalFile(shard.path, stream, is_mapped=not self._is_long)

    def _load(self, indices: Positions) -> None:
        """Has the offsets of these shards."""
        if (self._first[indices] >= 0).all():
            return
        if self._used > _MOST_OFFSETS:  # those that were needed before go, all of them
            self._first[:], self._used = -1, 0
        missing = [i for i in np.unique(indices).tolist() if self._first[i] < 0]
        if self._parts is None or len(missing) == 1:
            found = [self._index_of(index) for index in missing]
        else:
            with ThreadPoolExecutor(_INDICES_AT_ONCE) as pool:
                found = list(pool.map(self._index_of, missing))
        for index, places in zip(missing, found, strict=True):
            stop = self._used + len(places) + 1
            if stop > len(self._offsets):
                self._offsets = np.concatenate([self._offsets, np.empty(stop, np.int64)])
                self._crcs = np.concatenate([self._crcs, np.empty(stop, np.uint32)])
            self._offsets[self._used : stop] = places.offsets
            self._has_crcs[index] = places.payload_crcs is not None
            if places.payload_crcs is not None:
                self._crcs[self._used : stop - 1] = places.payload_crcs
            self._first[index], self._counts[index] = self._used, len(places)
            self._used = stop

    def _index_of(self, index: int) -> RecordIndex:
        """Where each record of a shard lies."""
        shard = self._shards[index]
        try:
            file = self._file(index)
        except CorruptShardError as error:
            if self._is_strict:
                raise
            self.damage[index] = error
            return RecordIndex(np.zeros(0, np.int64))
        found = believed_index(shard.path, size=file.size, entry=shard.entry)
        damage = file.damage
        if found is None:
            lengths, behind = scan_until_damage(file.stream(), path=shard.path)
            damage, found = damage or behind, RecordIndex(lengths)
        offsets = found.offsets
        if self._is_strict and shard.records is not None and len(offsets) - 1 > shard.records:
            raise CorruptShardError.at(
                shard.path,
                expected=f"{shard.records} records, as its dataset says",
                got=str(len(offsets) - 1),
                record=shard.records,
                offset=int(offsets[shard.records]),
                advice=CHANGED,
            )
        if damage is not None:
            if self._is_strict and len(offsets) - 1 == shard.records:
                raise damage  # behind the last record
            self.damage[index] = damage
        return found


def _runs(
    indices: Positions, begins: Positions, ends: Positions, *, gap: int
) -> tuple[Positions, list[Run]]:
    """The order of rows by file, and the runs of bytes that are no more than a gap apart in it."""
    order = np.lexsort((begins, indices))
    shards, starts, stops = indices[order], begins[order], ends[order]
    is_new = np.ones(len(order), bool)
    apart = starts[1:] - stops[:-1]
    is_new[1:] = (shards[1:] != shards[:-1]) | (apart > gap) | ((apart != 0) & (not gap))
    firsts = np.flatnonzero(is_new)
    lasts = np.append(firsts, len(order))[1:] - 1
    columns = shards[firsts], starts[firsts], stops[lasts]
    return order, list(zip(*(column.tolist() for column in columns), strict=True))


def _by_shards(runs: list[Run], most: int) -> Iterator[list[Run]]:
    """Runs in groups of no more shards than may be open."""
    if not runs or len(runs) <= most:
        yield runs
        return
    firsts = [n for n, run in enumerate(runs) if n == 0 or run[0] != runs[n - 1][0]]
    bounds = [*firsts[::most], len(runs)]
    for start, stop in itertools.pairwise(bounds):
        yield runs[start:stop]
