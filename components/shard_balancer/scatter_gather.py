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
from components.shard_balancer.changes import Changes, Tally
from components.shard_balancer.inputs import InputShard
from components.shard_balancer.layout import SplitLayout, Task
from components.shard_balancer.records import Chunk, PlacedRecords
from trainer_utils.dataset import read_index, read_shard_blocks
from trainer_utils.dataset.inspection import DatasetFacts
from trainer_utils.format import (
    DatasetError,
    RecordBlock,
    RecordIndex,
    Shard,
    ShardName,
    ShardWriter,
    combine_checksums,
    multiset_checksum,
    read_blocks,
)
from trainer_utils.format.tfrecord import BLOCK_BYTES
from trainer_utils.storage import join, make_folder, open_for_reading, write_atomically
from trainer_utils.writing.shards import verify_shard, write_shard

__all__ = [
    "Reading",
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
        layout: of the split.
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


@dataclasses.dataclass
class Reading:
    """What was read of the input.

    Args:
        content: the order-free checksum of the records, by number of the input they are of.
        kept: the same of the records as they go on, of which some may be changed or left out.
        facts: what their features are, by number of an input that does not say.
    """

    content: dict[int, int] = dataclasses.field(default_factory=dict)
    kept: dict[int, int] = dataclasses.field(default_factory=dict)
    facts: dict[int, DatasetFacts] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, infer: Iterable[int]) -> "Reading":
        """Of nothing yet; `infer`: the numbers of the inputs that do not say their features."""
        return cls(facts={source: DatasetFacts() for source in infer})

    def merge(self, other: "Reading", *, where: str) -> None:
        """Adds what another thread read; `where` goes into the error where facts differ."""
        for mine, others in ((self.content, other.content), (self.kept, other.kept)):
            for source, content in others.items():
                mine[source] = combine_checksums([mine.get(source, 0), content])
        for source, facts in other.facts.items():
            self.facts[source].merge(facts, where=where)

    def add(self, source: int, read: RecordBlock, kept: RecordBlock) -> None:
        """Takes in a block of an input, as it was read and as it goes on."""
        content = _content(read)
        going_on = content if kept is read else _content(kept)
        for sums, more in ((self.content, content), (self.kept, going_on)):
            sums[source] = combine_checksums([sums.get(source, 0), more])


def read_changed(
    given: InputShard,
    reading: Reading,
    changes: Changes | None,
    *,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[RecordBlock]:
    """The verified blocks of a shard, as they go on; those of which nothing does are left out.

    Args:
        given: the shard.
        reading: what was read is added to it, and to its facts of an input where it has some.
        changes: what is to be changed; None: nothing.
        block_bytes: about how much is read at a time.

    Raises:
        CorruptShardError: the shard is damaged.
    """
    source, shard = given.source, given.shard
    tally = Tally()  # the survey has counted the same
    index = read_index(shard) if shard.index_path is not None else None
    for block in read_shard_blocks(shard.path, block_bytes=block_bytes, index=index):
        kept = block
        if changes is not None:
            kept = changes.apply(block, tally, path=shard.path, source=source)
        reading.add(source, block, kept)
        if not len(kept):
            continue
        if source in reading.facts:
            reading.facts[source].add(kept, path=shard.path, takes_lists=False)
        yield kept


def read_group(
    group: ShardGroup,
    reading: Reading,
    *,
    changes: Changes | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[_Placed]:
    """The verified blocks of a group, each with its records' places.

    Args:
        group: the shards.
        reading: what was read is added to it, and to its facts of an input where it has some.
        changes: what is to be changed of the records.
        block_bytes: about how much is read at a time.

    Raises:
        CorruptShardError: a shard is damaged.
        DatasetError: it has another number of records than was planned with.
    """
    for first, records, given in group.shards:
        number = first
        for block in read_changed(given, reading, changes, block_bytes=block_bytes):
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


def read_groups(
    groups: Sequence[ShardGroup],
    reading: Reading,
    *,
    changes: Changes | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[_Placed]:
    """Like `read_group`, for groups that fit into memory: several shards at a time, in order."""
    parts = [ShardGroup(group.layout, (item,)) for group in groups for item in group.shards]
    readings = [Reading.of(reading.facts) for _ in parts]

    def read(part: ShardGroup, own: Reading) -> list[_Placed]:
        return list(read_group(part, own, changes=changes, block_bytes=block_bytes))

    # Reading and filling new memory are the system's work, at which threads help each other.
    with futures.ThreadPoolExecutor(_SHARDS_AT_ONCE) as pool:
        for blocks, part, own in zip(pool.map(read, parts, readings), parts, readings, strict=True):
            reading.merge(own, where=part.shards[0][2].shard.path)
            yield from blocks


def scatter_records(
    group: ShardGroup,
    tasks: Sequence[Task],
    reading: Reading,
    *,
    uri: str,
    memory_bytes: int,
    changes: Changes | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[tuple[int, int, RunPart]]:
    """Writes a group as runs that are sorted by place.

    Args:
        group: what to read.
        tasks: of its split.
        reading: what was read is added to it.
        uri: of the new dataset, in whose working folder the runs go.
        memory_bytes: of a run.
        changes: what is to be changed of the records.
        block_bytes: about how much is read or joined at a time.

    Yields:
        For each bucket that a run has records of: number of task, number of bucket, part.
    """
    held = PlacedRecords()
    for block, places in read_group(group, reading, changes=changes, block_bytes=block_bytes):
        held.add(block, places)
        if held.held_bytes >= memory_bytes:
            yield from _write_run(held, tasks, uri, block_bytes)
            held = PlacedRecords()
    if held.held_bytes:
        yield from _write_run(held, tasks, uri, block_bytes)


def _write_run(
    held: PlacedRecords, tasks: Sequence[Task], uri: str, block_bytes: int
) -> Iterator[tuple[int, int, RunPart]]:
    run = join(working_folder(uri), f"run-{uuid.uuid4().hex}")
    make_folder(working_folder(uri))
    places = held.arrange()
    ends = RecordIndex(held.lengths).offsets
    with write_atomically(run, temporary_folder=working_folder(uri)) as stream:
        for chunk in held.chunks(block_bytes=block_bytes):
            stream.write(b"".join(chunk.frames) if isinstance(chunk.frames, list) else chunk.frames)
    with write_atomically(_places_of(run), temporary_folder=working_folder(uri)) as stream:
        stream.write(places.tobytes())
    for number, task in enumerate(tasks):
        cuts = np.searchsorted(places, task.bounds).tolist()
        for bucket, (start, stop) in enumerate(itertools.pairwise(cuts)):
            if start < stop:
                part = RunPart(run, int(ends[start]), int(ends[stop]), start, stop)
                yield number, bucket, part


def gather_task(
    task: Task,
    parts: Mapping[int, Iterable[_Placed]],
    *,
    uri: str,
    gzip: bool,
    block_bytes: int = BLOCK_BYTES,
) -> list[Shard]:
    """Writes the shards of a task, and reads them back.

    Args:
        task: which shards.
        parts: for each bucket its records, by number of bucket; each is read when its turn comes.
        uri: of the new dataset.
        gzip: whether to compress.
        block_bytes: about how much is joined, written and read back at a time.

    Raises:
        CorruptShardError: an input, a temporary file or a new shard is damaged.
        DatasetError: not every place gets exactly one record.
    """
    layout = task.layout
    chunks = _ordered(task, parts, block_bytes)
    shards = []
    # Written while the next shard is put together: reading back waits for the disk.
    with futures.ThreadPoolExecutor(1) as pool:
        checks = []
        for index in range(task.first_shard, task.last_shard + 1):
            name = ShardName(
                split=layout.split, shard_index=index, num_shards=layout.num_shards, gzip=gzip
            )
            size = layout.bounds[index + 1] - layout.bounds[index]
            fill = functools.partial(_write_next, chunks, size)
            shards.append(write_shard(name, fill, uri=uri))
            checks.append(pool.submit(verify_shard, shards[-1], uri=uri, block_bytes=block_bytes))
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


def read_part(part: RunPart, *, block_bytes: int = BLOCK_BYTES) -> Iterator[_Placed]:
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


def _content(block: RecordBlock) -> int:
    return multiset_checksum(block.lengths, block.payload_crcs)


def _places_of(run: str) -> str:
    return f"{run}.places"
