"""Which files of a folder are a dataset's shards, whoever wrote it, and what its own files say.

    found = find_layout(files, read_text, uri="gs://bucket/mnist/3.0.1")
    found.shards["train"][0].path

Known are datasets of ours (`manifest.json`), Datum's (`shard_info.json`), TFDS's
(`dataset_info.json`), stock TFX ones (`Split-*/` folders), and folders of bare TFRecord files, such
as TFRecorder's. It takes names and sizes, and a function that reads a small file: no file system is
touched here.
"""

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from trainer_utils.format.datum import Feature, parse_features, parse_shard_info
from trainer_utils.format.errors import DatasetError
from trainer_utils.format.manifest import Manifest, Shard
from trainer_utils.format.naming import (
    DATUM_SHARDS_FILE,
    DATUM_TYPES_FILE,
    EXAMPLE_SCHEMA_FILE,
    MANIFEST_FILE,
    SHARD_PREFIX,
    SPLIT_PREFIX,
    WORKING_FOLDER,
    canonical_split,
    check_inner_path,
    vocabulary_of,
)
from trainer_utils.format.tfds import (
    TFDS_FEATURES_FILE,
    TFDS_INFO_FILE,
    labels_file,
    parse_tfds_features,
    parse_tfds_splits,
)

__all__ = ["DatasetLayout", "FoundShard", "find_layout", "sign_of_dataset"]

_BARE = re.compile(r"\.(tfrecords?|tfrec)(\.gz)?$|\.tfrecords?-\d+-of-\d+$")
_SHARD = re.compile(rf"(artifacts/[^/]+/[^/]+/\d+/)?{SPLIT_PREFIX}[^/]+/{SHARD_PREFIX}-")  # TFX's
_BESIDE_BARE = (".json", ".pbtxt", ".labels.txt")
_NUMBERED = re.compile(r"(?P<head>.*)-(?P<index>\d{5,})-of-(?P<count>\d{5,})(?P<tail>[^/]*)")
_WORDS = re.compile(r"[A-Za-z]+")
_DEFAULT_SPLIT = "train"

_Parsed = TypeVar("_Parsed")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FoundShard:
    """One file of records.

    Args:
        path: relative to the dataset's uri, as its own files name it; those that SchemaExport
            writes may lead out of it.
        records: None where only reading it shows that.
        entry: what the manifest says of it, if there is one.
    """

    path: str
    records: int | None = None
    entry: Shard | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetLayout:
    """What was found.

    Args:
        shards: by split, in order.
        features: by name; None where only reading the records shows them.
        named_in: the file that names the shards, if there is one.
        manifest: of a dataset of ours.
        vocabulary_files: the file of each feature's class names, relative to the uri.
    """

    shards: Mapping[str, Sequence[FoundShard]]
    features: Mapping[str, Feature] | None
    named_in: str = ""
    manifest: Manifest | None = None
    vocabulary_files: Mapping[str, str] = dataclasses.field(default_factory=dict)


def find_layout(
    files: Mapping[str, int | None], read_text: Callable[[str], str], *, uri: str
) -> DatasetLayout:
    """Finds a dataset among files.

    What JSON of others names lies inside of the folder. The exception is SchemaExport's artifact,
    known by `example.schema.json`: it describes shards that lie elsewhere.

    Args:
        files: bytes by path relative to `uri`, with `/`: at least those of its own folder and of
            the folders in it. Only sizes in `Split-*/` matter.
        read_text: reads one of these files.
        uri: for error messages.

    Raises:
        DatasetError: there is no dataset, or it is not whole; the message names the problem.
    """
    vocabularies = {name: path for path in files if (name := vocabulary_of(path)) is not None}
    in_splits = {p: size or 0 for p, size in files.items() if p.startswith(SPLIT_PREFIX)}
    features = None
    if DATUM_TYPES_FILE in files:
        features = _parsed(parse_features, DATUM_TYPES_FILE, read_text, uri)
    if MANIFEST_FILE in files:
        manifest = _parsed(Manifest.from_json, MANIFEST_FILE, read_text, uri)
        manifest.check_files(in_splits)
        return DatasetLayout(
            shards={
                split: [
                    FoundShard(path=shard.path, records=shard.records, entry=shard)
                    for shard in manifest.shards_of(split)
                ]
                for split in manifest.splits
            },
            features=features,
            named_in=MANIFEST_FILE,
            manifest=manifest,
            vocabulary_files=vocabularies,
        )
    if any(path.startswith(f"{WORKING_FOLDER}/") for path in files):
        raise DatasetError.at(uri, expected="a whole dataset", got="one that was never finished")
    if DATUM_SHARDS_FILE in files:
        path = f"{uri}/{DATUM_SHARDS_FILE}"
        shards = _counted(_parsed(parse_shard_info, DATUM_SHARDS_FILE, read_text, uri))
        _check_inside(shards, files, path)
        return DatasetLayout(
            shards=shards,
            features=features,
            named_in=DATUM_SHARDS_FILE,
            vocabulary_files=vocabularies,
        )
    if TFDS_INFO_FILE in files:
        return _tfds(files, read_text, uri)
    found = _folders(in_splits) if in_splits else _bare(files, uri)
    return DatasetLayout(shards=found, features=features, vocabulary_files=vocabularies)


def sign_of_dataset(names: Collection[str]) -> str | None:
    """The file that shows that a folder is a dataset of TFRecords already; None for raw files.

    Args:
        names: paths of files relative to the folder, with `/`; or the one name of a file.
    """
    if shards := [name for name in names if _SHARD.match(name)]:
        return min(shards)
    signs = {DATUM_SHARDS_FILE: DATUM_TYPES_FILE, TFDS_INFO_FILE: TFDS_FEATURES_FILE}
    for own, beside in signs.items():
        if own in names and beside in names:
            return own
    bare = [name for name in names if _BARE.search(name)]
    others = sum(not name.endswith(_BESIDE_BARE) for name in names) - len(bare)
    return min(bare) if bare and not others else None


def _parsed(
    parse: Callable[..., _Parsed], name: str, read_text: Callable[[str], str], uri: str
) -> _Parsed:
    """What a file says; whatever is wrong with it, the error names it."""
    path = f"{uri}/{name}"
    try:
        return parse(read_text(name), path=path)
    except DatasetError:
        raise
    except (ArithmeticError, LookupError, OSError, RecursionError, TypeError, ValueError) as error:
        raise DatasetError(
            f"{path!r}: cannot be read: {type(error).__name__}: {error}. "
            "If it is damaged, write the dataset again."
        ) from error


def _counted(info: Mapping[str, Mapping[str, int]]) -> dict[str, list[FoundShard]]:
    return {
        split: [FoundShard(path=path, records=records) for path, records in shards.items()]
        for split, shards in info.items()
    }


def _check_inside(
    shards: Mapping[str, Sequence[FoundShard]], files: Mapping[str, int | None], named_in: str
) -> None:
    for split, group in shards.items():
        if "/" in check_inner_path(split, named_in=named_in):
            raise DatasetError(f"split {split!r}: expected a name without '/' ({named_in})")
        for shard in group:
            if EXAMPLE_SCHEMA_FILE not in files:
                check_inner_path(shard.path, named_in=named_in)


def _tfds(
    files: Mapping[str, int | None], read_text: Callable[[str], str], uri: str
) -> DatasetLayout:
    path = f"{uri}/{TFDS_INFO_FILE}"
    shards = _counted(_parsed(parse_tfds_splits, TFDS_INFO_FILE, read_text, uri))
    _check_inside(shards, files, path)
    features = None
    if TFDS_FEATURES_FILE in files:
        features = _parsed(parse_tfds_features, TFDS_FEATURES_FILE, read_text, uri)
    return DatasetLayout(
        shards=shards,
        features=features,
        named_in=TFDS_INFO_FILE,
        vocabulary_files={
            name: labels_file(name) for name in features or () if labels_file(name) in files
        },
    )


def _folders(paths: Mapping[str, int]) -> dict[str, list[FoundShard]]:
    """A stock artifact's shards: all that lies in its splits' folders."""
    _check_numbers(paths)
    shards: dict[str, list[FoundShard]] = {}
    for path in sorted(paths):
        split = path.split("/")[0].removeprefix(SPLIT_PREFIX)
        shards.setdefault(split, []).append(FoundShard(path=path))
    return shards


def _bare(files: Mapping[str, int | None], uri: str) -> dict[str, list[FoundShard]]:
    """TFRecord files, in the folder or one below it; names say the split, else it is `train`."""
    paths = [path for path in files if _BARE.search(path) and path.count("/") < 2]
    if not paths:
        hint = ""
        if inner := sorted(p for p in files if p.endswith(f"/{TFDS_INFO_FILE}")):
            hint = f" Give the folder of one version: {uri}/{inner[0].rpartition('/')[0]}"
        raise DatasetError(
            f"{uri!r}: expected a dataset ({MANIFEST_FILE}, {DATUM_SHARDS_FILE}, "
            f"{TFDS_INFO_FILE}, {SPLIT_PREFIX}*/ folders of TFRecord files, or *.tfrecord files), "
            f"found none of these.{hint}",
            path=uri,
        )
    _check_numbers(paths)
    shards: dict[str, list[FoundShard]] = {}
    for path in sorted(paths):
        shards.setdefault(_split_of(path), []).append(FoundShard(path=path))
    return shards


def _split_of(path: str) -> str:
    """The first word of a path that is a usual spelling of a split, such as `val`."""
    words = (word.lower() for word in _WORDS.findall(path))
    return next((word for word in words if canonical_split(word)), _DEFAULT_SPLIT)


def _check_numbers(paths: Sequence[str] | Mapping[str, int]) -> None:
    """Refuses a gap among files that say how many they are."""
    seen: dict[tuple[str, str, str], set[int]] = {}
    for path in paths:
        if match := _NUMBERED.fullmatch(path):
            key = match["head"], match["count"], match["tail"]
            seen.setdefault(key, set()).add(int(match["index"]))
    for (head, count, tail), indices in seen.items():
        if missing := sorted(set(range(int(count))) - indices):
            name = f"{head}-{missing[0]:0{len(count)}d}-of-{count}{tail}"
            raise DatasetError(
                f"shard {name!r}: is missing, one of {len(missing)}. Write the dataset again."
            )
