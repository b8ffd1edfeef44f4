"""What in a dataset will hurt a training, and the cure: wholeness, shards, rejects, classes.

    for check in dataset_checks("datasets/photos", workers=8):
        print(check.level, check.message, check.cure)

Nothing is changed, and no record is read.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from components.report.inspection import DatasetFacts, SplitFacts, inspect_dataset
from trainer_utils.format import DatasetError
from trainer_utils.format.naming import REJECTS_FILE
from trainer_utils.storage.file_system import is_fault
from trainer_utils.text_output import Part, human_bytes, list_counts, make_table, quantity

_STYLES = {"ok": "green", "warn": "yellow", "bad": "red"}
_LARGE_BYTES = 10**9  # of a split, from which the size of its shards matters
_LEAST_SHARD, _MOST_SHARD = 100 * 10**6, 200 * 10**6  # the field's advice
_UNEQUAL = 2.0  # times the smallest shard's bytes
_SKEWED = 10.0  # times the rarest class
_BALANCE = "Run ShardBalancer on it, or tfx-shards convert"


@dataclasses.dataclass(frozen=True)
class Check:
    """What was found.

    Args:
        name: what was checked.
        level: `ok`; `warn`, it will cost time or surprise; `bad`, it will fail.
        message: what is there.
        cure: what to do; empty where all is well.
    """

    name: str
    level: str
    message: str
    cure: str = ""


def is_good(checks: Iterable[Check]) -> bool:
    """Whether nothing will fail."""
    return all(check.level != "bad" for check in checks)


def checks_table(checks: Iterable[Check]) -> Part:
    """A line a check, and its cure below it."""
    rows = [
        [check.level, check.name, [check.message, *([f"→ {check.cure}"] if check.cure else [])]]
        for check in checks
    ]
    return make_table(None, rows, styles=_STYLES)


def dataset_checks(uri: str, *, workers: int = 1) -> Iterator[Check]:
    """All of them.

    Args:
        uri: of the dataset.
        workers: that will read it.
    """
    try:
        facts = inspect_dataset(uri)
    except DatasetError as error:
        if is_fault(error):
            raise
        cure = "tfx-shards verify names every problem, if it is a dataset at all."
        yield Check("dataset", "bad", str(error), cure)
        return
    yield _manifest(facts)
    yield from _shards(facts, workers)
    if facts.is_gzip:
        yield Check(
            "compression",
            "warn",
            "gzip: Datum cannot read it, and shuffle='global' and resuming cannot skip in it",
            "Write it again with compression='none'; images and sounds hardly shrink.",
        )
    else:
        yield Check("compression", "ok", "none")
    yield from _rejects(facts)
    yield from _classes(facts)


def _manifest(facts: DatasetFacts) -> Check:
    manifest = facts.manifest
    if manifest is None:
        return Check(
            "manifest",
            "warn",
            f"none (written by {facts.writer}): a missing record or shard would go unnoticed",
            f"{_BALANCE}.",
        )
    if any(shard.index_crc32c is None for shard in manifest.shards) and not facts.is_gzip:
        return Check(
            "index",
            "warn",
            "no record index: every shard has to be scanned before its first record is read",
            "Run ShardBalancer on it, which writes one.",
        )
    return Check("manifest", "ok", f"whole by its manifest, written by {facts.writer}")


def _shards(facts: DatasetFacts, workers: int) -> Iterator[Check]:
    for name, split in facts.splits.items():
        what = f"shards of {name}"
        if split.records == 0 or not split.shards:
            yield Check(what, "warn", "no record in it", "Set splits, or leave it out.")
            continue
        sizes = [shard.bytes for shard in split.shards]
        message = f"{split.num_shards} of {human_bytes(max(sizes))} at the most"
        if split.num_shards < workers:
            yield Check(
                what,
                "warn",
                f"{split.num_shards} for {workers} workers: readers that share out files, not "
                "records, leave workers without any",
                f"{_BALANCE}, with shard_multiple={workers} or num_shards={workers}.",
            )
        elif split.num_shards % workers:
            yield Check(
                what,
                "warn",
                f"{split.num_shards} is no multiple of {workers} workers",
                f"{_BALANCE}, with shard_multiple={workers}.",
            )
        elif (advice := _size_advice(split)) is not None:
            yield Check(what, "warn", *advice)
        else:
            yield Check(what, "ok", message)


def _size_advice(split: SplitFacts) -> tuple[str, str] | None:
    sizes = [shard.bytes for shard in split.shards]
    mean = split.bytes / len(sizes)
    if split.bytes >= _LARGE_BYTES and not _LEAST_SHARD <= mean <= _MOST_SHARD:
        return (
            f"{human_bytes(mean)} on average: 100 to 200 MB read best from disks and object stores",
            f"{_BALANCE}, with target_shard_bytes={128 << 20}.",
        )
    if max(sizes) > _UNEQUAL * max(min(sizes), 1):
        return (
            f"from {human_bytes(min(sizes))} to {human_bytes(max(sizes))}: workers would not "
            "finish together",
            f"{_BALANCE}.",
        )
    return None


def _rejects(facts: DatasetFacts) -> Iterator[Check]:
    if facts.manifest is None:
        return
    lists = f"{facts.uri}/{REJECTS_FILE} names each of them."
    found = [("", facts.manifest.total, facts.manifest.reject_counts, lists)]
    lists = f"{REJECTS_FILE} of the dataset before names each of them: tfx-shards lineage finds it."
    found += [(f" by {s.producer}", s.total, s.rejects, lists) for s in facts.left_out_before]
    found = [each for each in found if each[1].rejected]
    for who, total, codes, cure in found:
        said = f": {list_counts(codes)}" if codes else ""
        message = f"{total.rejected:,} of {total.found:,} inputs were left out{who}{said}"
        yield Check("rejects", "warn", message, cure)
    if not found:
        yield Check("rejects", "ok", "none")


def _classes(facts: DatasetFacts) -> Iterator[Check]:
    if not facts.labels:
        return
    totals = facts.label_totals
    rarest = min(totals, key=lambda label: (totals[label], label))
    commonest = max(totals, key=lambda label: (totals[label], label))
    missing = _missing(facts.labels, totals)
    if missing:
        yield Check(
            "classes",
            "warn",
            missing,
            "Convert it again with stratify=True, or more of that class.",
        )
    elif totals[commonest] > _SKEWED * totals[rarest]:
        yield Check(
            "classes",
            "warn",
            f"{totals[commonest]:,} of {commonest!r} for {totals[rarest]:,} of {rarest!r}",
            "Weigh the examples (sample_weight=), or read a dataset a class with weights=.",
        )
    else:
        yield Check(
            "classes",
            "ok",
            f"{len(totals)}, of {totals[rarest]:,} to {quantity(totals[commonest], 'example')}",
        )


def _missing(labels: Mapping[str, Mapping[str, int]], totals: Mapping[str, int]) -> str:
    for split, counts in labels.items():
        lacking = sorted(label for label in totals if not counts.get(label))
        if lacking:
            more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            return f"{lacking[0]!r}{more} never occurs in {split}"
    return ""
