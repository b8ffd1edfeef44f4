"""The workers' part of a balancing: survey input shards, scatter records into runs, write shards.

A split that fits into memory is one part. A shard whose records are in large local files is picked
from these, record by record: if the system can keep the files in memory, this costs one read per
record and holds none. With `keep_shards`, a part is a shard that stays.
"""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from components.balancing.inputs import InputShard
from components.shuffle.edits import EditCounts, Edits, parse_block
from components.shuffle.external import (
    BATCH_BYTES,
    ExternalShuffle,
    FramedBatch,
    frames_of,
    run_of,
    write_shards,
)
from trainer_utils.core.errors import DatasetError
from trainer_utils.dataset import read_index, read_shard_blocks
from trainer_utils.dataset.inspection import DatasetFacts
from trainer_utils.dataset.opening import check_count
from trainer_utils.format import (
    RecordBlock,
    RecordIndex,
    Shard,
    ShardName,
    ShardWriter,
    combine_checksums,
    multiset_checksum,
)
from trainer_utils.format.tfrecord import (
    RECORD_OVERHEAD_BYTES,
    Lengths,
    check_frames,
    compact,
)
from trainer_utils.storage import file_size, naming_file, open_for_reading
from trainer_utils.writing.shards import copy_shard, verify_shard, write_shard

Ints = npt.NDArray[np.int64]

_AHEAD_BYTES = 128 << 10  # the default read-ahead of Linux
OBJECT_BYTES = 96
"""Memory of a record in addition to its frame: offset, position, name, new position."""


@dataclasses.dataclass
class TaskResult:
    """The result of a part of a split: checksums, facts and counts."""

    split: str
    # The order-independent checksum of the records read, by the index of their input
    content: dict[int, int] = dataclasses.field(default_factory=dict)
    kept: int = 0  # the same checksum of the records after edits
    # Facts about the features of inputs without metadata, by index
    facts: dict[int, DatasetFacts] = dataclasses.field(default_factory=dict)
    counts: EditCounts = dataclasses.field(default_factory=EditCounts)  # the effects of edits
    shards: list[Shard] = dataclasses.field(default_factory=list)

    def add(self, source: int, read: int, kept: int) -> None:
        """Add the checksums of records of an input, before and after edits."""
        self.content[source] = combine_checksums([self.content.get(source, 0), read])
        self.kept = combine_checksums([self.kept, kept])


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobContext:
    """The context that all workers of a job share."""

    uri: str
    block_bytes: int  # bytes read at a time
    run_bytes: int  # bytes sorted at a time
    # The indices of inputs whose features are inferred while their records are read
    infer: frozenset[int] = frozenset()
    # The indices of inputs that this run has just written and read back
    verified: frozenset[int] = frozenset()
    edits: Edits = dataclasses.field(default_factory=Edits)
    shuffles: Mapping[str, ExternalShuffle] = dataclasses.field(default_factory=dict)  # by split

    def start(self, split: str) -> TaskResult:
        """Return an empty result, with empty facts for inputs whose features are inferred."""
        return TaskResult(split, facts={source: DatasetFacts() for source in self.infer})

    def read(self, input_shard: InputShard, result: TaskResult) -> Iterator[RecordBlock]:
        """Yield the verified, edited blocks of a shard, and add them to the result."""
        source, shard, records = input_shard.source, input_shard.shard, 0
        for block in read_shard_blocks(shard.path, block_bytes=self.block_bytes):
            records += len(block)
            kept = self.edits.apply(block, result.counts, path=shard.path, source=source)
            read = going_on = multiset_checksum(block.lengths, block.payload_crcs)
            if kept is not block:
                going_on = multiset_checksum(kept.lengths, kept.payload_crcs)
            result.add(source, read, going_on)
            if len(kept):
                if source in result.facts:
                    result.facts[source].add(kept, path=shard.path, takes_lists=False)
                yield kept
        check_count(shard, records)


@dataclasses.dataclass(frozen=True)
class ShardSurvey:
    """A survey of one input shard and of the edits to it."""

    index: RecordIndex  # offsets and lengths of the records that stay
    # `(records,)`, the index of each record's class in `values`; empty without `stratify_by`
    classes: Lengths
    values: tuple[str, ...] = ()  # the classes as strings, in order of occurrence
    counts: EditCounts = dataclasses.field(default_factory=EditCounts)  # the effects of edits


def survey_shard(
    context: JobContext, stratify_by: str | None, input_shard: InputShard
) -> ShardSurvey:
    """Survey one shard, with the values of `stratify_by` as classes.

    Lengths come from the record index or from headers. Records are parsed for classes and edits
    only.
    """
    lengths: list[Lengths] = [np.zeros(0, np.uint16)]
    classes: list[Lengths] = [np.zeros(0, np.uint16)]
    codes: dict[str, int] = {}
    if stratify_by is None and not context.edits:
        index = read_index(
            input_shard.shard, is_strict=False
        )  # the records themselves are verified
        return ShardSurvey(RecordIndex(index.lengths), classes[0])
    result = TaskResult("")
    for block in context.read(input_shard, result):
        lengths.append(compact(block.lengths))
        if stratify_by is not None:
            classes.append(compact(_classes(block, stratify_by, codes, input_shard.shard.path)))
    index = RecordIndex(np.concatenate(lengths))
    return ShardSurvey(index, np.concatenate(classes), tuple(codes), result.counts)


def _classes(block: RecordBlock, feature: str, codes: dict[str, int], path: str) -> Ints:
    """Return the class of each record, `(records,)`, as an index into `codes`."""
    column = parse_block(block, [feature], path=path)[feature]
    most = int(column.counts.max(initial=0))
    if most > 1 or column.kind == "float":
        raise DatasetError(
            f"stratify_by: expected one integer or string of {feature!r} per example, got "
            f"{most if most > 1 else 'floats'} ({path}, near byte {block.file_offset})"
        )
    is_there = column.counts > 0
    names = [repr(value) for value in column.values.tolist()]
    for name in (*dict.fromkeys(names), *([] if is_there.all() else ["missing"])):
        codes.setdefault(name, len(codes))
    classes = np.full(len(block), codes.get("missing", 0), np.int64)
    classes[is_there] = [codes[name] for name in names]
    return classes


Part = Callable[[JobContext], TaskResult]
"""A part of the work on one split: one of the functions below, bound to all but its context."""


def run_part(context: JobContext, part: Part) -> TaskResult:
    """Run a part of the work."""
    return part(context)


def scatter(
    context: JobContext, *, split: str, number: int, shards: Sequence[tuple[int, int, InputShard]]
) -> TaskResult:
    """Read neighbouring shards and write their records as runs.

    Args:
        context: the context of the job.
        split: the name of the split.
        number: the index of the part, which names its runs.
        shards: the shards, each with the index of its first record in the split, and its number of
            records.
    """
    result = context.start(split)
    for place, run in enumerate(_runs(context, result, shards, context.run_bytes)):
        context.shuffles[split].scatter(f"{number:06d}-{place:03d}", run)
    return result


def divide(context: JobContext, *, split: str, level: int, index: int) -> TaskResult:
    """Divide the records of one group of runs into runs of smaller groups."""
    context.shuffles[split].divide(level, index)
    return TaskResult(split)


def gather(context: JobContext, *, split: str, number: int) -> TaskResult:
    """Write the shards of one task from the runs."""
    return TaskResult(split, shards=context.shuffles[split].gather(number))


def write_whole(
    context: JobContext, *, split: str, shards: Sequence[tuple[int, int, InputShard]]
) -> TaskResult:
    """Write the shards of a split that fits into memory; see `scatter` for `shards`."""
    result = context.start(split)
    held = [*_runs(context, result, shards, most_bytes=None)]
    result.shards = context.shuffles[split].gather(0, held=held)
    return result


def _runs(
    context: JobContext,
    result: TaskResult,
    shards: Sequence[tuple[int, int, InputShard]],
    most_bytes: int | None,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of shards with their positions, in batches of about `most_bytes`."""
    layout, held = context.shuffles[result.split].layout, 0
    frames: list[pa.Array] = []
    positions: list[Ints] = []
    for number, records, input_shard in shards:
        end = number + records
        for block in context.read(input_shard, result):
            if number + len(block) > end:
                raise changed_meanwhile(input_shard.shard.path)
            frames.append(frames_of(block))
            positions.append(layout.positions(number, number + len(block)))
            number += len(block)
            held += len(block.data) + OBJECT_BYTES * len(block)
            if most_bytes is not None and held >= most_bytes:
                yield run_of(frames, positions)
                positions.clear()
                held = 0
        if number != end:
            raise changed_meanwhile(input_shard.shard.path)
    if positions:
        yield run_of(frames, positions)


def pick(
    context: JobContext,
    *,
    name: ShardName,
    inputs: Sequence[tuple[str, int]],
    files: Lengths,
    offsets: Ints,
    lengths: Lengths,
) -> TaskResult:
    """Write one shard by picking its records from the input files.

    Args:
        context: the context of the job.
        name: the name of the shard.
        inputs: the paths of the files, each with the index of its input.
        files, offsets, lengths: the records; see `picked_batches`.
    """
    result, paths = context.start(name.split), [path for path, _ in inputs]
    sources = np.array([source for _, source in inputs], np.int64)

    def batches() -> Iterator[FramedBatch]:
        for places, batch in picked_batches(paths, files, offsets, lengths):
            of = sources[places]
            for source in np.unique(of).tolist():
                is_of_source = of == source
                content = multiset_checksum(
                    batch.lengths[is_of_source], batch.payload_crcs[is_of_source]
                )
                result.add(source, content, content)
            yield batch

    result.shards = write_shards(
        [(name, len(files))], batches(), uri=context.uri, block_bytes=context.block_bytes
    )
    return result


def picked_batches(
    paths: Sequence[str], files: Lengths, offsets: Ints, lengths: Lengths
) -> Iterator[tuple[Lengths, FramedBatch]]:
    """Yield the records of a shard in batches, each with the file indices of its records.

    Args:
        paths: the paths of all files; local and uncompressed.
        files: `(records,)`, the index of each record's file, in the order of the shard.
        offsets: `(records,) int64`, the byte offset of its frame.
        lengths: `(records,)`, the size of its payload in bytes.

    Raises:
        CorruptShardError: a file is damaged; the error has the record and offset.
        DatasetError: a file has changed since it was planned.
    """
    payloads: Ints = lengths.astype(np.int64)
    sizes = payloads + RECORD_OVERHEAD_BYTES
    ends = np.cumsum(sizes)
    start = done = 0
    with contextlib.ExitStack() as opened:
        streams = [opened.enter_context(open_for_reading(path)) for path in paths]
        while start < len(ends):
            stop = max(int(np.searchsorted(ends, done + BATCH_BYTES, side="right")), start + 1)
            frames = []
            of_lot = (array[start:stop].tolist() for array in (files, offsets, sizes))
            for file, offset, size in zip(*of_lot, strict=True):
                with naming_file(paths[file]):
                    frames.append(_read(streams[file].fileno(), size, offset))
                if len(frames[-1]) < size:
                    _raise_damage(paths[file])
            data = b"".join(frames)
            stops = ends[start:stop] - done
            crcs, is_whole = check_frames(data, stops - sizes[start:stop], stops)
            if not is_whole.all():
                _raise_damage(paths[int(files[start + is_whole.argmin()])])
            yield files[start:stop], FramedBatch(data, payloads[start:stop], crcs)
            start, done = stop, int(ends[stop - 1])


def _read(descriptor: int, size: int, offset: int) -> bytes:
    data = os.pread(descriptor, size, offset)
    while len(data) < size and (more := os.pread(descriptor, size - len(data), offset + len(data))):
        data += more
    return data


def changed_meanwhile(path: str) -> DatasetError:
    """Return the error for a file that has more or fewer records than planned."""
    rule = "a file that does not change while it is read"
    return DatasetError.at(
        path, expected=rule, got="one that was changed in the meantime", advice="Run it again."
    )


def _raise_damage(path: str) -> NoReturn:
    """Read a damaged file in order, to raise the error with record and offset."""
    for _ in read_shard_blocks(path):
        pass
    raise changed_meanwhile(path)


def read_ahead(path: str) -> None:
    """Ask the system to read a whole file in the background.

    Picking records in random order would otherwise cost a disk seek for each.
    """
    if not hasattr(os, "posix_fadvise"):
        return
    with open_for_reading(path) as stream:
        for start in range(0, file_size(path), _AHEAD_BYTES):
            os.posix_fadvise(stream.fileno(), start, _AHEAD_BYTES, os.POSIX_FADV_WILLNEED)


def keep(
    context: JobContext,
    *,
    split: str,
    input_shard: InputShard,
    name: ShardName | None,
    is_kept: bool,
) -> TaskResult:
    """Link or copy one input shard, or rewrite it if a record changes.

    Args:
        context: the context of the job.
        split: the name of the split.
        input_shard: the input shard.
        name: the name of the new shard, or None if no record of it stays.
        is_kept: whether every record stays unchanged.
    """
    result, entry = context.start(split), input_shard.shard.entry
    if name is None:
        for _ in context.read(input_shard, result):
            pass
    elif is_kept and entry is not None and entry.content is not None:
        source = input_shard.shard.path.removesuffix(entry.path).rstrip("/")
        if input_shard.source not in context.verified:
            verify_shard(entry, uri=source, block_bytes=context.block_bytes)
        result.add(input_shard.source, entry.content, entry.content)
        result.shards = [copy_shard(entry, name, source=source, uri=context.uri)]
    else:

        def fill(writer: ShardWriter) -> None:
            for block in context.read(input_shard, result):
                writer.write_framed(block.data, block.lengths, block.payload_crcs)

        result.shards = [write_shard(name, fill, uri=context.uri)]
        verify_shard(result.shards[0], uri=context.uri, block_bytes=context.block_bytes)
    return result
