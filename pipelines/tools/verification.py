"""Read a whole dataset and report every problem, not only the first.

    print(verify_dataset("datasets/photos"))

The checks of a shard: size and checksum of the file, both checksums of each record, the number of
records, the order-independent sum of the contents, and the record index. The checks of a dataset:
missing and extra files, the checksums of the manifest and all other files, Datum's JSON, the
accounting and the rejects. A dataset without a manifest gets the checks that need no manifest; a
manifest that was deleted is reported as missing.
"""

import concurrent.futures
import contextlib
import dataclasses
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from components.runtime.processes import Pool
from trainer_utils.core.errors import CorruptShardError, DatasetError
from trainer_utils.core.json_text import JsonObject
from trainer_utils.core.printable import printable
from trainer_utils.core.text_output import human_bytes, quantity
from trainer_utils.dataset.compression import unpacked
from trainer_utils.dataset.location import DatasetFiles, Place, list_dataset
from trainer_utils.format import (
    Manifest,
    RecordIndex,
    Shard,
    combine_checksums,
    multiset_checksum,
    parse_shard_info,
    read_blocks,
)
from trainer_utils.format.lineage import Origin
from trainer_utils.format.naming import (
    DATASET_FILES,
    DATUM_SHARDS_FILE,
    EXAMPLE_SCHEMA_FILE,
    INDEX_FOLDER,
    INPUTS_FILE,
    LINEAGE_FILE,
    LISTING_FILE,
    MANIFEST_FILE,
    REJECTS_FILE,
    SPLIT_PREFIX,
    TFDS_FEATURES_FILE,
    TFDS_INFO_FILE,
    VOCABULARY_FOLDER,
    index_file,
    is_index_file,
    is_shard_file,
    vocabulary_of,
)
from trainer_utils.format.sealing import is_sealed
from trainer_utils.format.tfrecord import BLOCK_BYTES, Lengths, compact, extend_crc32c
from trainer_utils.storage import open_for_reading, read_bytes

Advance: TypeAlias = Callable[[int, int], None] | None

__all__ = ["Problem", "Verification", "verify_dataset"]

_ALONE_SECONDS = 2.0  # for less work, starting processes costs more than it saves
_BYTES_A_SECOND = 1e9  # measured throughput of one process
_REMOTE_THREADS = 8
_OWN_FOLDERS = (SPLIT_PREFIX, f"{INDEX_FOLDER}/", f"{VOCABULARY_FOLDER}/")
# Readers look for these at the top level, and would trust one that the manifest does not list.
_UNNAMED = {LINEAGE_FILE, INPUTS_FILE, LISTING_FILE}  # files that the manifest does not list
_KNOWN_FILES = {*DATASET_FILES, EXAMPLE_SCHEMA_FILE, TFDS_FEATURES_FILE, TFDS_INFO_FILE}
_LIKE_A_SHARD = re.compile(rf"^{SPLIT_PREFIX}|\.tfrec(ords?|ord)?\b|-\d{{5,}}-of-\d{{5,}}")
_MAX_NAMED = 9  # damaged records to list per shard, in addition to the first


@dataclasses.dataclass(frozen=True)
class Problem:
    """A problem and its place: the file, the record from 0, the byte after decompression."""

    path: str
    message: str
    record: int | None = None
    offset: int | None = None

    @classmethod
    def of(cls, error: DatasetError, path: str) -> "Problem":
        """Return the problem that an error describes."""
        return cls(path, str(error), error.record, error.offset)

    def to_json(self) -> JsonObject:
        """Return plain JSON types; the record and the byte are left out if unknown."""
        fields = {"path": self.path, "message": self.message}
        places = {"record": self.record, "byte": self.offset}
        return fields | {name: place for name, place in places.items() if place is not None}


@dataclasses.dataclass(frozen=True)
class ShardCheck:
    """A shard to read, with its metadata; `named_in` is the file that contains the metadata."""

    path: str
    name: str  # relative to the dataset
    split: str
    records: int | None = None
    named_in: str = ""
    entry: Shard | None = None

    @property
    def index_path(self) -> str:
        """The path of the shard's record index."""
        return self.path.removesuffix(self.name) + index_file(self.name)


@dataclasses.dataclass(kw_only=True)
class ShardOutcome:
    """The number of intact records of a shard, the number of damaged or missing ones, the problems.

    Without a record index, counting stops at the first damaged record, with `damaged=None`.
    """

    split: str
    records: int = 0
    damaged: int | None = 0
    problems: list[Problem] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verification:
    """The result of reading a whole dataset; `records` counts the intact records by split."""

    uri: str
    has_manifest: bool
    num_shards: int
    records: dict[str, int]
    damaged: int | None  # damaged or missing records; None if only the first one is known
    bytes: int
    problems: Sequence[Problem]

    @property
    def is_good(self) -> bool:
        """Whether there is no problem."""
        return not self.problems

    def to_json(self) -> JsonObject:
        """Return all fields as plain JSON types."""
        problems = [problem.to_json() for problem in self.problems]
        return {**vars(self), "good": self.is_good, "problems": problems}

    def __str__(self) -> str:
        lines = [problem.message for problem in self.problems]
        counts = ", ".join(f"{split} {number:,}" for split, number in self.records.items())
        lines.append(
            f"{self._state()}: {self.uri}: {quantity(self.num_shards, 'shard')}, "
            f"{human_bytes(self.bytes)}, whole records: {counts}"
        )
        if self.is_good and not self.has_manifest:
            lines.append("It has no manifest, so that missing records cannot be found.")
        return "\n".join(map(printable, lines))

    def _state(self) -> str:
        """Return `good`, or `BAD` with the number of problems and of damaged records."""
        if self.is_good:
            return "good"
        state = f"BAD ({quantity(len(self.problems), 'problem')})"
        first = next((problem for problem in self.problems if problem.record is not None), None)
        if first is None or self.damaged == 0:
            return state
        count = "at least 1 record"
        if self.damaged is not None:
            total = sum(self.records.values()) + self.damaged
            count = f"{self.damaged:,} of {quantity(total, 'record')}"
        place = f"{first.path}, record {first.record}, byte {first.offset}"
        return f"{state}: {count} damaged, the first in {place}"


def verify_dataset(
    place: Place | os.PathLike[str], *, processes: int = 1, advance: Advance = None
) -> Verification:
    """Read every byte of a dataset and return the problems.

    Args:
        place: the uri of a dataset of tfx-shards, Datum, TFDS or a stock ExampleGen, or of a folder
            of TFRecord files; or TFRecord files, as paths or a pattern.
        processes: number of reader processes. A small dataset is read in this process.
        advance: called after each shard with the bytes of the shard and of the dataset.

    Raises:
        DatasetError: there is nothing to verify.
    """
    files = list_dataset(place)
    manifest, tasks, problems = _find(files)
    sizes = [files.size(task.name) or 0 for task in tasks]
    outcomes = _checked(tasks, sizes, processes, advance)
    problems += [problem for outcome in outcomes for problem in outcome.problems]
    if manifest is not None:
        problems += _check_small_files(files, manifest)
    records = dict.fromkeys((task.split for task in tasks), 0)
    for outcome in outcomes:
        records[outcome.split] += outcome.records
    damaged = [outcome.damaged for outcome in outcomes]
    return Verification(
        uri=files.uri,
        has_manifest=manifest is not None,
        num_shards=len(tasks),
        records=records,
        damaged=None if None in damaged else sum(map(int, filter(None, damaged))),
        bytes=sum(sizes),
        problems=problems,
    )


def _find(files: DatasetFiles) -> tuple[Manifest | None, list[ShardCheck], list[Problem]]:
    """Return the manifest, the shards to read, and the problems found without reading a shard."""
    problems: list[Problem] = []
    if MANIFEST_FILE in files.sizes:
        manifest, problems = _read_manifest(files)
        if manifest is not None:
            tasks = [
                ShardCheck(
                    files.path(shard.path),
                    shard.path,
                    shard.split,
                    shard.records,
                    MANIFEST_FILE,
                    shard,
                )
                for shard in manifest.shards
            ]
            return manifest, tasks, problems
        files = files.without(MANIFEST_FILE)
    else:
        problems += _check_no_manifest(files)
    try:
        layout = files.layout()
    except DatasetError as error:
        names = [name for name in sorted(files.sizes) if _LIKE_A_SHARD.search(name)]
        if not names and not problems:
            raise
        tasks = [ShardCheck(files.path(name), name, "unknown") for name in names]
        return None, tasks, [*problems, Problem.of(error, "")]
    tasks = [
        ShardCheck(
            files.path(file.name), file.name, split, file.records, layout.named_in, file.entry
        )
        for split, group in layout.shards.items()
        for file in group
    ]
    return None, tasks, problems


def _read_manifest(files: DatasetFiles) -> tuple[Manifest | None, list[Problem]]:
    """Return the manifest and its problems; a modified manifest is used if it can be parsed."""
    path = files.path(MANIFEST_FILE)
    problems: list[Problem] = []
    for is_checked in (True, False):
        try:
            text = files.read_text(MANIFEST_FILE)
            return Manifest.from_json(text, path=path, is_checked=is_checked), problems
        except DatasetError as error:
            problems = problems or [Problem.of(error, MANIFEST_FILE)]
    return None, problems


def _checked(
    tasks: Sequence[ShardCheck], sizes: Sequence[int], processes: int, advance: Advance
) -> list[ShardOutcome]:
    """Return the outcomes in the order of the tasks."""
    num_bytes = sum(sizes)

    def report(place: int, _: ShardOutcome) -> None:
        if advance is not None:
            advance(sizes[place], num_bytes)

    if any("://" in task.path for task in tasks):
        outcomes: list[ShardOutcome] = []
        with concurrent.futures.ThreadPoolExecutor(_REMOTE_THREADS) as threads:
            for place, outcome in enumerate(threads.map(check_shard, tasks)):
                outcomes.append(outcome)
                report(place, outcome)
        return outcomes
    if min(processes, len(tasks)) > 1 and num_bytes / _BYTES_A_SECOND > _ALONE_SECONDS:
        pool = Pool(__name__)
        try:
            return pool.map(check_shard, tasks, processes, on_result=report)
        finally:
            pool.end()
    outcomes = []
    for place, task in enumerate(tasks):
        outcomes.append(check_shard(task))
        report(place, outcomes[-1])
    return outcomes


def _check_small_files(files: DatasetFiles, manifest: Manifest) -> Iterator[Problem]:
    """Yield the differences between the files and the manifest; shards are compared by name."""
    named = {MANIFEST_FILE, *_UNNAMED, *(shard.path for shard in manifest.shards)}
    named |= manifest.published.keys()
    for path in sorted(set(files.sizes) - named):
        if path.startswith(_OWN_FOLDERS) or path in _KNOWN_FILES:
            message = "is not in the dataset's manifest. Remove it."
            yield Problem(path, f"{files.path(path)!r}: {message}")
    for split, accounting in manifest.accounting.items():
        records = sum(shard.records for shard in manifest.shards_of(split))
        if records != accounting.written:
            yield Problem(
                MANIFEST_FILE,
                f"{files.path(MANIFEST_FILE)!r}: split {split!r}: expected shards of "
                f"{accounting.written} records as were written, got {records}",
            )
    # The manifest has the checksums of small files; lineage, inputs and listing have their own.
    for path in sorted({*manifest.files, *(_UNNAMED & files.sizes.keys())}):
        where = files.path(path)
        if path not in files.sizes:
            message = f"{where!r}: is missing, though {MANIFEST_FILE} names it. Write it again."
            yield Problem(path, message)
            continue
        try:
            if path == LINEAGE_FILE:
                Origin.from_json(files.read_text(path), path=where)
            elif path not in _UNNAMED:
                manifest.check_text(path, files.read_bytes(path), path=where)
            elif not is_sealed(files.read_text(path)):
                rule = "the checksum that it names"
                raise DatasetError.at(where, expected=rule, got="another content")
        except OSError as error:
            yield Problem(path, f"{where!r}: cannot be read: {error.strerror or error}")
        except DatasetError as error:
            yield Problem.of(error, path)


def _check_no_manifest(files: DatasetFiles) -> Iterator[Problem]:
    """Yield a problem for a missing manifest if other files show that tfx-shards wrote these."""
    names = list(files.sizes)
    dataset_files = [name for name in names if is_index_file(name)]
    if any(name.startswith(SPLIT_PREFIX) for name in names):
        dataset_files += [name for name in names if name == REJECTS_FILE or vocabulary_of(name)]
    if not dataset_files and DATUM_SHARDS_FILE in names:
        try:
            info = parse_shard_info(files.read_text(DATUM_SHARDS_FILE), path=DATUM_SHARDS_FILE)
        except DatasetError:
            return  # reported by another check
        dataset_files = [path for shards in info.values() for path in shards if is_shard_file(path)]
    if dataset_files:
        yield Problem(
            MANIFEST_FILE,
            f"{files.path(MANIFEST_FILE)!r}: is missing, though {dataset_files[0]!r} belongs to a "
            "dataset that has one. Its content is unknown: write the dataset again.",
        )


class _Summed:
    """A stream that computes the size and the CRC-32C of the bytes read from it."""

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
    """Read a shard and return its problems; raise nothing.

    Records after the first damaged one are found through the record index.
    """
    outcome, entry = ShardOutcome(split=task.split), task.entry
    lengths: list[Lengths] = [np.zeros(0, np.uint16)]
    crcs, content = [np.zeros(0, np.uint32)], 0
    with _reporting(task, outcome), open_for_reading(task.path) as stream:
        summed: Any = _Summed(stream)
        with unpacked(summed, path=task.path) as records:
            for block in read_blocks(records, path=task.path):
                lengths.append(compact(block.lengths))
                crcs.append(block.payload_crcs)
                block_sum = multiset_checksum(block.lengths, block.payload_crcs)
                content = combine_checksums([content, block_sum])
                outcome.records += len(block)
        while summed.read(BLOCK_BYTES):
            pass  # bytes after the end of a gzip stream count for the checksum of the file
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
    outcome.damaged = None
    outcome.problems += _behind_damage(task, outcome)
    return outcome


def _behind_damage(task: ShardCheck, outcome: ShardOutcome) -> list[Problem]:
    """Find the damaged records after the first, and count the intact ones, using the index."""
    problems, num_read = list[Problem](), 0
    if task.entry is None or task.name.endswith(".gz"):
        return problems
    with contextlib.suppress(OSError, DatasetError), open_for_reading(task.path) as stream:
        data = read_bytes(task.index_path)
        index = RecordIndex.from_bytes(data, path=task.index_path, shard=task.entry)
        num_whole = int((index.offsets[1:] <= stream.seek(0, os.SEEK_END)).sum())
        for number in range(outcome.records + 1, min(num_whole + 1, len(index))):
            try:
                index.read(stream, number, path=task.path)
                num_read += 1
            except CorruptShardError as error:
                problems.append(Problem.of(error, task.name))
        outcome.records += num_read
        outcome.damaged = len(index) - outcome.records
    if len(problems) > _MAX_NAMED:
        numbers = f"records {problems[_MAX_NAMED].record} to {problems[-1].record}"
        message = f"{task.path!r}: {len(problems) - _MAX_NAMED} more of {numbers} are damaged."
        problems[_MAX_NAMED:] = [Problem(task.name, message)]
    return problems


@contextlib.contextmanager
def _reporting(task: ShardCheck, outcome: ShardOutcome) -> Iterator[None]:
    """Turn an exception into a problem of the shard or of its index."""

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
        if error.record is not None and path == task.path:  # the records before it are intact
            outcome.records = error.record
    except Exception as error:  # errors of disks and file systems, and any unexpected error
        what = (isinstance(error, OSError) and error.strerror) or f"{type(error).__name__}: {error}"
        problem = Problem(task.name, f"{task.path!r}: cannot be read: {what}")
        outcome.problems.append(problem)


def _whole_but_wrong(
    task: ShardCheck, records: int, summed: _Summed, content: int
) -> dict[str, Any] | None:
    """Return the fields of an error if intact records are not the expected ones, else None."""
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
            "got": f"{summed.crc:08x}: its records are intact, but they are other records",
        }
    if entry is not None and entry.content not in (None, content):
        expected = f"records with the sum {entry.content:016x} as the manifest says"
        return {"expected": expected, "got": f"{content:016x}"}
    return None


def _compare(task: ShardCheck, actual: Lengths, said: Lengths, what: str) -> None:
    """Raise CorruptShardError for the first record whose index entry differs."""
    if len(actual) == len(said) and (wrong := actual != said).any():
        number = int(wrong.argmax())
        raise CorruptShardError.at(
            task.index_path,
            expected=f"{what.format(actual[number])} as in {os.path.basename(task.path)}",
            got=what.format(said[number]),
            record=number,
        )
