"""The bytes of shards, wherever they lie: local files, gzip, remote ones by `remote_files`.

    files = ShardFiles(shards, options, mean_bytes=120.0)
    begins, ends, *_ = files.bounds(indices, numbers)   # of records' frames in their shards
    data, starts = files.gather(indices, begins, ends)

Short records are cut out of mapped files: a call of the system for each would cost more than all.
"""

import contextlib
import mmap
import os
import resource
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from trainer_utils.dataset.opening import believed_index, open_records
from trainer_utils.format import CorruptShardError, RecordIndex
from trainer_utils.format.layouts import ShardFile
from trainer_utils.format.tfrecord import scan_until_damage
from trainer_utils.machine import MadeOnce
from trainer_utils.options import CacheOptions, InputOptions
from trainer_utils.storage import FileRefusedError, file_size, is_remote, open_for_reading

if TYPE_CHECKING:
    from trainer_utils.reading.remote_files import CachedFile, RemoteParts

CHANGED = "It was written to since its dataset was opened: open the dataset again."
_UNPACKED_AT_ONCE = 64 << 10  # so much of a damaged gzip file may be lost before the damage
_LONG_BYTES = 8 << 10  # a record
_PADDING = bytes(16)  # after the last record, so that who parses reads nothing past the end
_MOST_OPEN = 512  # files of which each holds a descriptor or two
_MOST_OFFSETS = 64 << 20  # of records, 8 bytes each, that are held
_INDICES_AT_ONCE = 16
_MOST_GAP = 256 << 10  # bytes between records that are asked for together

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]
Run: TypeAlias = tuple[int, int, int]
"""The index of a shard, and where some bytes of it begin and end."""


class LocalFile:
    """A local file, mapped into memory or read.

    Attributes:
        size: of the framed records, in bytes.
        memory: all of them, of a mapped file.
        damage: what is wrong with the file as a whole.
    """

    damage: CorruptShardError | None = None

    def __init__(self, path: str, stream: Any, *, is_mapped: bool) -> None:
        self.path, self._stream, self._is_mapped = path, stream, is_mapped
        self.size, self.memory = os.fstat(stream.fileno()).st_size, b""  # type: int, Any
        if is_mapped and self.size:
            self.memory = mmap.mmap(stream.fileno(), self.size, access=mmap.ACCESS_READ)
            stream.close()  # a mapping has a descriptor of its own

    @classmethod
    def unpacked(cls, path: str, *, is_mapped: bool) -> "LocalFile":
        """A gzip file, unpacked to a temporary one; as much of it as can be."""
        stream, damage = tempfile.TemporaryFile(), None  # noqa: SIM115 it is closed with the file
        try:
            with open_records(path) as packed:
                while data := packed.read(_UNPACKED_AT_ONCE):
                    stream.write(data)
        except CorruptShardError as error:
            damage = error
        stream.flush()
        file = cls(path, stream, is_mapped=is_mapped)
        file.damage = damage
        return file

    def check(self) -> None:
        """Refuses a file that has changed since it was opened."""
        size = self.memory.size() if self.memory else os.fstat(self._stream.fileno()).st_size
        if size != self.size:  # a look behind the end of a mapped file would end the process
            raise _resized(self.path, self.size, size)

    def read(self, begin: int, end: int) -> Any:
        """Some bytes."""
        if self._is_mapped:
            return self.memory[begin:end]
        return os.pread(self._stream.fileno(), end - begin, begin)

    def read_into(self, view: Bytes, begin: int) -> None:
        """As many bytes as there is room for; of a file cut short, records have other sums."""
        os.preadv(self._stream.fileno(), [view.data], begin)

    def read_ahead(self, begin: int, end: int) -> None:
        """Asks for bytes that are needed soon."""
        if not self._is_mapped and hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError):  # a file system that takes no advice
                os.posix_fadvise(self._stream.fileno(), begin, end - begin, os.POSIX_FADV_WILLNEED)

    def holds(self, begin: int, end: int) -> bool:
        """Whether some bytes need not be fetched."""
        return True

    def forget(self, begin: int, end: int) -> bool:
        """Drops copies of damaged bytes; False: there are none."""
        return False


File: TypeAlias = "LocalFile | CachedFile"


class _Stream:
    """All bytes of a file, in order."""

    def __init__(self, file: File) -> None:
        self._file, self._place = file, 0

    def read(self, count: int) -> bytes:
        begin = self._place
        self._place = min(begin + count, self._file.size)
        return bytes(self._file.read(begin, self._place))


class ShardFiles:
    """Opens shards when they are first read; for several threads.

    Attributes:
        damage: what is wrong with shards, by index, behind the last record that they have.
        counts: `(shards,) int64`, records of shards that were opened; of others the most there are.
        reads_ahead: whether it is worth while to say what is read soon.
    """

    def __init__(
        self, shards: Sequence[ShardFile], options: InputOptions, *, mean_bytes: float
    ) -> None:
        self.damage: dict[int, CorruptShardError] = {}
        self._shards, self._is_long = shards, mean_bytes >= _LONG_BYTES
        self._is_strict = options.on_corrupt != "skip"
        self._parts: RemoteParts | None = None
        self._caches_all, cache = options.cache is not None, options.cache or CacheOptions()
        if self._caches_all or any(is_remote(shard.path) for shard in shards):
            from trainer_utils.reading import remote_files

            assert isinstance(cache, CacheOptions)
            self._parts = remote_files.RemoteParts(
                cache.folder, cache.max_bytes, is_global=options.shuffle == "global"
            )
        self.reads_ahead = self._is_long or self._parts is not None
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4
        self._most_open = max(1, min(_MOST_OPEN, descriptors) // (1 if self._parts is None else 2))
        self._open = MadeOnce[File](self._most_open)
        self._loading = threading.Lock()  # of the offsets: those of a shard are side by side
        self._first = np.full(len(shards), -1, np.int64)
        self.counts = np.full(len(shards), np.iinfo(np.int64).max)
        self._offsets, self._used = np.zeros(1 << 16, np.int64), 0
        self._crcs, self._has_crcs = np.zeros(1 << 16, np.uint32), np.zeros(len(shards), bool)

    def bounds(
        self, indices: Positions, numbers: Positions
    ) -> tuple[Positions, Positions, npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
        """Where records' frames begin and end in their shards; -1 where there are not so many.

        Beside them the masked CRC-32C of each as the index of its shard says it, and whether it
        does. `indices` are of shards, `numbers` of records in them, `(n,)`. A shard that is not
        that of its dataset is an error, unless what is damaged is skipped.
        """
        with self._loading:
            self._load(indices)
            counts, offsets = self.counts[indices], self._offsets
            is_there = numbers < counts
            places = self._first[indices] + np.minimum(numbers, counts)
            begins, ends = offsets[places], offsets[places + is_there]
            sums, are_known = self._crcs[places], self._has_crcs[indices]
        if not is_there.all():
            begins[~is_there] = ends[~is_there] = -1
        return begins, ends, sums, are_known

    def gather(
        self, indices: Positions, begins: Positions, ends: Positions
    ) -> tuple[Any, Positions]:
        """The bytes between some begins and ends, and where in them each row's begin.

        Raises CorruptShardError where a shard was written to, whatever is skipped.
        """
        order, runs = _runs(indices, begins, ends, gap=0)
        lengths = (ends - begins)[order]
        places = np.empty(len(order), np.int64)
        places[order] = np.cumsum(lengths) - lengths
        parts: list[Any] = []
        data = np.empty(int(lengths.sum()) + len(_PADDING) if self._is_long else 0, np.uint8)
        place = 0
        for first in range(0, len(runs), self._most_open):
            some = runs[first : first + self._most_open]  # of no more shards than may be open
            files = {index: self._file(index) for index in {run[0] for run in some}}
            for file in files.values():
                file.check()
            fetched = {} if self._parts is None else self._parts.fetch(files, some)
            if self._is_long:
                for run in some:
                    index, begin, end = run
                    view = data[place : place + end - begin]
                    if run in fetched:
                        view[:] = np.frombuffer(fetched[run], np.uint8)
                    else:
                        files[index].read_into(view, begin)
                    place += end - begin
            elif self._parts is not None:
                parts += [fetched.get(run) or files[run[0]].read(*run[1:]) for run in some]
            else:  # a call for each would take as long as all
                memory = {index: file.memory for index, file in files.items()}
                parts += [memory[index][begin:end] for index, begin, end in some]
        return (data if self._is_long else b"".join([*parts, _PADDING])), places

    def read_ahead(self, indices: Positions, numbers: Positions) -> None:
        """Has records at hand soon; returns at once, but for what says where they lie."""
        begins, ends, _, _ = self.bounds(indices, numbers)
        found = begins >= 0
        runs = _runs(indices[found], begins[found], ends[found], gap=_MOST_GAP)[1]
        for index, begin, end in runs:
            self._file(index).read_ahead(begin, end)

    def forget(self, index: int, begin: int, end: int) -> bool:
        """Drops copies of damaged bytes; False: there are none."""
        return self._file(index).forget(begin, end)

    def _file(self, index: int) -> File:
        return self._open.get(index, lambda: self._opened(self._shards[index]))

    def _opened(self, shard: ShardFile) -> File:
        with naming_what_went(shard.path):
            size = shard.bytes if is_remote(shard.path) else file_size(shard.path)
            if size != shard.bytes and self._is_strict:
                raise _resized(shard.path, shard.bytes, size)
            if shard.is_gzip:
                file = LocalFile.unpacked(shard.path, is_mapped=not self._is_long)
                if file.damage is not None and self._is_strict:
                    raise file.damage
                return file
            if self._parts is not None and (self._caches_all or is_remote(shard.path)):
                return self._parts.open(shard)
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
            self._first[index], self.counts[index] = self._used, len(places)
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
        found, damage = believed_index(shard, size=file.size), file.damage
        if found is None:
            lengths, behind = scan_until_damage(_Stream(file), path=shard.path)  # type: ignore[arg-type]
            damage, found = damage or behind, RecordIndex(lengths)
        count = len(found)
        if self._is_strict and shard.records is not None and count > shard.records:
            raise CorruptShardError.at(
                shard.path,
                expected=f"{shard.records} records, as its dataset says",
                got=str(count),
                record=shard.records,
                offset=int(found.offsets[shard.records]),
                advice=CHANGED,
            )
        if damage is not None:
            if self._is_strict and count == shard.records:
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


def _resized(path: str, expected: int, got: int) -> CorruptShardError:
    wanted = f"a file of {expected} bytes, as when its dataset was opened"
    offset = min(expected, got)
    return CorruptShardError.at(
        path, expected=wanted, got=f"one of {got}", offset=offset, advice=CHANGED
    )
