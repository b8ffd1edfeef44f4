"""What must agree in a dataset beside its shards: small files, counts, labels.

for problem in check_small_files(files, manifest):
    print(problem.message)
"""

import collections
from collections.abc import Iterator, Sequence

from pipelines.tools.verification.shards import Problem, ShardOutcome
from trainer_utils.dataset.files import DatasetFiles
from trainer_utils.format import (
    ConfigError,
    DatasetError,
    Manifest,
    parse_features,
    parse_shard_info,
)
from trainer_utils.format.naming import (
    DATASET_FILES,
    DATUM_SHARDS_FILE,
    DATUM_TYPES_FILE,
    EXAMPLE_SCHEMA_FILE,
    INDEX_FOLDER,
    INPUTS_FILE,
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
from trainer_utils.format.sealing import is_sealed
from trainer_utils.format.tfds import TFDS_FEATURES_FILE, TFDS_INFO_FILE
from trainer_utils.storage import is_fault

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
    named = {MANIFEST_FILE, LINEAGE_FILE, INPUTS_FILE, *(shard.path for shard in manifest.shards)}
    named |= manifest.published.keys()
    for path in sorted(set(files.sizes) - named):
        if path.startswith(_OWN_FOLDERS) or path in _KNOWN_FILES:
            yield Problem(
                path, f"{files.path(path)!r}: is no part of the dataset by its manifest. Remove it."
            )
    yield from _accounting(files, manifest)
    yield from _sums(files, manifest)


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


def _sums(files: DatasetFiles, manifest: Manifest) -> Iterator[Problem]:
    """Compares small files with their checksums; those beside the manifest have their own."""
    for path in sorted({*manifest.files, *({LINEAGE_FILE, INPUTS_FILE} & files.sizes.keys())}):
        where = files.path(path)
        if path not in files.sizes:
            message = f"{where!r}: is missing, though {MANIFEST_FILE} names it. Write it again."
            yield Problem(path, message)
            continue
        try:
            if path == LINEAGE_FILE:
                Origin.from_json(files.read_text(path), path=where)
            elif path == INPUTS_FILE:
                if not is_sealed(files.read_text(path)):
                    raise DatasetError.at(
                        where, expected="the checksum that it names", got="another content"
                    )
            else:
                manifest.check_text(path, files.read_bytes(path), path=where)
        except OSError as error:
            yield Problem(path, f"{where!r}: cannot be read: {error.strerror or error}")
        except DatasetError as error:
            yield Problem.of(error, path)


def _accounting(files: DatasetFiles, manifest: Manifest) -> Iterator[Problem]:
    for split, accounting in manifest.accounting.items():
        records = sum(shard.records for shard in manifest.shards_of(split))
        if records != accounting.written:
            yield Problem(
                MANIFEST_FILE,
                f"{files.path(MANIFEST_FILE)!r}: split {split!r}: expected shards of "
                f"{accounting.written} records as were written, got {records}",
            )


def label_features(files: DatasetFiles, manifest: Manifest) -> tuple[str, ...]:
    """The features that the manifest's label counts may be of."""
    if not manifest.label_counts or DATUM_TYPES_FILE not in files.sizes:
        return ()
    try:
        text, path = files.read_text(DATUM_TYPES_FILE), files.path(DATUM_TYPES_FILE)
        integers = [
            n for n, feature in parse_features(text, path=path).items() if feature.type == "int"
        ]
    except DatasetError as error:
        if is_fault(error):
            raise
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
    except DatasetError as error:
        if is_fault(error):
            raise
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
