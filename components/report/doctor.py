"""Find problems of a dataset that will hurt training, each with a fix.

    for check in dataset_checks("datasets/photos", workers=8):
        print(check.level, check.message, check.cure)

The checks cover completeness, shards, rejects and classes. They change nothing and read no record.
"""

import dataclasses
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping

from components.report.inspection import DatasetFacts, SplitFacts, inspect_dataset
from trainer_utils.core.errors import DatasetError
from trainer_utils.core.text_output import Part, human_bytes, list_counts, make_table, quantity
from trainer_utils.format import Manifest
from trainer_utils.format.naming import REJECTS_FILE
from trainer_utils.storage.host_errors import is_host_error

_STYLES = {"ok": "green", "warn": "yellow", "bad": "red"}
_LARGE_BYTES = 10**9  # the size of a split above which the size of its shards matters
_MIN_SHARD, _MAX_SHARD = 100 * 10**6, 200 * 10**6  # bytes, as TensorFlow's guides advise
_UNEQUAL = 2.0  # largest shard relative to the smallest
_SKEWED = 10.0  # most frequent class relative to the rarest


@dataclasses.dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str  # the subject of the check
    level: str  # `ok`, `warn` (costs time or may surprise) or `bad` (will fail)
    message: str  # the finding
    cure: str = ""  # the fix; empty if all is well


def is_good(checks: Iterable[Check]) -> bool:
    """Return whether no check is `bad`."""
    return all(check.level != "bad" for check in checks)


def checks_table(checks: Iterable[Check]) -> Part:
    """Return a table with one line per check, and its fix below."""
    rows = [
        [check.level, check.name, [check.message, *([f"→ {check.cure}"] if check.cure else [])]]
        for check in checks
    ]
    return make_table(None, rows, styles=_STYLES)


def dataset_checks(uri: str | os.PathLike[str], *, workers: int = 1) -> Iterator[Check]:
    """Yield all checks of the dataset at a uri, to be read by `workers` workers."""
    try:
        facts = inspect_dataset(uri)
    except DatasetError as error:
        if is_host_error(error):
            raise
        cure = "tfx-shards verify names every problem, if it is a dataset at all."
        yield Check("dataset", "bad", str(error), cure)
        return
    yield from checks_of(facts, workers=workers)


def checks_of(facts: DatasetFacts, *, workers: int = 1) -> Iterator[Check]:
    """Yield the checks of a dataset that has been opened."""
    yield _manifest(facts)
    for name, split in facts.splits.items():
        yield _shards(facts, f"shards of {name}", split, workers)
    if facts.is_gzip:
        message = "gzip: Datum cannot read it, and shuffle='global' and resuming cannot skip in it"
        cure = f"{_balance(facts)} --compression none. Images and audio files hardly shrink."
        yield Check("compression", "warn", message, cure)
    else:
        yield Check("compression", "ok", "none")
    if facts.manifest is not None:
        yield from _rejects(facts, facts.manifest)
    if facts.labels:
        yield _classes(facts.labels, facts.label_totals)


def _balance(facts: DatasetFacts) -> str:
    """Return the command that writes the dataset again, without flags."""
    return f"Run tfx-shards balance {shlex.quote(facts.uri)} OUT"


def _manifest(facts: DatasetFacts) -> Check:
    if facts.manifest is None:
        message = f"none (written by {facts.writer}): a missing record or shard would go unnoticed"
        return Check("manifest", "warn", message, f"{_balance(facts)}.")
    if any(s.index_crc32c is None for s in facts.manifest.shards) and not facts.is_gzip:
        message = "no record index: every shard must be scanned before its first record is read"
        return Check("index", "warn", message, f"{_balance(facts)}, which writes one.")
    return Check("manifest", "ok", f"complete according to its manifest, written by {facts.writer}")


def _shards(facts: DatasetFacts, what: str, split: SplitFacts, workers: int) -> Check:
    """Check the number and sizes of a split's shards for a number of workers."""
    if split.records == 0 or not split.shards:
        cure = "Leave the split out, or convert again with --splits train=8,eval=2."
        return Check(what, "warn", "has no records", cure)
    bytes_each = [shard.bytes for shard in split.shards]
    least, most = min(bytes_each), max(bytes_each)
    mean = split.bytes / split.num_shards
    if facts.is_gzip and split.num_shards % workers:  # else each worker reads its own records
        message = (
            f"{split.num_shards} compressed, not a multiple of {workers} workers: "
            "some workers unpack more than others"
        )
        return Check(what, "warn", message, f"{_balance(facts)} --shard-multiple {workers}.")
    if split.bytes >= _LARGE_BYTES and not _MIN_SHARD <= mean <= _MAX_SHARD:
        size = human_bytes(mean)
        message = f"{size} on average: 100 to 200 MB read best from disks and object stores"
        cure = f"{_balance(facts)} --target-shard-bytes 128MiB."
        return Check(what, "warn", message, cure)
    if most > _UNEQUAL * max(least, 1):
        sizes = f"from {human_bytes(least)} to {human_bytes(most)}"
        message = f"{sizes}: workers would not finish together"
        return Check(what, "warn", message, f"{_balance(facts)}.")
    message = f"{split.num_shards} of at most {human_bytes(most)}"
    if split.num_shards % workers:
        message += f"; {workers} workers divide its records, not its files"
    return Check(what, "ok", message)


def _rejects(facts: DatasetFacts, manifest: Manifest) -> Iterator[Check]:
    lists = f"{facts.uri}/{REJECTS_FILE} lists them."
    steps = [("", manifest.total, manifest.reject_counts, lists)]
    lists = f"{REJECTS_FILE} of the input dataset lists them: tfx-shards lineage finds it."
    steps += [(f" by {s.producer}", s.total, s.rejects, lists) for s in facts.left_out_before]
    steps = [step for step in steps if step[1].rejected]
    for who, total, codes, cure in steps:
        said = f": {list_counts(codes)}" if codes else ""
        message = f"{total.rejected:,} of {total.found:,} inputs were left out{who}{said}"
        yield Check("rejects", "warn", message, cure)
    if not steps:
        yield Check("rejects", "ok", "none")


def _classes(labels: Mapping[str, Mapping[str, int]], totals: Mapping[str, int]) -> Check:
    """Check that no class is missing from a split, and none is much rarer than another.

    Args:
        labels: the frequency of each class, by split.
        totals: the frequency of each class in all splits, the most frequent first.
    """
    for split, counts in labels.items():
        if missing := sorted(label for label in totals if not counts.get(label)):
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            message = f"{missing[0]!r}{more} never occurs in {split}"
            cure = "Run tfx-shards convert again with --stratify, or add examples of that class."
            return Check("classes", "warn", message, cure)
    ranked = [*totals]
    commonest, rarest = ranked[0], ranked[-1]
    if totals[commonest] > _SKEWED * totals[rarest]:
        message = f"{totals[commonest]:,} of {commonest!r} for {totals[rarest]:,} of {rarest!r}"
        cure = "Weight the examples (labels=LabelOptions(sample_weight=…)), or read one dataset "
        cure += "per class with weights=[…]."
        return Check("classes", "warn", message, cure)
    most, least = quantity(totals[commonest], "example"), totals[rarest]
    sizes = f"{most} each" if least == totals[commonest] else f"{least:,} to {most}"
    return Check("classes", "ok", f"{len(totals)}, of {sizes}")
