"""The verification of a whole dataset, shard by shard, in several processes where it is large.

print(verify_dataset("datasets/photos"))
"""

import concurrent.futures
import dataclasses
import multiprocessing
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from pipelines.tools.verification.shards import Problem, ShardCheck, ShardOutcome, check_shard
from trainer_utils.dataset.location import DatasetFiles, Place, list_dataset
from trainer_utils.format import DatasetError, Manifest, Shard, parse_shard_info
from trainer_utils.format.json_text import JsonObject, is_sealed
from trainer_utils.format.manifest import Origin
from trainer_utils.format.naming import (
    DATASET_FILES,
    DATUM_SHARDS_FILE,
    EXAMPLE_SCHEMA_FILE,
    INDEX_FOLDER,
    INPUTS_FILE,
    LINEAGE_FILE,
    MANIFEST_FILE,
    REJECTS_FILE,
    SPLIT_PREFIX,
    TFDS_FEATURES_FILE,
    TFDS_INFO_FILE,
    VOCABULARY_FOLDER,
    is_index_file,
    is_shard_file,
    vocabulary_of,
)
from trainer_utils.format.printable import printable
from trainer_utils.text_output import human_bytes, quantity

_ALONE_SECONDS = 2.0  # of work, up to which more processes cost more than they save
_BYTES_A_SECOND = 1e9  # measured, of one process
_REMOTE_THREADS = 8
_OWN_FOLDERS = (SPLIT_PREFIX, f"{INDEX_FOLDER}/", f"{VOCABULARY_FOLDER}/")
# What readers look for at the top: one that no manifest names would be believed.
_KNOWN_FILES = {*DATASET_FILES, EXAMPLE_SCHEMA_FILE, TFDS_FEATURES_FILE, TFDS_INFO_FILE}
_LIKE_A_SHARD = re.compile(rf"^{SPLIT_PREFIX}|\.tfrec(ords?|ord)?\b|-\d{{5,}}-of-\d{{5,}}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verification:
    """What a reading of everything found; `records` are those that are whole, by split."""

    uri: str
    has_manifest: bool
    num_shards: int
    records: dict[str, int]
    bytes: int
    problems: Sequence[Problem]

    @property
    def is_good(self) -> bool:
        """Whether there is no problem."""
        return not self.problems

    def to_json(self) -> JsonObject:
        """All of it as JSON takes it."""
        problems = [problem.to_json() for problem in self.problems]
        return {**vars(self), "good": self.is_good, "problems": problems}

    def __str__(self) -> str:
        lines = [problem.message for problem in self.problems]
        counts = ", ".join(f"{split} {number:,}" for split, number in self.records.items())
        state = "good" if self.is_good else f"BAD ({quantity(len(self.problems), 'problem')})"
        lines.append(
            f"{state}: {self.uri}: {quantity(self.num_shards, 'shard')}, "
            f"{human_bytes(self.bytes)}, whole records: {counts}"
        )
        if self.is_good and not self.has_manifest:
            lines.append("It has no manifest, so that missing records cannot be found.")
        return "\n".join(map(printable, lines))


def verify_dataset(
    place: Place, *, processes: int = 1, advance: Callable[[int, int], None] | None = None
) -> Verification:
    """Reads every byte of a dataset.

    Args:
        place: the uri of one of ours, Datum's, TFDS's, a stock ExampleGen's, or of a folder of
            TFRecord files; or such files, by path or pattern.
        processes: that read, where there is much to read.
        advance: called after each shard with its bytes, and those of all.

    Raises:
        DatasetError: there is nothing that could be verified.
    """
    files = list_dataset(place)
    manifest, tasks, problems = _find(files)
    sizes = [files.size(task.name) or 0 for task in tasks]
    outcomes = []
    for outcome, size in zip(_checked(tasks, sum(sizes), processes), sizes, strict=True):
        outcomes.append(outcome)
        if advance is not None:
            advance(size, sum(sizes))
    problems += [problem for outcome in outcomes for problem in outcome.problems]
    if manifest is not None:
        problems += _check_small_files(files, manifest)
    records = dict.fromkeys((task.split for task in tasks), 0)
    for outcome in outcomes:
        records[outcome.split] += outcome.records
    return Verification(
        uri=files.uri,
        has_manifest=manifest is not None,
        num_shards=len(tasks),
        records=records,
        bytes=sum(sizes),
        problems=problems,
    )


def _find(files: DatasetFiles) -> tuple[Manifest | None, list[ShardCheck], list[Problem]]:
    """What to read, and the problems that the names alone show."""
    problems: list[Problem] = []
    entries: list[tuple[str, str, int | None, Shard | None]]
    if MANIFEST_FILE in files.sizes:
        manifest, problems = _read_manifest(files)
        if manifest is not None:
            entries = [(s.split, s.path, s.records, s) for s in manifest.shards]
            return manifest, _tasks(files, MANIFEST_FILE, entries), problems
        files = files.without(MANIFEST_FILE)
    else:
        problems += _check_no_manifest(files)
    try:
        found = files.layout()
    except DatasetError as error:
        names = [name for name in sorted(files.sizes) if _LIKE_A_SHARD.search(name)]
        if not names and not problems:
            raise
        tasks = _tasks(files, "", [("unknown", name, None, None) for name in names])
        return None, tasks, [*problems, Problem.of(error, "")]
    entries = [
        (s, one.name, one.records, one.entry) for s, group in found.shards.items() for one in group
    ]
    return None, _tasks(files, found.named_in, entries), problems


def _tasks(
    files: DatasetFiles,
    named_in: str,
    entries: Iterable[tuple[str, str, int | None, Shard | None]],
) -> list[ShardCheck]:
    """Of each shard's split, path, records, and what the manifest says."""
    return [
        ShardCheck(
            name=name,
            path=files.path(name),
            split=split,
            records=records,
            named_in=named_in,
            entry=entry,
        )
        for split, name, records, entry in entries
    ]


def _read_manifest(files: DatasetFiles) -> tuple[Manifest | None, list[Problem]]:
    """The manifest, even a changed one as far as it can be read, and its problems."""
    path = files.path(MANIFEST_FILE)
    problems: list[Problem] = []
    for is_checked in (True, False):
        try:
            text = files.read_text(MANIFEST_FILE)
            return Manifest.from_json(text, path=path, is_checked=is_checked), problems
        except DatasetError as error:
            problems = problems or [Problem.of(error, MANIFEST_FILE)]
    return None, problems


def _checked(tasks: Sequence[ShardCheck], num_bytes: int, processes: int) -> Iterator[ShardOutcome]:
    """The outcomes in the order of the tasks."""
    is_remote = any("://" in task.path for task in tasks)
    pool: concurrent.futures.Executor
    if is_remote:
        pool = concurrent.futures.ThreadPoolExecutor(_REMOTE_THREADS)
    elif min(processes, len(tasks)) > 1 and num_bytes / _BYTES_A_SECOND > _ALONE_SECONDS:
        # Forked processes of one that has threads, as TensorFlow's, may hang.
        context = multiprocessing.get_context("spawn")
        pool = concurrent.futures.ProcessPoolExecutor(processes, mp_context=context)
    else:
        yield from map(check_shard, tasks)
        return
    with pool:
        yield from pool.map(check_shard, tasks)


def _check_small_files(files: DatasetFiles, manifest: Manifest) -> Iterator[Problem]:
    """Compares the files of a dataset with its manifest; shards by their names alone."""
    named = {MANIFEST_FILE, LINEAGE_FILE, INPUTS_FILE, *(shard.path for shard in manifest.shards)}
    named |= manifest.published.keys()
    for path in sorted(set(files.sizes) - named):
        if path.startswith(_OWN_FOLDERS) or path in _KNOWN_FILES:
            message = "is no part of the dataset by its manifest. Remove it."
            yield Problem(path, f"{files.path(path)!r}: {message}")
    for split, accounting in manifest.accounting.items():
        records = sum(shard.records for shard in manifest.shards_of(split))
        if records != accounting.written:
            yield Problem(
                MANIFEST_FILE,
                f"{files.path(MANIFEST_FILE)!r}: split {split!r}: expected shards of "
                f"{accounting.written} records as were written, got {records}",
            )
    # Small files have their checksums in the manifest; those beside it have their own.
    for path in sorted({*manifest.files, *({LINEAGE_FILE, INPUTS_FILE} & files.sizes.keys())}):
        where = files.path(path)
        if path not in files.sizes:
            message = f"{where!r}: is missing, though {MANIFEST_FILE} names it. Write it again."
            yield Problem(path, message)
            continue
        try:
            if path == LINEAGE_FILE:
                Origin.from_json(files.read_text(path), path=where)
            elif path != INPUTS_FILE:
                manifest.check_text(path, files.read_bytes(path), path=where)
            elif not is_sealed(files.read_text(path)):
                rule = "the checksum that it names"
                raise DatasetError.at(where, expected=rule, got="another content")
        except OSError as error:
            yield Problem(path, f"{where!r}: cannot be read: {error.strerror or error}")
        except DatasetError as error:
            yield Problem.of(error, path)


def _check_no_manifest(files: DatasetFiles) -> Iterator[Problem]:
    """Says that a manifest is missing, where only this program writes what is there."""
    names = list(files.sizes)
    own = [name for name in names if is_index_file(name)]
    if any(name.startswith(SPLIT_PREFIX) for name in names):
        own += [name for name in names if name == REJECTS_FILE or vocabulary_of(name)]
    if not own and DATUM_SHARDS_FILE in names:
        try:
            info = parse_shard_info(files.read_text(DATUM_SHARDS_FILE), path=DATUM_SHARDS_FILE)
        except DatasetError:
            return  # reported by another check
        own = [path for shards in info.values() for path in shards if is_shard_file(path)]
    if own:
        yield Problem(
            MANIFEST_FILE,
            f"{files.path(MANIFEST_FILE)!r}: is missing, though {own[0]!r} is of a dataset that "
            "has one. What it should hold is unknown: write the dataset again.",
        )
