"""Shuffle the records of a split, through sorted runs on disk if necessary.

The output position of a record is its index in the new order of the split; a shard holds the
positions between two bounds. Positions come from a formula, so workers need not receive them. Only
with stratification are they a table, kept in a file.

Records that fit into memory need no file: `gather(0, held=[run_of(frames, positions)])`. Otherwise
the shuffle is a radix sort on disk, so that files opened and bytes read per file stay linear in the
data for any size:

1. The output positions are cut into cells that fit into memory.
2. `scatter` writes runs: files of sorted records, with one piece for each of at most `fan_out`
   groups of cells. Pieces are about a MiB or larger.
3. If there are more cells than `fan_out`, `divide` reads the pieces of one group from all runs and
   writes runs of that group alone, cut into smaller groups. This repeats until a group is a cell.
4. `gather` reads the pieces of a cell, sorts them, and writes shards.

A run consists of Arrow streams, one for each piece, followed by their offsets as int64.
"""

import dataclasses
import functools
import itertools
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent import futures
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from components.shuffle.split_layout import POSITION_BYTES, Ints, SplitLayout
from trainer_utils import storage
from trainer_utils.core.errors import DatasetError
from trainer_utils.format import RecordBlock, Shard, ShardName, ShardWriter
from trainer_utils.format.tfrecord import (
    BLOCK_BYTES,
    RECORD_OVERHEAD_BYTES,
    check_frames,
    footers_of,
    unframe,
)
from trainer_utils.writing.shards import verify_shard, write_shard
from trainer_utils.writing.working_folder import working_folder

HELD_TIMES = 3
"""Copies of records in memory while they are sorted: original, joined, and sorted."""

BATCH_BYTES = 1 << 20
"""Bytes checked and written at a time: it fits into a core's cache, and keeps calls few."""

_MAX_CELLS = 1 << 20
_PIECE_BYTES = 1 << 20  # a smaller read costs a disk or a store as much as one of this size
_MIN_FAN_OUT, _MAX_FAN_OUT = 16, 256
_READERS = 16  # concurrent requests to a store


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardTask:
    """Neighbouring shards that one worker writes, one after the other."""

    first_shard: int
    stop_shard: int  # the first shard after the task
    # Bounds of the output positions in memory at a time: all at once, or in parts if a single shard
    # is larger than memory
    cuts: tuple[int, ...]


def plan_tasks(
    layout: SplitLayout, record_bytes: float | Iterable[Ints], *, memory_bytes: int
) -> tuple[ShardTask, ...]:
    """Return the fewest tasks that hold at most `memory_bytes` at a time, in order of position.

    A single record that is larger is held alone.

    Args:
        layout: the output positions.
        record_bytes: memory of each record in the order of the input, as consecutive arrays; or the
            mean.
        memory_bytes: the maximum of memory for records.
    """
    step = max(1, -(-layout.num_records // _MAX_CELLS))
    grid = np.arange(0, layout.num_records + 1, step, dtype=np.int64)
    cells = np.union1d(np.array(layout.bounds, np.int64), grid)  # output positions
    held, first = np.zeros(len(cells) - 1), 0
    if isinstance(record_bytes, float):
        held = np.ceil(np.diff(cells) * record_bytes)
    else:
        for chunk_bytes in record_bytes:
            owners = (
                np.searchsorted(cells, layout.positions(first, first + len(chunk_bytes)), "right")
                - 1
            )
            held += np.bincount(owners, weights=chunk_bytes, minlength=len(held))
            first += len(chunk_bytes)
    ends = np.concatenate([[0], np.cumsum(held)])
    places = np.searchsorted(cells, layout.bounds).tolist()  # indices of the shards among the cells
    tasks, shard = list[ShardTask](), 0
    while shard < layout.num_shards:
        stop = shard + 1
        limit = ends[places[shard]] + memory_bytes
        while stop < layout.num_shards and ends[places[stop + 1]] <= limit:
            stop += 1
        cuts = [places[shard]]
        while cuts[-1] < places[stop]:
            limit = ends[cuts[-1]] + memory_bytes
            fitting = int(np.searchsorted(ends, limit, side="right")) - 1
            cuts.append(min(max(fitting, cuts[-1] + 1), places[stop]))
        bounds = tuple(cells[cuts].tolist())
        tasks.append(ShardTask(first_shard=shard, stop_shard=stop, cuts=bounds))
        shard = stop
    return tuple(tasks)


class FramedBatch(NamedTuple):
    """Neighbouring records of a shard, framed end to end, as `ShardWriter` takes them."""

    frames: bytes | memoryview
    lengths: Ints
    payload_crcs: npt.NDArray[np.uint32]
    names: npt.NDArray[np.uint32] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExternalShuffle:
    """The shuffle of one split.

    A level of the shuffle divides groups of cells into smaller ones. A group is known by its level
    and its index there; the group of all cells is the only one of level 0, and groups of the
    last level are single cells.
    """

    uri: str  # the folder of the new dataset
    layout: SplitLayout  # the output positions
    tasks: tuple[ShardTask, ...]  # the tasks by number
    run_bytes: int  # memory of a run, in bytes
    block_bytes: int = BLOCK_BYTES  # bytes read back at a time

    @property
    def _root(self) -> str:
        return storage.join(working_folder(self.uri), f"runs/{self.layout.split}")

    @property
    def fan_out(self) -> int:
        """Maximum number of groups that a group is divided into."""
        return min(max(self.run_bytes // _PIECE_BYTES, _MIN_FAN_OUT), _MAX_FAN_OUT)

    @functools.cached_property
    def _cell_bounds(self) -> Ints:
        """Output positions where cells begin, and the end of the last, `(cells + 1,)`."""
        firsts = (task.cuts[:-1] for task in self.tasks)
        bounds = [*itertools.chain.from_iterable(firsts), self.layout.num_records]
        return np.array(bounds, np.int64)

    @functools.cached_property
    def _first_cells(self) -> Sequence[int]:
        """The number of cells before each task."""
        counts = (len(task.cuts) - 1 for task in self.tasks)
        return [*itertools.accumulate(counts, initial=0)]

    @property
    def num_cells(self) -> int:
        """Number of cells. Each fits into memory."""
        return len(self._cell_bounds) - 1

    @functools.cached_property
    def _widths(self) -> Sequence[int]:
        """Cells in a group of each level. Groups are equal, except for the last of a level."""
        levels, reach = 1, self.fan_out
        while reach < self.num_cells:
            levels, reach = levels + 1, reach * self.fan_out
        fan_out = math.ceil(self.num_cells ** (1 / levels))
        while fan_out**levels < self.num_cells:  # rounding of the root
            fan_out += 1
        return [max(self.num_cells, 1), *(fan_out**level for level in reversed(range(levels)))]

    @property
    def divisions(self) -> Sequence[Sequence[tuple[int, int]]]:
        """Groups to `divide`, as level and index, one list for each level; often none."""
        return [
            [(level, index) for index in range(-(-self.num_cells // width))]
            for level, width in enumerate(self._widths[1:-1], 1)
        ]

    def scatter(self, run: str, records: pa.RecordBatch) -> None:
        """Write records, as returned by `run_of`, as a run; a retry writes the same file."""
        self._write_run(0, 0, run, records)

    def divide(self, level: int, index: int) -> None:
        """Read the pieces of a group from all runs, and write runs of that group.

        Call it for every item of `divisions`, one level after the other, after all calls of
        `scatter`. A retry writes the same files.
        """
        held: list[pa.RecordBatch] = []
        number = size = 0
        for piece in self._pieces(level, index):
            held.append(piece)
            size += piece.nbytes
            if size >= self.run_bytes:
                self._write_run(level, index, f"{number:06d}", _concatenated(held))
                held, number, size = [], number + 1, 0
        if held:
            self._write_run(level, index, f"{number:06d}", _concatenated(held))

    def remove_runs(self, level: int) -> None:
        """Remove the runs that level `level` has been divided from."""
        storage.remove_tree(self._folder(level - 1))

    def gather(self, number: int, *, held: list[pa.RecordBatch] | None = None) -> list[Shard]:
        """Write the shards of a task, and read them back.

        Args:
            number: the number of the task.
            held: all of its records, as returned by `run_of`; the list is emptied. None: read the
                records of all runs.

        Raises:
            CorruptShardError: a run or a new shard is damaged.
            DatasetError: not every position gets exactly one record.
        """
        task, layout, last = self.tasks[number], self.layout, len(self._widths) - 1
        bounds = layout.bounds[task.first_shard : task.stop_shard + 1]
        batches = itertools.chain.from_iterable(
            self._framed_batches(
                held if held is not None else [*self._pieces(last, cell)],
                span,
                bounds,
                held is None,
            )
            for cell, span in enumerate(itertools.pairwise(task.cuts), self._first_cells[number])
        )
        shards = range(task.first_shard, task.stop_shard)
        sizes = np.diff(bounds).tolist()
        named = zip(map(layout.shard_name, shards), sizes, strict=True)
        return write_shards(named, batches, uri=self.uri, block_bytes=self.block_bytes)

    def _folder(self, level: int, index: int | None = None) -> str:
        """Return the folder of the runs of a group, or of all groups of a level."""
        folder = storage.join(self._root, str(level))
        return folder if index is None else storage.join(folder, f"{index:06d}")

    def _children(self, level: int, index: int) -> tuple[int, int]:
        """Return the index of the first group that a group is divided into, and their number."""
        width, inner = self._widths[level : level + 2]
        first, stop = index * width, min((index + 1) * width, self.num_cells)
        return first // inner, -(-(stop - first) // inner)

    def _write_run(self, level: int, index: int, name: str, records: pa.RecordBatch) -> None:
        """Write records of a group as a run, with a piece for each smaller group."""
        first, count = self._children(level, index)
        cells = np.arange(first, first + count + 1) * self._widths[level + 1]
        cuts = self._cell_bounds[np.minimum(cells, self.num_cells)]
        positions = records.column(0).to_numpy()
        order = np.argsort(positions, kind="stable")
        records = records.take(pa.array(order))
        bounds = np.searchsorted(positions[order], cuts).tolist()
        pieces = [records.slice(a, b - a) for a, b in itertools.pairwise(bounds)]
        path = storage.join(self._folder(level, index), name)
        write_run(path, working_folder(self.uri), pieces)

    def _pieces(self, level: int, index: int) -> Iterator[pa.RecordBatch]:
        """Yield the pieces of a group from the runs of the group that contains it."""
        outer = index * self._widths[level] // self._widths[level - 1]
        folder = self._folder(level - 1, outer)
        first, count = self._children(level - 1, outer)
        names = sorted(storage.list_names(folder, may_lack=True))

        def read(name: str) -> pa.RecordBatch:
            path = storage.join(folder, name)
            return storage.retry_transient(
                path, read_piece, path, number=index - first, count=count
            )

        readers = _READERS if storage.is_remote(folder) else 1
        with futures.ThreadPoolExecutor(readers) as pool:
            for start in range(0, len(names), readers):
                for piece in pool.map(read, names[start : start + readers]):
                    if piece.num_rows:
                        yield piece

    def _framed_batches(
        self,
        batches: list[pa.RecordBatch],
        span: tuple[int, int],
        bounds: Sequence[int],
        are_files: bool,
    ) -> Iterator[FramedBatch]:
        """Yield the records of a cell in order, in batches that do not cross the end of a shard."""
        start, stop = span
        positions_of_batches = [batch.column(0).to_numpy() for batch in batches]
        positions = np.concatenate([np.zeros(0, np.int64), *positions_of_batches])
        order = np.argsort(positions, kind="stable")
        if not np.array_equal(positions[order], np.arange(start, stop)):
            raise DatasetError(
                f"split {self.layout.split!r}: expected one record for each of the positions "
                f"{start} to {stop}, got {len(positions)} records. "
                "The dataset was changed meanwhile: run it again."
            )
        frames = _joined([batch.column(1) for batch in batches])
        names = pa.concat_arrays([batch.column(2) for batch in batches])
        batches.clear()
        step = max(1, int(BATCH_BYTES * len(frames) / max(1, frames.nbytes)))
        cuts = np.union1d(np.arange(start, stop, step), np.clip(bounds, start, stop))
        for first, last in itertools.pairwise([*cuts.tolist(), stop]):
            if first < last:
                rows = pa.array(order[first - start : last - start])
                yield _framed_batch(
                    frames.take(rows), names.take(rows), self._root if are_files else None
                )


def _framed_batch(frames: pa.Array, names: pa.Array, path: str | None) -> FramedBatch:
    """Return framed records as a batch; verify them if they come from a file."""
    _, offsets, data = frames.buffers()
    ends: Ints = np.frombuffer(offsets, np.int64)[1 : len(frames) + 1]
    lengths = np.diff(ends, prepend=0) - RECORD_OVERHEAD_BYTES
    known = None if names.null_count else names.to_numpy()
    octets = data.slice(0, int(ends[-1])).to_pybytes()
    if path is None:
        return FramedBatch(octets, lengths, footers_of(octets, ends), known)
    starts = ends - lengths - RECORD_OVERHEAD_BYTES
    crcs, is_whole = check_frames(octets, starts, ends)
    if not is_whole.all():
        bad = int(is_whole.argmin())
        unframe(octets[starts[bad] : ends[bad]], path=path, offset=int(starts[bad]))
    return FramedBatch(octets, lengths, crcs, known)


def write_shards(
    shards: Iterable[tuple[ShardName, int]],
    batches: Iterator[FramedBatch],
    *,
    uri: str,
    block_bytes: int,
) -> list[Shard]:
    """Write shards with the given numbers of records, and read them back.

    Each batch belongs to one shard.
    """

    def fill(records: int, writer: ShardWriter) -> None:
        while records:
            batch = next(batches)
            writer.write_framed(*batch)
            records -= len(batch.lengths)

    written = []
    # Write one shard while the next is assembled: reading back waits for the disk.
    with futures.ThreadPoolExecutor(1) as pool:
        checks = []
        for name, records in shards:
            written.append(write_shard(name, functools.partial(fill, records), uri=uri))
            checks.append(pool.submit(verify_shard, written[-1], uri=uri, block_bytes=block_bytes))
        for result in checks:
            result.result()
    return written


def run_of(
    frames: list[pa.Array], positions: Sequence[Ints], names: npt.NDArray[np.uint32] | None = None
) -> pa.RecordBatch:
    """Return framed records in the form that `ExternalShuffle` takes.

    Args:
        frames: binary arrays; the list is emptied.
        positions: for each array, the output positions of its records, `(records,) int64`.
        names: `(records,) uint32`, the CRC-32C of the records' names; None: compute it.
    """
    joined = _joined(frames)
    frames.clear()
    columns = [
        pa.array(np.concatenate([np.zeros(0, np.int64), *positions])),
        joined,
        pa.nulls(len(joined), pa.uint32()) if names is None else pa.array(names),
    ]
    return pa.RecordBatch.from_arrays(columns, ["position", "frame", "name"])


def frames_of(block: RecordBlock) -> pa.Array:
    """Return the frames of a block without copying."""
    offsets = np.append(block.starts, len(block.data))
    buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(block.data)]
    return pa.Array.from_buffers(pa.large_binary(), len(block), buffers)


def write_run(path: str, folder: str, pieces: Sequence[pa.RecordBatch]) -> None:
    """Write the pieces of a run: Arrow streams, followed by their offsets as int64."""
    storage.make_folder(path.rpartition("/")[0])
    with storage.write_atomically(path, temporary_folder=folder) as stream:
        offsets = [0]
        for piece in pieces:
            with pa.BufferOutputStream() as sink:
                with pa.ipc.new_stream(sink, piece.schema) as writer:
                    writer.write_batch(piece)
                octets = sink.getvalue()
            stream.write(octets)
            offsets.append(offsets[-1] + octets.size)
        stream.write(np.array(offsets, np.int64).tobytes())


def read_piece(path: str, *, number: int, count: int) -> pa.RecordBatch:
    """Read one of `count` pieces of a run; raise `DatasetError` if the file has changed."""
    index_bytes = (count + 1) * POSITION_BYTES
    with storage.open_for_reading(path) as stream:
        end = max(stream.seek(0, os.SEEK_END) - index_bytes, 0)
        stream.seek(end)
        octets = stream.read(index_bytes)
        offsets: Ints = np.frombuffer(octets[: len(octets) & -POSITION_BYTES], np.int64)
        if len(offsets) != count + 1 or offsets[-1] != end or (np.diff(offsets) <= 0).any():
            raise _changed_run(path, f"damaged offsets of {count} pieces before byte {end}")
        start, stop = offsets[number : number + 2].tolist()
        stream.seek(start)
        octets = stream.read(stop - start)
    try:
        return pa.ipc.open_stream(octets).read_next_batch()
    except (pa.ArrowInvalid, OSError, StopIteration) as error:
        raise _changed_run(path, str(error)) from error


def _changed_run(path: str, got: str) -> DatasetError:
    rule = "records that this run wrote, which the disk or the store changed"
    return DatasetError.at(path, expected=rule, got=got, advice="Run it again")


def write_batches(path: str, folder: str, batches: Sequence[pa.RecordBatch]) -> None:
    """Write Arrow record batches of one schema to a file of the working folder."""
    storage.make_folder(path.rpartition("/")[0])
    with (
        storage.write_atomically(path, temporary_folder=folder) as stream,
        pa.ipc.new_file(stream, batches[0].schema) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)


def read_batch(path: str, number: int) -> pa.RecordBatch:
    """Read a batch written by `write_batches`; raise `DatasetError` if the file has changed."""
    try:
        if not storage.is_remote(path):
            return pa.ipc.open_file(pa.memory_map(path)).get_batch(number)
        with storage.open_for_reading(path) as stream, pa.PythonFile(stream, "r") as source:
            return pa.ipc.open_file(source).get_batch(number)
    except pa.ArrowInvalid as error:
        raise _changed_run(path, str(error)) from error


def _concatenated(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return a copy of the records of several batches as one batch."""
    columns = [
        pa.concat_arrays([batch.column(0) for batch in batches]),
        _joined([batch.column(1) for batch in batches]),
        pa.concat_arrays([batch.column(2) for batch in batches]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


def _joined(arrays: Sequence[pa.Array]) -> pa.Array:
    """Concatenate binary arrays. Otherwise Arrow would do so each time rows are taken."""
    large = [array.cast(pa.large_binary()) for array in arrays]  # 32-bit offsets might overflow
    if len(large) == 1:
        return large[0]
    return pa.concat_arrays(large) if large else pa.array([], pa.large_binary())
