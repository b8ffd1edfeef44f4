"""Read the bytes of shards: local files, gzip, and remote files through `remote_files`.

    files = ShardFiles(shards, options, mean_bytes=120.0)
    begins, ends, *_ = files.bounds(indices, numbers)   # of records' frames in their shards
    data, starts = files.gather(indices, begins, ends)

Short records are copied out of mapped files, many with one system call. A call for each record
would cost more than everything else. Accessing an unreadable page directly would end the process.
"""

import contextlib
import os
import resource
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from trainer_utils.dataset.opening import load_index_or_none, open_records
from trainer_utils.format import CorruptShardError, RecordIndex
from trainer_utils.format.layouts import ShardFile
from trainer_utils.format.tfrecord import scan_until_damage
from trainer_utils.machine import SingleFlightCache
from trainer_utils.options import CacheOptions, InputOptions
from trainer_utils.reading.record_offsets import (
    IndexSource,
    RecordOffsets,
    WholeIndex,
    open_sliced,
)
from trainer_utils.storage import (
    FileRefusedError,
    MachineError,
    file_size,
    is_remote,
    open_for_reading,
)
from trainer_utils.storage.open_files import (
    FileMapping,
    MappedReader,
    can_copy_mapped,
    read_at,
    read_bytes_at,
)

if TYPE_CHECKING:
    from trainer_utils.reading.remote_files import CachedFile, RemoteParts

CHANGED = "It has been modified since its dataset was opened. Open the dataset again."
_UNPACKED_AT_ONCE = 64 << 10  # bytes before the damage in a gzip file that may be lost
_LONG_BYTES = 8 << 10  # bytes; longer records are read with a call each
_PADDING = bytes(16)  # after the last record, so that parsers may read past its end
_MAX_OPEN = 512  # open files, with one or two descriptors each
_MAX_MAPPED = 1 << 14  # files that are mapped; Linux allows 65,530 mappings in a process
_INDICES_AT_ONCE = 16
_MAX_GAP = 256 << 10  # bytes between records that are requested together

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]
Run: TypeAlias = tuple[int, int, int]
"""The index of a shard, and the begin and end of some of its bytes."""
Runs: TypeAlias = tuple[Positions, Positions, Positions]
"""Columns of runs: shard, begin and end."""


class LocalFile:
    """A local file whose bytes are read, or copied out of a mapping if records are short.

    Args:
        path: the path of the shard.
        stream: the open file. A mapped file is closed, unless the stream is the only way to it.
        is_mapped: whether to map the file into memory.
        is_temporary: whether the stream is a temporary file without a name.

    Attributes:
        size: the size of the framed records in bytes.
        address: the address of the mapping, or 0.
        damage: the error of a file that is damaged as a whole.
    """

    damage: CorruptShardError | None = None

    def __init__(
        self, path: str, stream: Any, *, is_mapped: bool, is_temporary: bool = False
    ) -> None:
        self.path = path
        self.size = os.fstat(stream.fileno()).st_size
        self._mapping = FileMapping(stream.fileno(), self.size if is_mapped else 0)
        self.address = self._mapping.address
        self._stream = None if self.address and not is_temporary else stream
        if self._stream is None:
            stream.close()
        else:
            weakref.finalize(self, stream.close).atexit = False

    @classmethod
    def unpacked(cls, path: str, *, is_mapped: bool) -> "LocalFile":
        """Unpack a compressed file to a temporary one, up to the first damage.

        Raises:
            MachineError: the disk is full.
        """
        damage = None
        with _naming_temporary_folder(path):
            stream = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 it is closed with the file
        try:
            with open_records(path) as packed:
                while data := packed.read(_UNPACKED_AT_ONCE):
                    with _naming_temporary_folder(path):
                        while data:
                            data = data[stream.write(data) :]
        except CorruptShardError as error:
            damage = error
        except BaseException:
            stream.close()
            raise
        file = cls(path, stream, is_mapped=is_mapped, is_temporary=True)
        file.damage = damage
        return file

    @contextlib.contextmanager
    def _descriptor(self) -> Iterator[int]:
        """Yield a descriptor of the file, which is opened again if it was closed."""
        if self._stream is not None:
            yield self._stream.fileno()
            return
        with translate_missing_shard(self.path), open_for_reading(self.path) as stream:
            yield stream.fileno()

    def check(self) -> None:
        """Raise a CorruptShardError if the size has changed since the file was opened."""
        if self._stream is not None:
            size = os.fstat(self._stream.fileno()).st_size
        else:
            with translate_missing_shard(self.path):
                size = file_size(self.path)
        if size != self.size:
            raise _resized(self.path, self.size, size)

    def read(self, begin: int, end: int) -> bytes:
        """Return the bytes of a range, fewer at the end of the file."""
        with self._descriptor() as descriptor:
            return read_bytes_at(descriptor, begin, end, path=self.path)

    def read_into(self, view: Bytes, begin: int) -> int:
        """Fill a view with bytes; return their number, less than its size in a truncated file."""
        with self._descriptor() as descriptor:
            return read_at(descriptor, view, begin, path=self.path)

    def read_ahead(self, begin: int, end: int) -> None:
        """Ask the system to load bytes that are needed soon."""
        if not self.address and hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError), self._descriptor() as descriptor:
                os.posix_fadvise(descriptor, begin, end - begin, os.POSIX_FADV_WILLNEED)

    def holds(self, begins: Positions, ends: Positions) -> npt.NDArray[np.bool_]:
        """Return for each range whether it can be read without fetching; always true here."""
        return np.ones(len(begins), bool)

    def holds_all(self, begin: int, end: int) -> bool:
        """Return whether a range can be read without fetching; always true here."""
        return True

    def forget(self, begin: int, end: int) -> bool:
        """Return False, since a local file has no copies to drop."""
        return False


File: TypeAlias = "LocalFile | CachedFile"


class _Stream:
    """A readable stream of all bytes of a file."""

    def __init__(self, file: File) -> None:
        self._file, self._place = file, 0

    def read(self, count: int) -> bytes:
        begin = self._place
        self._place = min(begin + count, self._file.size)
        return bytes(self._file.read(begin, self._place))


class ShardFiles:
    """Shards that are opened when they are first read, for several threads.

    Args:
        shards: the shards.
        options: the settings of the input.
        mean_bytes: the mean size of a record.

    Attributes:
        damage: the error of each damaged shard, by index. It affects the records after the last
            intact one.
        reads_ahead: whether calls of `read_ahead` make reading faster.
    """

    def __init__(
        self, shards: Sequence[ShardFile], options: InputOptions, *, mean_bytes: float
    ) -> None:
        self.damage: dict[int, CorruptShardError] = {}
        self._shards, self._is_long = shards, mean_bytes >= _LONG_BYTES
        self._is_mapped = not self._is_long and can_copy_mapped()
        self._mapped = MappedReader()
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
        self._most_open = max(1, min(_MAX_OPEN, descriptors) // (2 if self._parts else 1))
        if self._is_mapped and self._parts is None and not any(s.is_gzip for s in shards):
            self._most_open = _MAX_MAPPED
        self._open = SingleFlightCache[File](self._most_open)
        self._offsets = RecordOffsets(
            shards,
            self._open_index,
            reader=self._mapped,
            is_global=options.shuffle == "global",
            max_files=max(1, min(_MAX_OPEN, descriptors) // 4),
            readers=1 if self._parts is None else _INDICES_AT_ONCE,
        )

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
        order, (shards, starts, stops) = _runs(indices, begins, ends, gap=0)
        lengths = (ends - begins)[order]
        places = np.empty(len(order), np.int64)
        places[order] = np.cumsum(lengths) - lengths
        data = np.empty(int(lengths.sum()) + len(_PADDING) if self._is_long else 0, np.uint8)
        parts: list[bytes] = []
        names, firsts = _distinct(shards)
        bounds = np.append(firsts, len(shards)).tolist()
        place = 0
        for first in range(0, len(names), self._most_open):  # limit the number of open files
            last = min(first + self._most_open, len(names))
            files = {index: self._file(index) for index in names[first:last].tolist()}
            for file in files.values():
                file.check()
            some = slice(bounds[first], bounds[last])
            runs = shards[some], starts[some], stops[some]
            if self._is_long:
                place += self._read_into(files, runs, data[place:])
                continue
            copied = self._copy_mapped(files, runs) if self._is_mapped else None
            parts += self._read_each(files, runs) if copied is None else [copied]
        return (data if self._is_long else b"".join([*parts, _PADDING])), places

    def _copy_mapped(self, files: Mapping[int, File], runs: Runs) -> bytes | None:
        """Return the bytes of runs of mapped files, or None if some need another way of reading."""
        shards, starts, stops = runs
        if len(shards) and (stops - starts).mean() >= _LONG_BYTES:
            return None  # a call for each record is cheaper than a copy
        names, firsts = _distinct(shards)
        addresses = np.array([files[index].address for index in names.tolist()], np.int64)
        if not addresses.all():
            return None
        counts = np.diff(np.append(firsts, len(shards)))
        if self._parts is not None:
            for index, first, count in zip(*(names, firsts, counts), strict=True):
                own = slice(first, first + count)
                if not files[int(index)].holds(starts[own], stops[own]).all():
                    return None
        data, done = self._mapped.copy(np.repeat(addresses, counts) + starts, stops - starts)
        return data if done == len(shards) else None

    def _read_each(self, files: Mapping[int, File], runs: Runs) -> list[bytes]:
        """Return the bytes of each run, read or fetched."""
        rows = list(zip(*(column.tolist() for column in runs), strict=True))
        fetched = {} if self._parts is None else self._parts.fetch(files, rows)
        found = []
        for run in rows:
            index, begin, end = run
            found.append(fetched[run] if run in fetched else files[index].read(begin, end))
            _check_length(files[index], run, len(found[-1]))
        return found

    def _read_into(self, files: Mapping[int, File], runs: Runs, data: Bytes) -> int:
        """Read runs of bytes into an array, one after the other; return the number of bytes."""
        rows = list(zip(*(column.tolist() for column in runs), strict=True))
        fetched = {} if self._parts is None else self._parts.fetch(files, rows)
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

    def read_ahead(self, indices: Positions, numbers: Positions) -> None:
        """Start reading records that are needed soon; only their offsets are waited for."""
        begins, ends, _, _ = self.bounds(indices, numbers)
        found = begins >= 0
        runs = _runs(indices[found], begins[found], ends[found], gap=_MAX_GAP)[1]
        for index, begin, end in zip(*(column.tolist() for column in runs), strict=True):
            self._file(index).read_ahead(begin, end)

    def forget(self, index: int, begin: int, end: int) -> bool:
        """Drop copies of damaged bytes; return False if there are no copies."""
        return self._file(index).forget(begin, end)

    def _file(self, index: int) -> File:
        return self._open.get(index, lambda: self._opened(self._shards[index]))

    def _opened(self, shard: ShardFile) -> File:
        with translate_missing_shard(shard.path):
            size = shard.bytes if is_remote(shard.path) else file_size(shard.path)
            if size != shard.bytes and self._is_strict:
                raise _resized(shard.path, shard.bytes, size)
            if shard.is_gzip:
                file = LocalFile.unpacked(shard.path, is_mapped=self._is_mapped)
                if file.damage is not None and self._is_strict:
                    raise file.damage
                return file
            if self._parts is not None and (self._caches_all or is_remote(shard.path)):
                return self._parts.open(shard)
            stream = open_for_reading(shard.path)
            return LocalFile(shard.path, stream, is_mapped=self._is_mapped)

    def _open_index(self, index: int, is_whole: bool) -> IndexSource:
        """Open the index of a shard, or find its records by reading it."""
        if not is_whole:
            with contextlib.suppress(CorruptShardError):  # raised again below
                sliced = open_sliced(
                    self._shards[index], size=self._file(index).size, reader=self._mapped
                )
                if sliced is not None:
                    return sliced
        return WholeIndex(self._load_index(index))

    def _load_index(self, index: int) -> RecordIndex:
        """Load the index of a shard, or find its records by reading it."""
        shard = self._shards[index]
        try:
            file = self._file(index)
        except CorruptShardError as error:
            if self._is_strict:
                raise
            self.damage[index] = error
            return RecordIndex(np.zeros(0, np.int64))
        found, damage = load_index_or_none(shard, size=file.size), file.damage
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


def _distinct(shards: Positions) -> tuple[Positions, Positions]:
    """Return the distinct values of sorted indices, and the first place of each."""
    firsts = np.flatnonzero(np.append(True, shards[1:] != shards[:-1])[: len(shards)])
    return shards[firsts], firsts


@contextlib.contextmanager
def _naming_temporary_folder(path: str) -> Iterator[None]:
    """Raise a MachineError that names both files if a shard cannot be unpacked."""
    try:
        yield
    except OSError as error:
        folder = tempfile.tempdir or os.environ.get("TMPDIR", "/tmp")
        raise MachineError(
            f"{path!r}: cannot be unpacked in the temporary folder {folder!r}: "
            f"{error.strerror or error}. Make room there, set TMPDIR to another folder, or store "
            "the dataset without compression.",
            path=path,
            errno=error.errno,
        ) from error


@contextlib.contextmanager
def translate_missing_shard(path: str) -> Iterator[None]:
    """Raise a CorruptShardError if a shard is no longer a file."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, FileRefusedError) as error:
        is_other = isinstance(error, (IsADirectoryError, FileRefusedError))
        raise CorruptShardError.at(
            path,
            expected="a shard that exists while it is read",
            got="something else with that name" if is_other else "no such file",
            advice="It was removed, or the dataset is being rewritten. Open the dataset again.",
        ) from error


def _check_length(file: File, run: Run, count: int) -> None:
    """Raise a CorruptShardError if a run had fewer bytes: the file was truncated."""
    _, begin, end = run
    if count < end - begin:
        raise _resized(file.path, file.size, begin + count)


def _resized(path: str, expected: int, got: int) -> CorruptShardError:
    wanted = f"a file of {expected} bytes, as when its dataset was opened"
    offset = min(expected, got)
    return CorruptShardError.at(
        path, expected=wanted, got=f"one of {got}", offset=offset, advice=CHANGED
    )
