"""Reads one shard, and reports its problems.

outcome = check_shard(ShardCheck(path="…/Split-train/data_tfrecord-00000-of-00008", …))
outcome.problems, outcome.records
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from trainer_utils.dataset.opening import unpacked
from trainer_utils.format import (
    CorruptShardError,
    DatasetError,
    RecordIndex,
    Shard,
    combine_checksums,
    multiset_checksum,
    read_blocks,
)
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.naming import index_file
from trainer_utils.format.tfrecord import BLOCK_BYTES, Lengths, compact, extend_crc32c
from trainer_utils.storage import open_for_reading, read_bytes

_MOST_NAMED = 9  # damaged records of a shard, beside the first


@dataclasses.dataclass(frozen=True)
class Problem:
    """What is wrong, and where: in a file, in a record from 0 on, at a (decompressed) byte."""

    path: str
    message: str
    record: int | None = None
    offset: int | None = None

    @classmethod
    def of(cls, error: DatasetError, path: str) -> "Problem":
        """What an error says of a file."""
        return cls(path, str(error), error.record, error.offset)

    def to_json(self) -> JsonObject:
        """With the number of the record and the byte, where they are known."""
        found = {"path": self.path, "message": self.message}
        places = {"record": self.record, "byte": self.offset}
        return found | {name: place for name, place in places.items() if place is not None}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardCheck:
    """A shard to read, and what the dataset says of it: `named_in` is the file that does."""

    name: str
    path: str
    split: str
    records: int | None = None
    named_in: str = ""
    entry: Shard | None = None

    @property
    def index_path(self) -> str:
        """Where its record index is."""
        return self.path.removesuffix(self.name) + index_file(self.name)


@dataclasses.dataclass(kw_only=True)
class ShardOutcome:
    """The whole records before the first that is not, and the problems."""

    split: str
    records: int = 0
    problems: list[Problem] = dataclasses.field(default_factory=list)


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
    """Reads a shard to its end, or to its first damaged record and, by the index, those behind it;
    raises nothing."""
    outcome, entry = ShardOutcome(split=task.split), task.entry
    lengths: list[Lengths] = [np.zeros(0, np.uint16)]
    crcs, content = [np.zeros(0, np.uint32)], 0
    with _reporting(task, outcome), open_for_reading(task.path) as stream:
        summed: Any = _Summed(stream)
        with unpacked(summed, path=task.path) as records:
            for block in read_blocks(records, path=task.path):
                lengths.append(compact(block.lengths))
                crcs.append(block.payload_crcs)
                own = multiset_checksum(block.lengths, block.payload_crcs)
                content = combine_checksums([content, own])
                outcome.records += len(block)
        while summed.read(BLOCK_BYTES):
            pass  # what may stand behind the end of a gzip stream
        if (wrong := _whole_but_wrong(task, outcome.records, summed, content)) is not None:
            error = CorruptShardError.at(task.path, advice="Write the dataset again.", **wrong)
            outcome.problems.append(Problem.of(error, task.name))
        if entry is not None and entry.index_crc32c is not None:
            with _reporting(task, outcome):
                path = task.index_path
                index = RecordIndex.from_bytes(read_bytes(path), path=path, shard=entry)
                _compare(task, np.concatenate(lengths), index.lengths, "a record of {} bytes")
                if index.payload_crcs is not None and not outcome.problems:
                    sums = np.concatenate(crcs)
                    _compare(task, sums, index.payload_crcs, "a record of sum {:08x}")
        return outcome
    outcome.problems += _behind_damage(task, outcome)
    return outcome


def _behind_damage(task: ShardCheck, outcome: ShardOutcome) -> list[Problem]:
    """The damaged records behind the first one, where the index says where they begin."""
    found: list[Problem] = []
    if task.entry is None or task.name.endswith(".gz"):
        return found
    with contextlib.suppress(OSError, DatasetError), open_for_reading(task.path) as stream:
        data = read_bytes(task.index_path)
        index = RecordIndex.from_bytes(data, path=task.index_path, shard=task.entry)
        num_whole = int((index.offsets[1:] <= stream.seek(0, os.SEEK_END)).sum())
        for number in range(outcome.records + 1, min(num_whole + 1, len(index))):
            try:
                index.read(stream, number, path=task.path)
            except CorruptShardError as error:
                found.append(Problem.of(error, task.name))
    if len(found) > _MOST_NAMED:
        numbers = f"records {found[_MOST_NAMED].record} to {found[-1].record}"
        message = f"{task.path!r}: {len(found) - _MOST_NAMED} more of {numbers} are damaged."
        found[_MOST_NAMED:] = [Problem(task.name, message)]
    return found


@contextlib.contextmanager
def _reporting(task: ShardCheck, outcome: ShardOutcome) -> Iterator[None]:
    """Makes a problem of what is raised, of the shard or of its index."""

    def name(path: str) -> str:
        return index_file(task.name) if task.entry and path == task.index_path else task.name

    try:
        yield
    except FileNotFoundError as error:
        path = str(error.filename or task.path)
        named = f", though {task.named_in} names it" if task.named_in else ""
        message = f"{path!r}: is missing{named}. Write the dataset again."
        outcome.problems.append(Problem(name(path), message))
    except DatasetError as error:
        path = str(error.path or task.path)
        outcome.problems.append(Problem.of(error, name(path)))
        if error.record is not None and path == task.path:  # those before it are whole
            outcome.records = error.record
    except Exception as error:  # of a disk, of file systems, or of what was never foreseen
        what = (isinstance(error, OSError) and error.strerror) or f"{type(error).__name__}: {error}"
        problem = Problem(task.name, f"{task.path!r}: cannot be read: {what}")
        outcome.problems.append(problem)


def _whole_but_wrong(
    task: ShardCheck, records: int, summed: _Summed, content: int
) -> dict[str, Any] | None:
    """What an error says of whole records that are not those that should be there."""
    entry = task.entry
    if entry is not None and summed.size != entry.bytes:
        return {
            "expected": f"{entry.bytes} bytes as the manifest says",
            "got": f"{summed.size}",
            "record": min(records, entry.records),
            "offset": min(summed.size, entry.bytes),
        }
    if task.records is not None and records != task.records:
        expected = f"{task.records} records as {task.named_in} says"
        return {"expected": expected, "got": f"{records}", "record": min(records, task.records)}
    if entry is not None and summed.crc != entry.crc32c:
        expected = f"a file with checksum {entry.crc32c:08x} as the manifest says"
        return {
            "expected": expected,
            "got": f"{summed.crc:08x}: its records are whole, but are others",
        }
    if entry is not None and entry.content not in (None, content):
        expected = f"records with the sum {entry.content:016x} as the manifest says"
        return {"expected": expected, "got": f"{content:016x}"}
    return None


def _compare(task: ShardCheck, found: Lengths, said: Lengths, what: str) -> None:
    """Raises of the first record of which the index says something else."""
    if len(found) == len(said) and (wrong := found != said).any():
        number = int(wrong.argmax())
        raise CorruptShardError.at(
            task.index_path,
            expected=f"{what.format(found[number])} as in {os.path.basename(task.path)}",
            got=what.format(said[number]),
            record=number,
        )
