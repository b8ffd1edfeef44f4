"""The parts of a job, each a call of `map_tasks`: runs are scattered, then shards are gathered.

    result = run_part(context, ScatterPart("train", 0, shards))

A split that fits into memory is one part; a shard whose records lie in large local files is picked
from these; and with `keep_shards` a part is a shard that stays.
"""

import abc
import dataclasses
import functools
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from components.balancing.context import JobContext, TaskResult
from components.balancing.inputs import InputShard
from components.shuffle.external import Lot, frames_of, run_of, write_shards
from components.shuffle.picking import GatherIndices, picked_lots
from trainer_utils.format import (
    DatasetError,
    Shard,
    ShardName,
    ShardWriter,
    multiset_checksum,
)
from trainer_utils.writing.shards import copy_shard, verify_shard, write_shard

OBJECT_BYTES = 96
"""What a record takes beside its frame: offset, position, name, its place anew."""

NumberedShard: TypeAlias = tuple[int, int, InputShard]
"""An input shard, behind the number of its first record within the split, and of its records."""


class Part(abc.ABC):
    """Some of the work on one split."""

    split: str

    @abc.abstractmethod
    def run(self, context: JobContext, result: TaskResult) -> None:
        """Does it; what was read and written is added to the result."""


def run_part(context: JobContext, part: Part) -> TaskResult:
    """Does a part of the work."""
    result = context.start(part.split)
    part.run(context, result)
    return result


@dataclasses.dataclass(frozen=True)
class ScatterPart(Part):
    """Reads some neighbouring shards and writes runs of them."""

    split: str
    number: int
    shards: tuple[NumberedShard, ...]

    def run(self, context: JobContext, result: TaskResult) -> None:  # noqa: D102
        runs = _runs(context, self.split, self.shards, result, context.run_bytes)
        for number, run in enumerate(runs):
            context.shuffles[self.split].scatter(f"{self.number:06d}-{number:03d}", run)


@dataclasses.dataclass(frozen=True)
class GatherPart(Part):
    """Writes the shards of a task of runs."""

    split: str
    number: int

    def run(self, context: JobContext, result: TaskResult) -> None:  # noqa: D102
        result.shards += context.shuffles[self.split].gather(self.number)


@dataclasses.dataclass(frozen=True)
class WholePart(Part):
    """Writes the shards of a split that fits into memory."""

    split: str
    shards: tuple[NumberedShard, ...]

    def run(self, context: JobContext, result: TaskResult) -> None:  # noqa: D102
        held = [*_runs(context, self.split, self.shards, result, most_bytes=None)]
        result.shards += context.shuffles[self.split].gather(0, held=held)


def _runs(
    context: JobContext,
    split: str,
    shards: tuple[NumberedShard, ...],
    result: TaskResult,
    most_bytes: int | None,
) -> Iterator[pa.RecordBatch]:
    """The records of shards with their positions, of about `most_bytes` each.

    Raises:
        DatasetError: a shard has another number of records than was planned with.
    """
    layout, held = context.shuffles[split].layout, 0
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


@dataclasses.dataclass(frozen=True)
class PickPart(Part):
    """Writes one shard, whose records are picked from the files where they lie.

    Args:
        files: their paths, each with the number of the input that it is of.
    """

    split: str
    gather: GatherIndices
    files: tuple[tuple[str, int], ...]

    def run(self, context: JobContext, result: TaskResult) -> None:  # noqa: D102
        sources = np.array([source for _, source in self.files], np.int64)
        paths = [path for path, _ in self.files]

        def lots() -> Iterator[Lot]:
            for files, lot in picked_lots(paths, self.gather):
                of = sources[files]
                for source in np.unique(of).tolist():
                    own = of == source
                    content = multiset_checksum(lot.lengths[own], lot.payload_crcs[own])
                    result.add(source, content, content)
                yield lot

        shards = [(self.gather.shard, len(self.gather.files))]
        block_bytes = context.block_bytes
        result.shards += write_shards(shards, lots(), uri=context.uri, block_bytes=block_bytes)


@dataclasses.dataclass(frozen=True)
class KeepPart(Part):
    """Links or copies one input shard, or writes it again where a record of it changes.

    Args:
        given: the input shard; None of the one empty shard of a split without any.
        name: of the new shard; None: no record of it stays.
    """

    split: str
    given: InputShard | None
    name: ShardName | None
    is_kept: bool

    def run(self, context: JobContext, result: TaskResult) -> None:  # noqa: D102
        if self.given is not None and self.is_kept:
            result.shards.append(self._link(self.given, context, result))
        elif self.name is None:
            self._write(context, result, None)
        else:
            fill = functools.partial(self._write, context, result)
            shard = write_shard(self.name, fill, uri=context.uri)
            verify_shard(shard, uri=context.uri, block_bytes=context.block_bytes)
            result.shards.append(shard)

    def _write(self, context: JobContext, result: TaskResult, writer: ShardWriter | None) -> None:
        """Reads the input shard, and writes the records that stay; None: none of them does."""
        for block in context.read(self.given, result) if self.given is not None else ():
            if writer is not None:
                writer.write_framed(block.data, block.lengths, block.payload_crcs)

    def _link(self, given: InputShard, context: JobContext, result: TaskResult) -> Shard:
        """Puts the file itself, which is checked, under its new name."""
        entry, block_bytes = given.shard.entry, context.block_bytes
        assert entry is not None
        assert entry.content is not None
        assert self.name is not None
        source_uri = given.shard.path.removesuffix(entry.path).rstrip("/")
        verify_shard(entry, uri=source_uri, block_bytes=block_bytes)
        result.add(given.source, entry.content, entry.content)
        return copy_shard(entry, self.name, source=source_uri, uri=context.uri)
