"""What must agree in a dataset beside its shards: JSON files, counts, labels.

for problem in check_small_files(files, manifest):
    print(problem.message)
"""

import collections
import json
from collections.abc import Iterator, Mapping, Sequence

from pipelines.dataset_files import DatasetFiles
from pipelines.verification.problems import Problem
from pipelines.verification.shards import ShardOutcome
from trainer_utils.format import DatasetError, Feature, Manifest, parse_features, parse_shard_info
from trainer_utils.format.naming import (
    DATUM_SHARDS_FILE,
    DATUM_TYPES_FILE,
    MANIFEST_FILE,
    REJECTS_FILE,
    SPLIT_PREFIX,
    vocabulary_file,
)

__all__ = ["check_labels", "check_small_files", "label_features"]

_LABELS = ("label", "labels")


def check_small_files(files: DatasetFiles, manifest: Manifest) -> Iterator[Problem]:
    """Compares the files of a dataset with its manifest; shards by their names alone."""
    named = {shard.path for shard in manifest.shards}
    for path in sorted(files.sizes):
        if path.startswith(SPLIT_PREFIX) and path not in named:
            yield Problem(
                path, f"{files.path(path)!r}: is no part of the dataset by its manifest. Remove it."
            )
    yield from _accounting(files, manifest)
    yield from _datum(files, manifest)
    yield from _rejects(files, manifest)


def _accounting(files: DatasetFiles, manifest: Manifest) -> Iterator[Problem]:
    for split, accounting in manifest.accounting.items():
        records = sum(shard.records for shard in manifest.shards_of(split))
        if records != accounting.written:
            yield Problem(
                MANIFEST_FILE,
                f"{files.path(MANIFEST_FILE)!r}: split {split!r}: expected shards of "
                f"{accounting.written} records as were written, got {records}",
            )


def _datum(files: DatasetFiles, manifest: Manifest) -> Iterator[Problem]:
    try:
        features(files)
        info = parse_shard_info(
            files.read_text(DATUM_SHARDS_FILE), path=files.path(DATUM_SHARDS_FILE)
        )
    except DatasetError as error:
        yield Problem(DATUM_SHARDS_FILE, str(error))
        return
    ours = {s: {x.path: x.records for x in manifest.shards_of(s)} for s in manifest.splits}
    for split in dict.fromkeys([*ours, *info]):
        mine, datum = ours.get(split, {}), info.get(split, {})
        if list(mine.items()) != list(datum.items()):
            yield Problem(
                DATUM_SHARDS_FILE,
                f"{files.path(DATUM_SHARDS_FILE)!r}: split {split!r}: expected "
                f"{_first_difference(mine, datum)}. Write the dataset again.",
            )


def _first_difference(mine: Mapping[str, int], others: Mapping[str, int]) -> str:
    for path in dict.fromkeys([*mine, *others]):
        if mine.get(path) != others.get(path):
            return (
                f"{mine.get(path, 'no')} records of {path!r} as in {MANIFEST_FILE}, "
                f"got {others.get(path, 'none')}"
            )
    return f"the order of {MANIFEST_FILE}, got another"


def _rejects(files: DatasetFiles, manifest: Manifest) -> Iterator[Problem]:
    rejected = manifest.total.rejected
    where = files.path(REJECTS_FILE)
    if REJECTS_FILE not in files.sizes:
        if rejected:
            yield Problem(REJECTS_FILE, f"{where!r}: is missing: {rejected} inputs were rejected")
        return
    try:
        lines = files.read_text(REJECTS_FILE).splitlines()
        codes = dict(collections.Counter(json.loads(line)["code"] for line in lines))
    except (DatasetError, ValueError, KeyError, TypeError) as error:
        yield Problem(REJECTS_FILE, f"{where!r}: expected an object a line: {error}")
        return
    if codes != manifest.reject_counts:
        yield Problem(
            REJECTS_FILE,
            f"{where!r}: expected {dict(manifest.reject_counts)} as the manifest says, got {codes}",
        )


def features(files: DatasetFiles) -> dict[str, Feature]:
    """Of a dataset with Datum's JSON.

    Raises:
        DatasetError: it is missing or malformed.
    """
    path = files.path(DATUM_TYPES_FILE)
    return parse_features(files.read_text(DATUM_TYPES_FILE), path=path)


def label_features(files: DatasetFiles, manifest: Manifest) -> tuple[str, ...]:
    """The features that the manifest's label counts may be of."""
    if not manifest.label_counts or DATUM_TYPES_FILE not in files.sizes:
        return ()
    try:
        integers = [name for name, feature in features(files).items() if feature.type == "int"]
    except DatasetError:
        return ()  # told elsewhere
    return tuple(n for n in integers if n in _LABELS or vocabulary_file(n) in files.sizes)


def check_labels(
    files: DatasetFiles, manifest: Manifest, outcomes: Sequence[ShardOutcome]
) -> Iterator[Problem]:
    """Compares the labels that were read with the manifest's, in splits that were read whole."""
    names = label_features(files, manifest)
    try:
        vocabularies = {
            name: files.read_text(vocabulary_file(name)).split("\n")[:-1]
            for name in names
            if vocabulary_file(name) in files.sizes
        }
    except DatasetError as error:
        yield Problem(MANIFEST_FILE, str(error))
        return
    for split in manifest.splits:
        of_split = [outcome for outcome in outcomes if outcome.split == split]
        if not names or any(outcome.problems for outcome in of_split):
            continue
        expected = dict(manifest.label_counts.get(split, {}))
        found = {name: _counts(name, of_split, vocabularies.get(name)) for name in names}
        if expected not in found.values():
            got = found[names[0]]
            label = next(n for n in [*expected, *got] if expected.get(n) != got.get(n))
            yield Problem(
                MANIFEST_FILE,
                f"{files.path(MANIFEST_FILE)!r}: split {split!r}: expected "
                f"{expected.get(label, 0)} records of {names[0]} {label!r} as the manifest says, "
                f"got {got.get(label, 0)}. Write the dataset again.",
            )


def _counts(
    name: str, outcomes: Sequence[ShardOutcome], vocabulary: Sequence[str] | None
) -> dict[str, int]:
    total: collections.Counter[int] = collections.Counter()
    for outcome in outcomes:
        total.update(outcome.labels.get(name, {}))
    if vocabulary is None:
        return {str(value): count for value, count in total.items()}
    known = range(len(vocabulary))
    return {
        vocabulary[value] if value in known else f"number {value}, which has no name": count
        for value, count in total.items()
    }
