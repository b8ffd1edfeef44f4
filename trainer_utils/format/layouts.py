"""Find the shards and metadata of a dataset among the files of a folder, for any writer.

It supports datasets of tfx-shards (`manifest.json`), Datum (`shard_info.json`), TFDS
(`dataset_info.json`) and stock TFX (`Split-*/` folders), and folders of bare TFRecord files.
"""

import dataclasses
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from trainer_utils.core.errors import DatasetError, reading
from trainer_utils.format import naming
from trainer_utils.format.datum import Feature, parse_features, parse_shard_info
from trainer_utils.format.manifest import Manifest, Shard
from trainer_utils.format.tfds import labels_file, parse_tfds_features, parse_tfds_splits

_NUMBERED = re.compile(r"(?P<head>.*)-(?P<index>\d{5,})-of-(?P<count>\d{5,})(?P<tail>[^/]*)")
_WORDS = re.compile(r"[A-Za-z]+")
_DEFAULT_SPLIT = "train"
_MAX_LOOKED_FOR = 100_000  # missing files: a name may claim a billion files

_Parsed = TypeVar("_Parsed")


class ShardFile(NamedTuple):
    """One file of records.

    Args:
        name: the name in the dataset, relative to its uri unless the file is elsewhere.
        records: the number of records; None if no metadata has it and they were not counted.
        entry: its entry in the manifest, if there is one.
        path: the full path, once it is opened.
        bytes: the size of the file as stored.
        is_gzip: whether it is compressed, by gzip or zlib.
    """

    name: str
    records: int | None = None
    entry: Shard | None = None
    path: str = ""
    bytes: int = 0
    is_gzip: bool = False

    @property
    def num_records(self) -> int:
        """Number of its records, for a dataset that was inspected."""
        assert self.records is not None, self.path
        return self.records

    @property
    def index_path(self) -> str | None:
        """Path of its record index, which may not exist; None if tfx-shards did not name it."""
        uri, _, name = self.path.rpartition(f"/{naming.SPLIT_PREFIX}")
        path = f"{naming.SPLIT_PREFIX}{name}"
        return f"{uri}/{naming.index_file(path)}" if naming.is_shard_file(path) else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetLayout:
    """The files and metadata of a dataset.

    Args:
        shards: the shards by split, in order.
        features: the features by name; empty if `says_features` is false.
        says_features: whether its metadata describes the features, or its records were inspected.
        named_in: the file that names the shards, if there is one.
        manifest: the manifest of a dataset written by tfx-shards.
        vocabulary_files: the file of each feature's class names, relative to the uri.
    """

    shards: Mapping[str, Sequence[ShardFile]]
    features: Mapping[str, Feature] = dataclasses.field(default_factory=dict)
    says_features: bool = False
    named_in: str = ""
    manifest: Manifest | None = None
    vocabulary_files: Mapping[str, str] = dataclasses.field(default_factory=dict)


def find_layout(
    files: Mapping[str, int | None], read_text: Callable[[str], str], *, uri: str
) -> DatasetLayout:
    """Find a dataset among files in its folder and the folders there.

    Third-party metadata may only name files inside the folder. The exception is the artifact of
    SchemaExport, which has an `example.schema.json`: it describes shards elsewhere.

    Args:
        files: the size of each file in bytes, by path relative to `uri`.
        read_text: returns the content of a file, given its path relative to `uri`.
        uri: the uri of the folder.

    Raises:
        DatasetError: there is no dataset, or it is incomplete; the message names the problem.
    """

    def parsed(parse: Callable[..., _Parsed], name: str) -> _Parsed:
        """Parse a file. Every error has its path."""
        path = f"{uri}/{name}"
        with reading(path, "to read it"):
            text = read_text(name)
            if manifest is not None:
                manifest.check_text(name, text, path=path)
            return parse(text, path=path)

    vocabularies = {n: path for path in files if (n := naming.vocabulary_of(path)) is not None}
    in_splits = {p: size or 0 for p, size in files.items() if p.startswith(naming.SPLIT_PREFIX)}
    manifest: Manifest | None = None
    shards: Mapping[str, Sequence[ShardFile]] = {}
    named_in = next((name for name in naming.DESCRIPTIONS if name in files), "")
    if named_in == naming.MANIFEST_FILE:
        manifest = parsed(Manifest.from_json, naming.MANIFEST_FILE)
        manifest.check_files(in_splits)
        for path in manifest.files.keys() - files.keys():
            if naming.vocabulary_of(path) is not None:
                raise DatasetError.at(f"{uri}/{path}", expected="a vocabulary", got="none")
        shards = {
            split: [
                ShardFile(shard.path, shard.records, shard) for shard in manifest.shards_of(split)
            ]
            for split in manifest.splits
        }
    features = None
    if naming.DATUM_TYPES_FILE in files:
        features = parsed(parse_features, naming.DATUM_TYPES_FILE)
    if manifest is None and any(path.startswith(f"{naming.WORKING_FOLDER}/") for path in files):
        raise DatasetError.at(uri, expected="a whole dataset", got="one that was never finished")
    if named_in == naming.DATUM_SHARDS_FILE:
        shards = _counted(parsed(parse_shard_info, named_in), files, f"{uri}/{named_in}")
        images = [name for name, feature in (features or {}).items() if feature.is_image]
        if features and {"image", "label"} <= {*images}:  # segmentation: pixels are class ids
            extra = {"label_map": True, **features["label"].extra}
            features["label"] = dataclasses.replace(features["label"], extra=extra)
    elif named_in == naming.TFDS_INFO_FILE:
        shards = _counted(parsed(parse_tfds_splits, named_in), files, f"{uri}/{named_in}")
        features = None
        if naming.TFDS_FEATURES_FILE in files:
            features = parsed(parse_tfds_features, naming.TFDS_FEATURES_FILE)
        vocabularies = {n: labels_file(n) for n in features or () if labels_file(n) in files}
    elif not named_in:
        check_numbers(paths := in_splits or _bare(files, uri))
        shards = layout_of_files(sorted(paths), None).shards
    return DatasetLayout(
        shards=shards,
        features=features or {},
        says_features=features is not None,
        named_in=named_in,
        manifest=manifest,
        vocabulary_files=vocabularies,
    )


def may_be_dataset(files: Collection[str]) -> bool:
    """Return whether any of these files may belong to a dataset, complete or not."""
    folders = (naming.SPLIT_PREFIX, f"{naming.WORKING_FOLDER}/")
    return any(
        path in naming.DESCRIPTIONS or path.startswith(folders) or naming.is_named_as_records(path)
        for path in files
    )


def layout_of_files(names: Sequence[str], whole: DatasetLayout | None) -> DatasetLayout:
    """Return the layout of files that were given one by one.

    A file that belongs to a dataset (`whole`) is in its split there. Any other file is in the split
    that its name or its folder's name contains, or else in `train`.
    """
    shards: dict[str, list[ShardFile]] = {}
    groups = whole.shards.items() if whole is not None else ()
    known = {shard.name: (split, shard) for split, group in groups for shard in group}
    for name in names:
        split, shard = known.get(name) or (_split_of_file(name), ShardFile(name))
        shards.setdefault(split, []).append(shard)
    if whole is None or not known.keys() >= {*names}:
        return DatasetLayout(shards=shards)
    return dataclasses.replace(whole, shards=shards, manifest=None)


def _split_of_file(path: str) -> str:
    """Return the split of a `Split-` folder, or the first split word in the last two names."""
    folder, name = ["", *path.split("/")][-2:]
    if folder.startswith(naming.SPLIT_PREFIX):
        return folder.removeprefix(naming.SPLIT_PREFIX)
    words = (word.lower() for part in (name, folder) for word in _WORDS.findall(part))
    return next(filter(naming.canonical_split, words), _DEFAULT_SPLIT)


def _counted(
    info: Mapping[str, Mapping[str, int]], files: Mapping[str, int | None], named_in: str
) -> dict[str, list[ShardFile]]:
    """Return the shards that third-party JSON names. They must be inside the folder."""
    for split, shards in info.items():
        if "/" in naming.check_inner_path(split, named_in=named_in):
            raise DatasetError(f"split {split!r}: expected a name without '/' ({named_in})")
        for path in shards if naming.EXAMPLE_SCHEMA_FILE not in files else ():
            naming.check_inner_path(path, named_in=named_in)
    return {
        split: [ShardFile(path, records) for path, records in shards.items()]
        for split, shards in info.items()
    }


def _bare(files: Collection[str], uri: str) -> list[str]:
    """Return the TFRecord files in the folder or one below, or else numbered files."""
    near = [path for path in files if path.count("/") < 2]
    paths = [path for path in near if naming.BARE_RECORDS.search(path)]
    paths = paths or [path for path in near if naming.PLAIN_RECORDS.search(path)]
    if not paths:
        hint = f"tfx-shards convert {uri} OUT makes one of raw files."
        if inner := sorted(p for p in files if p.endswith(f"/{naming.TFDS_INFO_FILE}")):
            hint = f"Give the folder of one version: {uri}/{inner[0].rpartition('/')[0]}"
        folders = f"{naming.SPLIT_PREFIX}*/ folders of TFRecord files"
        known = f"{', '.join(naming.DESCRIPTIONS)}, {folders}"
        expected = f"a dataset ({known}, or *.tfrecord files)"
        raise DatasetError.at(uri, expected=expected, got="none of these", advice=hint)
    return paths


def check_numbers(
    paths: Iterable[str], *, is_wanted: Callable[[str], object] = lambda name: True
) -> None:
    """Raise DatasetError if a wanted file is missing from a numbered series (`-00001-of-00008`)."""
    seen: dict[tuple[str, str, str], set[int]] = {}
    for path in paths:
        if match := _NUMBERED.fullmatch(path):
            key = match["head"], match["count"], match["tail"]
            seen.setdefault(key, set()).add(int(match["index"]))
    for (head, count, tail), indices in seen.items():
        gaps = (index for index in range(int(count)) if index not in indices)
        names = (f"{head}-{index:0{len(count)}d}-of-{count}{tail}" for index in gaps)
        for name in filter(is_wanted, itertools.islice(names, _MAX_LOOKED_FOR)):
            said = f"is missing, one of at most {int(count) - len(indices)}"
            raise DatasetError(f"shard {name!r}: {said}. Write the dataset again.")
