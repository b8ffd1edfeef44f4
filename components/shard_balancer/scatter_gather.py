"""Moves records, in their frames, to the shards that the plan gives them: plain functions.

A task whose records fit into memory is gathered directly from the input. Otherwise there are two
passes: `scatter_records` reads some input once and writes it as a run, sorted by place;
`gather_task` reads the part of every run that belongs to its shards, as much at a time as memory
may hold.
"""

import dataclasses
import functools
import itertools
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from components.common.summaries import working_folder
from components.shard_balancer.changes import Tally
from components.shard_balancer.inputs import InputShard
from components.shard_balancer.layout import SplitLayout, Task
from components.shard_balancer.move import Move, Moved
from components.shard_balancer.records import Chunk, PlacedRecords
from trainer_utils.dataset import read_shard_blocks
from trainer_utils.format import (
    DatasetError,
    RecordBlock,
    RecordIndex,
    Shard,
    ShardWriter,
    read_blocks,
)
from trainer_utils.storage import join, make_folder, open_for_reading, write_atomically
from trainer_utils.writing.shards import verify_shard, write_shard

__all__ = [
    "RunPart",
    "ShardGroup",
    "gather_task",
    "read_changed",
    "read_group",
    "read_groups",
    "read_part",
    "scatter_records",
]

_SHARDS_AT_ONCE = 2

_Placed = tuple[RecordBlock, npt.NDArray[np.int64]]


@dataclasses.dataclass(frozen=True)
class ShardGroup:
    """Some input shards of a split that are read one after the other.

    Args:
        shards: each with the number of its first record within the split, and its records.
    """

    layout: SplitLayout
    shards: tuple[tuple[int, int, InputShard], ...]

    @property
    def key(self) -> str:
        """Its name among all groups."""
        return f"{self.layout.split}-{self.shards[0][0]:012d}-{self.shards[0][2].source:04d}"


@dataclasses.dataclass(frozen=True)
class RunPart:
    """The part of a run that belongs to one bucket: where it lies in the run's two files."""

    run: str
    first_byte: int
    stop_byte: int
    first_record: int
    stop_record: int


def read_changed(given: InputShard, move: Move, moved: Moved) -> Iterator[RecordBlock]:
    """The verified blocks of a shard, as they go on; those of which nothing does are left out.

    Args:
        moved: what was read is added to it, and to its facts of an input where it has some.

    Raises:
        CorruptShardError: the shard is damaged.
    """
    source, shard, changes = given.source, given.shard, move.changes()
    tally = Tally()  # the survey has counted the same
    block_bytes = move.settings.block_bytes
    for block in read_shard_blocks(shard.path, block_bytes=block_bytes):
        kept = block
        if changes is not None:
            kept = changes.apply(block, tally, path=shard.path, source=source)
        moved.add(source, block, kept)
        if not len(kept):
            continue
        if source in moved.facts:
            moved.facts[source].add(kept, path=shard.path, takes_lists=False)
        yield kept


def read_group(group: ShardGroup, move: Move, moved: Moved) -> Iterator[_Placed]:
    """The verified blocks of a group as `read_changed` has them, each with its records' places.

    Raises:
        CorruptShardError: a shard is damaged.
        DatasetError: it has another number of records than was planned with.
    """
    for first, records, given in group.shards:
        number = first
        for block in read_changed(given, move, moved):
            stop = number + len(block)
            if stop > first + records:
                number = stop
                break
            yield block, group.layout.places(number, stop)
            number = stop
        if number != first + records:
            more = "more" if number > first + records else str(number - first)
            raise DatasetError(
                f"shard {given.shard.path!r}: expected {records} records as the dataset says, "
                f"got {more}. The dataset was changed: write it again.",
                path=given.shard.path,
            )


def read_groups(groups: Sequence[ShardGroup], move: Move, moved: Moved) -> Iterator[_Placed]:
    """Like `read_group`, for groups that fit into memory: several shards at a time, in order."""
    parts = [ShardGroup(group.layout, (item,)) for group in groups for item in group.shards]

    def read(part: ShardGroup) -> tuple[list[_Placed], Moved]:
        own = move.start()
        return list(read_group(part, move, own)), own

    # Reading and filling new memory are the system's work, at which threads help each other.
    with futures.ThreadPoolExecutor(_SHARDS_AT_ONCE) as pool:
        for part, (blocks, own) in zip(parts, pool.map(read, parts), strict=True):
            moved.merge(own, where=part.shards[0][2].shard.path)
            yield from blocks


def scatter_records(
    group: ShardGroup, tasks: Sequence[Task], move: Move, moved: Moved
) -> Iterator[tuple[int, int, RunPart]]:
    """Writes a group as runs that are sorted by place, in the working folder.

    Args:
        move, moved: as `read_changed` takes them.

    Yields:
        For each bucket that a run has records of: number of task, number of bucket, part.
    """
    held = PlacedRecords()
    for block, places in read_group(group, move, moved):
        held.add(block, places)
        if held.held_bytes >= move.settings.held_bytes:
            yield from _write_run(held, tasks, move)
            held = PlacedRecords()
    if held.held_bytes:
        yield from _write_run(held, tasks, move)


def _write_run(
    held: PlacedRecords, tasks: Sequence[Task], move: Move
) -> Iterator[tuple[int, int, RunPart]]:
    folder = working_folder(move.uri)
    run = join(folder, f"run-{uuid.uuid4().hex}")
    make_folder(folder)
    places = held.arrange()
    ends = RecordIndex(held.lengths).offsets
    with write_atomically(run, temporary_folder=folder) as stream:
        for chunk in held.chunks(block_bytes=move.settings.block_bytes):
            stream.write(b"".join(chunk.frames) if isinstance(chunk.frames, list) else chunk.frames)
    with write_atomically(_places_of(run), temporary_folder=folder) as stream:
        stream.write(places.tobytes())
    for number, task in enumerate(tasks):
        cuts = np.searchsorted(places, task.bounds).tolist()
        for bucket, (start, stop) in enumerate(itertools.pairwise(cuts)):
            if start < stop:
                part = RunPart(run, int(ends[start]), int(ends[stop]), start, stop)
                yield number, bucket, part


def gather_task(task: Task, parts: Mapping[int, Iterable[_Placed]], move: Move) -> list[Shard]:
    """Writes the shards of a task, and reads them back.

    Args:
        parts: for each bucket its records, by number of bucket; each is read when its turn comes.

    Raises:
        CorruptShardError: an input, a temporary file or a new shard is damaged.
        DatasetError: not every place gets exactly one record.
    """
    layout, settings = task.layout, move.settings
    chunks = _ordered(task, parts, settings.block_bytes)
    shards = []
    # Written while the next shard is put together: reading back waits for the disk.
    with futures.ThreadPoolExecutor(1) as pool:
        checks = []
        for index in range(task.first_shard, task.last_shard + 1):
            name = layout.shard_name(index, gzip=settings.gzip)
            size = layout.bounds[index + 1] - layout.bounds[index]
            fill = functools.partial(_write_next, chunks, size)
            shard = write_shard(name, fill, uri=move.uri)
            shards.append(shard)
            checks.append(
                pool.submit(verify_shard, shard, uri=move.uri, block_bytes=settings.block_bytes)
            )
        for check in checks:
            check.result()
    assert next(chunks, None) is None  # and so all was read, even of a split that loses all of it
    return shards


def _ordered(
    task: Task, parts: Mapping[int, Iterable[_Placed]], block_bytes: int
) -> Iterator[Chunk]:
    """A task's records in order of place, one bucket in memory at a time."""
    cuts = np.array(task.layout.bounds[task.first_shard : task.last_shard + 2], np.int64)
    for bucket, (start, stop) in enumerate(itertools.pairwise(task.bounds)):
        held = PlacedRecords()
        for block, places in parts.get(bucket, ()):
            held.add(block, places)
        places = held.arrange()
        if len(places) != stop - start or not _counts_up(places, start):
            raise DatasetError(
                f"split {task.layout.split!r}: expected one record for each of the places {start} "
                f"to {stop}, got {len(places)} records. "
                "The dataset was changed meanwhile: run it again."
            )
        yield from held.chunks(cuts, block_bytes=block_bytes)


def _counts_up(places: npt.NDArray[np.int64], start: int) -> bool:
    return not len(places) or (int(places[0]) == start and bool((np.diff(places) == 1).all()))


def _write_next(chunks: Iterator[Chunk], records: int, writer: ShardWriter) -> None:
    while records:
        chunk = next(chunks)
        writer.write_framed(chunk.frames, chunk.lengths, chunk.payload_crcs)
        records -= len(chunk)


def read_part(part: RunPart, *, block_bytes: int) -> Iterator[_Placed]:
    """The verified records of a part of a run, each block with its places."""
    with open_for_reading(_places_of(part.run)) as stream:
        stream.seek(part.first_record * 8)
        places = np.frombuffer(stream.read((part.stop_record - part.first_record) * 8), np.int64)
    number = 0
    with open_for_reading(part.run) as stream:
        stream.seek(part.first_byte)
        limited = _Limited(stream, part.stop_byte - part.first_byte)
        for block in read_blocks(limited, path=part.run, block_bytes=block_bytes):  # type: ignore[arg-type]
            yield block, places[number : number + len(block)]
            number += len(block)


class _Limited:
    """The next `size` bytes of a stream."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream, self._size = stream, size

    def read(self, size: int) -> bytes:
        data = self._stream.read(min(size, self._size))
        self._size -= len(data)
        return data


def _places_of(run: str) -> str:
    return f"{run}.places"
