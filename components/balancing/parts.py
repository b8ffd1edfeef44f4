"""The parts of a job, each a call of `map_tasks`: runs are scattered, then shards are gathered.

A split that fits into memory is one part; a shard whose records lie in large local files is picked
from these; and with `keep_shards` a part is a shard that stays.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from components.balancing.context import JobContext, TaskResult
from components.balancing.inputs import InputShard
from components.shuffle.external import Lot, frames_of, run_of, write_shards
from components.shuffle.picking import GatherIndices, picked_lots
from trainer_utils.format import DatasetError, ShardName, ShardWriter, multiset_checksum
from trainer_utils.writing.shards import copy_shard, verify_shard, write_shard

OBJECT_BYTES = 96
"""What a record takes beside its frame: offset, position, name, its place anew."""

NumberedShard: TypeAlias = tuple[int, int, InputShard]
"""An input shard, behind the number of its first record within the split, and of its records."""


@dataclasses.dataclass(frozen=True)
class Part:
    """Some of the work on one split: one of the functions below, and what it takes further."""

    work: Callable[..., None]
    split: str
    arguments: tuple[Any, ...] = ()


def run_part(context: JobContext, part: Part) -> TaskResult:
    """Does a part of the work."""
    result = context.start(part.split)
    part.work(context, result, *part.arguments)
    return result


def scatter(
    context: JobContext, result: TaskResult, number: int, shards: Sequence[NumberedShard]
) -> None:
    """Reads some neighbouring shards and writes runs of them."""
    for place, run in enumerate(_runs(context, result, shards, context.run_bytes)):
        context.shuffles[result.split].scatter(f"{number:06d}-{place:03d}", run)


def gather(context: JobContext, result: TaskResult, number: int) -> None:
    """Writes the shards of a task of runs."""
    result.shards += context.shuffles[result.split].gather(number)


def write_whole(context: JobContext, result: TaskResult, shards: Sequence[NumberedShard]) -> None:
    """Writes the shards of a split that fits into memory."""
    held = [*_runs(context, result, shards, most_bytes=None)]
    result.shards += context.shuffles[result.split].gather(0, held=held)


def _runs(
    context: JobContext, result: TaskResult, shards: Sequence[NumberedShard], most_bytes: int | None
) -> Iterator[pa.RecordBatch]:
    """The records of shards with their positions, of about `most_bytes` each."""
    layout, held = context.shuffles[result.split].layout, 0
    frames: list[pa.Array] = []
    positions: list[npt.NDArray[np.int64]] = []
    for first, records, given in shards:
        number, stop = first, first + records
        for block in context.read(given, result):
            frames.append(frames_of(block))
            number += len(block)
            if number > stop:
                break
            positions.append(layout.positions(number - len(block), number))
            held += len(block.data) + OBJECT_BYTES * len(block)
            if most_bytes is not None and held >= most_bytes:
                yield run_of(frames, positions)
                positions.clear()
                held = 0
        if number != stop:
            raise DatasetError(
                f"shard {given.shard.path!r}: expected {records} records as the dataset says, got "
                f"{number - first} or more. The dataset was changed: write it again.",
                path=given.shard.path,
            )
    if positions:
        yield run_of(frames, positions)


def pick(
    context: JobContext,
    result: TaskResult,
    indices: GatherIndices,
    files: Sequence[tuple[str, int]],
) -> None:
    """Writes one shard, whose records are picked from the files where they lie.

    Args:
        files: their paths, each with the number of the input that it is of.
    """
    sources = np.array([source for _, source in files], np.int64)

    def lots() -> Iterator[Lot]:
        for places, lot in picked_lots([path for path, _ in files], indices):
            of = sources[places]
            for source in np.unique(of).tolist():
                own = of == source
                content = multiset_checksum(lot.lengths[own], lot.payload_crcs[own])
                result.add(source, content, content)
            yield lot

    shards = [(indices.shard, len(indices.files))]
    result.shards += write_shards(shards, lots(), uri=context.uri, block_bytes=context.block_bytes)


def keep(
    context: JobContext,
    result: TaskResult,
    given: InputShard | None,
    name: ShardName | None,
    is_kept: bool,
) -> None:
    """Links or copies one input shard, or writes it again where a record of it changes.

    Args:
        given: the input shard; None of the one empty shard of a split without any.
        name: of the new shard; None: no record of it stays.
    """

    def fill(writer: ShardWriter | None) -> None:
        for block in context.read(given, result) if given is not None else ():
            if writer is not None:
                writer.write_framed(block.data, block.lengths, block.payload_crcs)

    check = functools.partial(verify_shard, block_bytes=context.block_bytes)
    if name is None:
        fill(None)
    elif given is not None and is_kept:
        entry = given.shard.entry
        assert entry is not None
        assert entry.content is not None
        source = given.shard.path.removesuffix(entry.path).rstrip("/")
        check(entry, uri=source)
        result.add(given.source, entry.content, entry.content)
        result.shards.append(copy_shard(entry, name, source=source, uri=context.uri))
    else:
        result.shards.append(write_shard(name, fill, uri=context.uri))
        check(result.shards[-1], uri=context.uri)
