"""The verification of a whole dataset, shard by shard, in several processes where it is large.

print(verify_dataset("datasets/photos"))
"""

import concurrent.futures
import dataclasses
import multiprocessing
import re
from collections.abc import Callable, Iterator, Sequence

from pipelines.tools.verification.metadata_checks import (
    check_labels,
    check_no_manifest,
    check_small_files,
    label_features,
)
from pipelines.tools.verification.shards import Problem, ShardCheck, ShardOutcome, check_shard
from trainer_utils.dataset.files import DatasetFiles, list_dataset
from trainer_utils.dataset.location import Place
from trainer_utils.format import DatasetError, Manifest
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.naming import MANIFEST_FILE, SPLIT_PREFIX
from trainer_utils.format.printable import printable
from trainer_utils.text_output import human_bytes, quantity

__all__ = ["Verification", "verify_dataset"]

_ALONE_SECONDS = 2.0  # of work, up to which more processes cost more than they save
_BYTES_A_SECOND, _LABELS_A_SECOND = 1e9, 80_000  # measured, of one process
_REMOTE_THREADS = 8
_LIKE_A_SHARD = re.compile(rf"^{SPLIT_PREFIX}|\.tfrec(ords?|ord)?\b|-\d{{5,}}-of-\d{{5,}}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verification:
    """What a reading of everything found.

    Args:
        uri: of the dataset.
        has_manifest: whether something says how it should be.
        num_shards: that were read.
        records: that are whole, by split.
        bytes: that were read.
        problems: all that were found, in the order of the files.
    """

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
        return {
            "uri": self.uri,
            "good": self.is_good,
            "has_manifest": self.has_manifest,
            "num_shards": self.num_shards,
            "records": self.records,
            "bytes": self.bytes,
            "problems": [problem.to_json() for problem in self.problems],
        }

    def __str__(self) -> str:
        lines = [problem.message for problem in self.problems]
        counts = ", ".join(f"{split} {number:,}" for split, number in self.records.items())
        bad = quantity(len(self.problems), "problem")
        lines.append(
            f"{'good' if self.is_good else f'BAD ({bad})'}: {self.uri}: "
            f"{quantity(self.num_shards, 'shard')}, {human_bytes(self.bytes)}, "
            f"whole records: {counts}"
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
        problems += check_small_files(files, manifest)
        problems += check_labels(files, manifest, outcomes)
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
    if MANIFEST_FILE in files.sizes:
        manifest, problems = _read_manifest(files)
        if manifest is not None:
            return manifest, _own_tasks(files, manifest), problems
        files = files.without(MANIFEST_FILE)
    else:
        problems += check_no_manifest(files)
    try:
        found = files.layout()
    except DatasetError as error:
        names = [name for name in sorted(files.sizes) if _LIKE_A_SHARD.search(name)]
        if not names and not problems:
            raise
        tasks = [ShardCheck(name=n, path=files.path(n), split="unknown") for n in names]
        return None, tasks, [*problems, Problem.of(error, "")]
    tasks = [
        ShardCheck(
            name=shard.path,
            path=files.path(shard.path),
            split=split,
            records=shard.records,
            named_in=found.named_in,
            entry=shard.entry,
        )
        for split, group in found.shards.items()
        for shard in group
    ]
    return None, tasks, problems


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


def _own_tasks(files: DatasetFiles, manifest: Manifest) -> list[ShardCheck]:
    labels = label_features(files, manifest)
    return [
        ShardCheck(
            name=shard.path,
            path=files.path(shard.path),
            split=shard.split,
            records=shard.records,
            named_in=MANIFEST_FILE,
            entry=shard,
            label_features=labels,
        )
        for shard in manifest.shards
    ]


def _checked(tasks: Sequence[ShardCheck], num_bytes: int, processes: int) -> Iterator[ShardOutcome]:
    """The outcomes in the order of the tasks."""
    is_remote = any("://" in task.path for task in tasks)
    labelled = sum(task.records or 0 for task in tasks if task.label_features)
    seconds = num_bytes / _BYTES_A_SECOND + labelled / _LABELS_A_SECOND
    pool: concurrent.futures.Executor
    if is_remote:
        pool = concurrent.futures.ThreadPoolExecutor(_REMOTE_THREADS)
    elif min(processes, len(tasks)) > 1 and seconds > _ALONE_SECONDS:
        # Forked processes of one that has threads, as TensorFlow's, may hang.
        context = multiprocessing.get_context("spawn")
        pool = concurrent.futures.ProcessPoolExecutor(processes, mp_context=context)
    else:
        yield from map(check_shard, tasks)
        return
    with pool:
        yield from pool.map(check_shard, tasks)
