"""Records brought into the order of their output positions, through sorted runs.

A run is a file of Arrow's in the working folder: a batch for each cut of each task. What fits into
memory needs no file: `gather(0, held=[run_of(frames, positions)])` is the same within one worker.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from concurrent import futures
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from components.shuffle.layout import ShardTask, SplitLayout
from trainer_utils import storage
from trainer_utils.format import DatasetError, RecordBlock, Shard, ShardName, ShardWriter
from trainer_utils.format.tfrecord import (
    BLOCK_BYTES,
    RECORD_OVERHEAD_BYTES,
    check_frames,
    footers_of,
    unframe,
)
from trainer_utils.writing.publishing import working_folder
from trainer_utils.writing.shards import verify_shard, write_shard

Ints = npt.NDArray[np.int64]

HELD_TIMES = 3
"""How often records are held while they are put in order: as they came, joined, and sorted."""

_LOT_BYTES = 1 << 20  # what a core's cache holds, and few calls of the system


class Lot(NamedTuple):
    """Some neighbouring records of a shard, framed end to end, as `ShardWriter` takes them."""

    frames: bytes | memoryview
    lengths: Ints
    payload_crcs: npt.NDArray[np.uint32]
    names: npt.NDArray[np.uint32] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExternalShuffle:
    """One order for the records of a split."""

    uri: str  # of the dataset that is written
    layout: SplitLayout  # which records are which shard's
    tasks: tuple[ShardTask, ...]  # of the shards, by number
    block_bytes: int = BLOCK_BYTES  # how much is read back at a time

    @property
    def _folder(self) -> str:
        return storage.join(working_folder(self.uri), f"runs/{self.layout.split}")

    def scatter(self, run: str, records: pa.RecordBatch) -> None:
        """Writes records, as `run_of` gives them, as a run; a retry writes the same again."""
        positions = records.column(0).to_numpy()
        order = np.argsort(positions, kind="stable")
        ends = itertools.chain.from_iterable(task.cuts for task in self.tasks)
        cuts = np.unique([*ends, self.layout.num_records])
        bounds = np.searchsorted(positions[order], cuts).tolist()
        records = records.take(pa.array(order))
        batches = [records.slice(a, b - a) for a, b in itertools.pairwise(bounds)]
        write_batches(storage.join(self._folder, run), working_folder(self.uri), batches)

    def gather(self, number: int, *, held: list[pa.RecordBatch] | None = None) -> list[Shard]:
        """Writes the shards of a task, and reads them back.

        Args:
            held: all of its records, as `run_of` gives them; emptied. None: those of all runs.

        Raises:
            CorruptShardError: a run or a new shard is damaged.
            DatasetError: not every position gets exactly one record.
        """
        task, layout = self.tasks[number], self.layout
        first = sum(len(one.cuts) - 1 for one in self.tasks[:number])
        bounds = layout.bounds[task.first_shard : task.stop_shard + 1]
        lots = itertools.chain.from_iterable(
            self._lots(held if held is not None else self._runs(cell), span, bounds, held is None)
            for cell, span in enumerate(itertools.pairwise(task.cuts), first)
        )
        shards = range(task.first_shard, task.stop_shard)
        sizes = np.diff(bounds).tolist()
        named = zip(map(layout.shard_name, shards), sizes, strict=True)
        return write_shards(named, lots, uri=self.uri, block_bytes=self.block_bytes)

    def _runs(self, cell: int) -> list[pa.RecordBatch]:
        names = sorted(storage.list_names(self._folder))
        return [read_batch(storage.join(self._folder, name), cell) for name in names]

    def _lots(
        self,
        batches: list[pa.RecordBatch],
        span: tuple[int, int],
        bounds: Sequence[int],
        are_files: bool,
    ) -> Iterator[Lot]:
        """The records of a cell in order, in lots of which none reaches across a shard's end."""
        start, stop = span
        found = [batch.column(0).to_numpy() for batch in batches]
        positions = np.concatenate([np.zeros(0, np.int64), *found])
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
        step = max(1, int(_LOT_BYTES * len(frames) / max(1, frames.nbytes)))
        cuts = np.union1d(np.arange(start, stop, step), np.clip(bounds, start, stop))
        for first, last in itertools.pairwise([*cuts.tolist(), stop]):
            if first < last:
                rows = pa.array(order[first - start : last - start])
                yield _lot(frames.take(rows), names.take(rows), self._folder if are_files else None)


def _lot(frames: pa.Array, names: pa.Array, path: str | None) -> Lot:
    """Framed records as a lot; checked where they come from a file."""
    _, offsets, data = frames.buffers()
    ends: Ints = np.frombuffer(offsets, np.int64)[1 : len(frames) + 1]
    lengths = np.diff(ends, prepend=0) - RECORD_OVERHEAD_BYTES
    known = None if names.null_count else names.to_numpy()
    octets = data.slice(0, int(ends[-1])).to_pybytes()
    if path is None:
        return Lot(octets, lengths, footers_of(octets, ends), known)
    starts = ends - lengths - RECORD_OVERHEAD_BYTES
    crcs, is_whole = check_frames(octets, starts, ends)
    if not is_whole.all():
        bad = int(is_whole.argmin())
        unframe(octets[starts[bad] : ends[bad]], path=path, offset=int(starts[bad]))
    return Lot(octets, lengths, crcs, known)


def write_shards(
    shards: Iterable[tuple[ShardName, int]], lots: Iterator[Lot], *, uri: str, block_bytes: int
) -> list[Shard]:
    """Writes shards, of so many records each, and reads them back; each lot is of one shard."""

    def fill(records: int, writer: ShardWriter) -> None:
        while records:
            lot = next(lots)
            writer.write_framed(*lot)
            records -= len(lot.lengths)

    written = []
    # Written while the next shard is put together: reading back waits for the disk.
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
    """Framed records as `ExternalShuffle` takes them.

    Args:
        frames: binary arrays; emptied.
        positions: of the records of each, `(records,) int64`, their output positions.
        names: `(records,) uint32`, the CRC-32C of what they are called; None: it is looked for.
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
    """The frames of a block, not copied."""
    offsets = np.append(block.starts, len(block.data))
    buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(block.data)]
    return pa.Array.from_buffers(pa.large_binary(), len(block), buffers)


def write_batches(path: str, folder: str, batches: Sequence[pa.RecordBatch]) -> None:
    """Keeps Arrow's record batches, one or more of one schema, as a file of the working folder."""
    storage.make_folder(path.rpartition("/")[0])
    with (
        storage.write_atomically(path, temporary_folder=folder) as stream,
        pa.ipc.new_file(stream, batches[0].schema) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)


def read_batch(path: str, number: int) -> pa.RecordBatch:
    """One of the batches that `write_batches` kept; a `DatasetError` where the file is another."""
    try:
        if not storage.is_remote(path):
            return pa.ipc.open_file(pa.memory_map(path)).get_batch(number)
        with storage.open_for_reading(path) as stream, pa.PythonFile(stream, "r") as source:
            return pa.ipc.open_file(source).get_batch(number)
    except pa.ArrowInvalid as error:
        rule = "rows that this run kept, which the disk or the store changed"
        raise DatasetError.at(path, expected=rule, got=f"{error}", advice="Run it again") from error


def _joined(arrays: Sequence[pa.Array]) -> pa.Array:
    """Binary arrays as one; Arrow would join them anew each time that some rows are taken."""
    large = [array.cast(pa.large_binary()) for array in arrays]  # 32 bits might not reach
    if len(large) == 1:
        return large[0]
    return pa.concat_arrays(large) if large else pa.array([], pa.large_binary())
