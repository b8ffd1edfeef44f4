"""What must agree in a dataset beside its shards: small files, counts, labels.

for problem in check_small_files(files, manifest):
    print(problem.message)
"""

import collections
from collections.abc import Iterator, Mapping, Sequence

from pipelines.tools.verification.problems import Problem
from pipelines.tools.verification.shards import ShardOutcome
from trainer_utils.dataset.files import DatasetFiles
from trainer_utils.format import (
    ConfigError,
    DatasetError,
    Feature,
    Manifest,
    parse_features,
    parse_shard_info,
)
from trainer_utils.format.json_text import json_lines
from trainer_utils.format.naming import (
    DATASET_FILES,
    DATUM_SHARDS_FILE,
    DATUM_TYPES_FILE,
    EXAMPLE_SCHEMA_FILE,
    INDEX_FOLDER,
    LABEL_FEATURES,
    LINEAGE_FILE,
    MANIFEST_FILE,
    REJECTS_FILE,
    SPLIT_PREFIX,
    VOCABULARY_FOLDER,
    is_index_file,
    is_shard_file,
    vocabulary_file,
    vocabulary_of,
)
from trainer_utils.format.origin import Origin
from trainer_utils.format.tfds import TFDS_FEATURES_FILE, TFDS_INFO_FILE

__all__ = [
    "check_labels",
    "check_no_manifest",
    "check_small_files",
    "label_features",
]

_OWN_FOLDERS = (SPLIT_PREFIX, f"{INDEX_FOLDER}/", f"{VOCABULARY_FOLDER}/")
# What readers look for at the top: one that no manifest names would be believed.
_KNOWN_FILES = {*DATASET_FILES, EXAMPLE_SCHEMA_FILE, TFDS_FEATURES_FILE, TFDS_INFO_FILE}


def check_small_files(files: DatasetFiles, manifest: Manifest) -> Iterator[Problem]:
    """Compares the files of a dataset with its manifest; shards by their names alone."""
    named = {MANIFEST_FILE, LINEAGE_FILE, *(shard.path for shard in manifest.shards)}
    named |= manifest.published.keys()
    for path in sorted(set(files.sizes) - named):
        if path.startswith(_OWN_FOLDERS) or path in _KNOWN_FILES:
            yield Problem(
                path, f"{files.path(path)!r}: is no part of the dataset by its manifest. Remove it."
            )
    problems = [
        *_accounting(files, manifest),
        *_datum(files, manifest),
        *_rejects(files, manifest),
        *_lineage(files),
    ]
    yield from problems
    yield from _sums(files, manifest, known={problem.path for problem in problems})


def check_no_manifest(files: DatasetFiles) -> Iterator[Problem]:
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


def _sums(files: DatasetFiles, manifest: Manifest, *, known: set[str]) -> Iterator[Problem]:
    """Compares the content of small files with their checksums."""
    for path in sorted(set(manifest.files) - known):
        where = files.path(path)
        if path not in files.sizes:
            yield Problem(
                path, f"{where!r}: is missing, though {MANIFEST_FILE} names it. Write it again."
            )
            continue
        try:
            manifest.check_text(path, files.read_bytes(path), path=where)
        except OSError as error:
            yield Problem(path, f"{where!r}: cannot be read: {error.strerror or error}")
        except DatasetError as error:
            yield Problem.of(error, path)


def _lineage(files: DatasetFiles) -> Iterator[Problem]:
    """Of `lineage.json`, which no manifest names and which has a checksum of its own."""
    if LINEAGE_FILE not in files.sizes:
        return
    try:
        Origin.from_json(files.read_text(LINEAGE_FILE), path=files.path(LINEAGE_FILE))
    except DatasetError as error:
        yield Problem.of(error, LINEAGE_FILE)


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
        yield Problem.of(error, DATUM_SHARDS_FILE)
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
        entries = json_lines(files.read_text(REJECTS_FILE), path=where)
        codes = dict(collections.Counter(entry["code"] for entry in entries))
    except (ValueError, KeyError, TypeError) as error:
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
        return ()  # reported by another check
    return tuple(n for n in integers if n in LABEL_FEATURES or _vocabulary(n) in files.sizes)


def _vocabulary(feature: str) -> str | None:
    try:
        return vocabulary_file(feature)
    except ConfigError:  # no file can be called after it
        return None


def check_labels(
    files: DatasetFiles, manifest: Manifest, outcomes: Sequence[ShardOutcome]
) -> Iterator[Problem]:
    """Compares the labels that were read with the manifest's, in splits that were read whole."""
    names = label_features(files, manifest)
    try:
        vocabularies = {
            name: files.read_text(path).split("\n")[:-1]
            for name in names
            if (path := _vocabulary(name)) is not None and path in files.sizes
        }
    except DatasetError:
        return  # another check reports it
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
