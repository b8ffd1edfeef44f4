"""Reads one shard, and reports its problems.

outcome = check_shard(ShardCheck(path="…/Split-train/data_tfrecord-00000-of-00008", …))
outcome.problems, outcome.records, outcome.labels
"""

import collections
import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, TypeVar

import numpy as np
import numpy.typing as npt

from pipelines.tools.verification.problems import Problem
from trainer_utils.dataset.shards import unpacked
from trainer_utils.format import (
    CorruptShardError,
    DatasetError,
    RecordBlock,
    RecordIndex,
    Shard,
    combine_checksums,
    multiset_checksum,
    read_blocks,
)
from trainer_utils.format.crc32c import extend_crc32c
from trainer_utils.format.example_decoding import decode_example
from trainer_utils.format.framing import Lengths
from trainer_utils.format.naming import index_file
from trainer_utils.format.tfrecord import BLOCK_BYTES, compact
from trainer_utils.storage.files import open_for_reading

__all__ = ["ShardCheck", "ShardOutcome", "check_shard"]

_Parsed = TypeVar("_Parsed")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardCheck:
    """What to read.

    Args:
        name: of the shard, as the dataset has it.
        path: in full.
        split: that it is of.
        records: that the dataset says it has; None where it does not say.
        named_in: the file that names it, if there is one.
        entry: of the manifest, if there is one.
        index_path: of its record index, in full, if it should have one.
        label_features: whose values are counted.
    """

    name: str
    path: str
    split: str
    records: int | None = None
    named_in: str = ""
    entry: Shard | None = None
    index_path: str | None = None
    label_features: tuple[str, ...] = ()


@dataclasses.dataclass(kw_only=True)
class ShardOutcome:
    """What was found.

    Args:
        name, split: of the shard.
        records: whole ones, before the first that is not.
        problems: those found.
        labels: how often each value of the label features occurs.
    """

    name: str
    split: str
    records: int = 0
    problems: list[Problem] = dataclasses.field(default_factory=list)
    labels: dict[str, collections.Counter[int]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class _Content:
    """What the records of a shard sum up to."""

    lengths: list[Lengths] = dataclasses.field(default_factory=lambda: [np.zeros(0, np.uint16)])
    crcs: list[npt.NDArray[np.uint32]] = dataclasses.field(
        default_factory=lambda: [np.zeros(0, np.uint32)]
    )
    checksum: int = 0

    def add(self, block: RecordBlock) -> None:
        self.lengths.append(compact(block.lengths))
        self.crcs.append(block.payload_crcs)
        content = multiset_checksum(block.lengths, block.payload_crcs)
        self.checksum = combine_checksums([self.checksum, content])


class _Summed:
    """A stream that keeps the size and the CRC-32C of what was read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.size = self.crc = 0

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.size += len(data)
        self.crc = extend_crc32c(self.crc, data)
        return data

    def tell(self) -> int:
        return self.size


def check_shard(task: ShardCheck) -> ShardOutcome:
    """Reads a shard to its end, or to the first record that is damaged; raises nothing."""
    outcome = ShardOutcome(name=task.name, split=task.split)
    problems, content = outcome.problems, _Content()
    try:
        with open_for_reading(task.path) as stream:
            summed: Any = _Summed(stream)
            with unpacked(summed, path=task.path) as records:
                for block in read_blocks(records, path=task.path):
                    content.add(block)
                    _count_labels(block, task, outcome)
                    outcome.records += len(block)
            while summed.read(BLOCK_BYTES):
                pass  # what may stand behind the end of a gzip stream
        problems += _file_problems(task, outcome.records, summed, content)
        problems += _index_problems(task, content, is_whole=not problems)
    except FileNotFoundError:
        named = f", though {task.named_in} names it" if task.named_in else ""
        message = f"{task.path!r}: is missing{named}. Write the dataset again."
        problems.append(Problem(task.name, message))
    except DatasetError as error:
        problems.append(Problem.of(error, task.name))
        if error.record is not None:  # those before it are whole
            outcome.records = error.record
    except OSError as error:
        problems.append(Problem(task.name, _unreadable(error, task.path)))
    except Exception as error:  # of file systems, or of what was never foreseen
        what = f"{type(error).__name__}: {error}"
        problems.append(Problem(task.name, f"{task.path!r}: cannot be read: {what}"))
    return outcome


def _unreadable(error: OSError, path: str) -> str:
    return f"{path!r}: cannot be read: {error.strerror or error}"


def _count_labels(block: RecordBlock, task: ShardCheck, outcome: ShardOutcome) -> None:
    if not task.label_features:
        return
    for number, record in enumerate(block.records()):
        try:
            found = decode_example(record, task.label_features)
        except DatasetError as error:
            place = block.file_offset + int(block.starts[number])
            raise CorruptShardError(
                f"{task.path!r}: {error} (record {outcome.records + number}, byte {place})",
                path=task.path,
                record=outcome.records + number,
                offset=place,
            ) from error
        for name, values in found.items():
            labels = outcome.labels.setdefault(name, collections.Counter())
            labels.update(value for value in values if isinstance(value, int))


def _file_problems(
    task: ShardCheck, records: int, summed: _Summed, content: _Content
) -> Iterator[Problem]:
    """Whole records, but are they those that should be there?"""
    entry = task.entry
    if entry is not None and summed.size != entry.bytes:
        yield _problem(
            task,
            expected=f"{entry.bytes} bytes as the manifest says",
            got=str(summed.size),
            record=min(records, entry.records),
            offset=min(summed.size, entry.bytes),
            advice="It was cut short or changed: write the dataset again.",
        )
    elif task.records is not None and records != task.records:
        yield _problem(
            task,
            expected=f"{task.records} records as {task.named_in} says",
            got=str(records),
            record=min(records, task.records),
            advice="Write the dataset again.",
        )
    elif entry is not None and summed.crc != entry.crc32c:
        yield _problem(
            task,
            expected=f"a file with checksum {entry.crc32c:08x} as the manifest says",
            got=f"{summed.crc:08x}: its records are whole, but are others",
            advice="Write it again.",
        )
    if (
        entry is not None
        and entry.content not in (None, content.checksum)
        and (summed.crc == entry.crc32c)
    ):
        yield _problem(
            task,
            expected=f"records with the sum {entry.content:016x} as the manifest says",
            got=f"{content.checksum:016x}",
            advice="The manifest was changed: write the dataset again.",
        )


def _problem(task: ShardCheck, **data: Any) -> Problem:
    return Problem.of(CorruptShardError.at(task.path, **data), task.name)


def _index_problems(task: ShardCheck, content: _Content, *, is_whole: bool) -> Iterator[Problem]:
    if task.index_path is None:
        return
    name = index_file(task.name)
    index = _read_beside(task.index_path, name, task.entry, RecordIndex.from_bytes)
    if isinstance(index, Problem):
        yield index
        return
    columns: list[Any] = [(content.lengths, index.lengths, "a record of {} bytes", "{}")]
    if index.payload_crcs is not None and is_whole:
        columns.append((content.crcs, index.payload_crcs, "a record of sum {:08x}", "{:08x}"))
    for found, said, *words in columns:
        yield from _unlike(task, task.index_path, name, np.concatenate(found), said, *words)


def _unlike(
    task: ShardCheck,
    path: str,
    name: str,
    found: Lengths,
    said: Lengths,
    expected: str,
    got: str,
) -> Iterator[Problem]:
    """The first record of which a file beside the shard says something else than it has."""
    if len(found) == len(said) and (wrong := found != said).any():
        number = int(wrong.argmax())
        shard = os.path.basename(task.path)
        error = CorruptShardError.at(
            path,
            expected=f"{expected.format(found[number])} as in {shard}",
            got=got.format(said[number]),
            record=number,
        )
        yield Problem.of(error, name)


def _read_beside(
    path: str, name: str, shard: Shard | None, parse: Callable[..., _Parsed]
) -> _Parsed | Problem:
    """A file that belongs to a shard, or what is wrong with it.

    Args:
        path: in full.
        name: relative to the dataset.
        shard: what the manifest says.
        parse: makes of its bytes what it holds.
    """
    try:
        with open_for_reading(path) as stream:
            data = stream.read()
        return parse(data, path=path, shard=shard)
    except FileNotFoundError:
        return Problem(name, f"{path!r}: is missing, though the manifest names it")
    except DatasetError as error:
        return Problem.of(error, name)
    except OSError as error:
        return Problem(name, _unreadable(error, path))
