"""The names of files and folders in a dataset, written and parsed in this one place.

    name = ShardName(split="train", shard_index=0, num_shards=8)
    name.path                      # 'Split-train/data_tfrecord-00000-of-00008'
    ShardName.parse(name.path)     # the same again

Source: TFX keeps an Examples artifact as `Split-<name>/` folders of sharded TFRecord files
(`tfx.types.artifact_utils.get_split_uri`); Datum keeps its two JSON files at the top.
"""

import dataclasses
import re

from trainer_utils.format.errors import ConfigError, DatasetError

__all__ = [
    "DATASET_FILES",
    "DATUM_SHARDS_FILE",
    "DATUM_TYPES_FILE",
    "EXAMPLE_SCHEMA_FILE",
    "INDEX_FOLDER",
    "MANIFEST_FILE",
    "REJECTS_FILE",
    "SCHEMA_FILE",
    "SHARD_PREFIX",
    "SPLIT_PREFIX",
    "VOCABULARY_FOLDER",
    "WORKING_FOLDER",
    "ShardName",
    "canonical_split",
    "check_split_name",
    "index_file",
    "split_folder",
    "vocabulary_file",
    "vocabulary_of",
]

SPLIT_PREFIX = "Split-"
SHARD_PREFIX = "data_tfrecord"
MANIFEST_FILE = "manifest.json"
DATUM_TYPES_FILE = "datum_to_type_and_shape_mapping.json"
DATUM_SHARDS_FILE = "shard_info.json"
SCHEMA_FILE = "schema.pbtxt"
EXAMPLE_SCHEMA_FILE = "example.schema.json"
REJECTS_FILE = "rejects.jsonl"
DATASET_FILES = (MANIFEST_FILE, DATUM_TYPES_FILE, DATUM_SHARDS_FILE, SCHEMA_FILE, REJECTS_FILE)
VOCABULARY_FOLDER = "vocab"
INDEX_FOLDER = "index"
WORKING_FOLDER = ".tfx-shards-tmp"  # while a dataset is being written

_SPLIT_NAME = re.compile(r"\w+", re.ASCII)
_SHARD_PATH = re.compile(
    rf"{SPLIT_PREFIX}(?P<split>\w+)/{SHARD_PREFIX}"
    r"-(?P<shard_index>\d{5,})-of-(?P<num_shards>\d{5,})(?P<gzip>\.gz)?",
    re.ASCII,
)
_SPELLINGS = {
    "train": ("train", "training"),
    "eval": ("eval", "evaluation", "val", "valid", "validation", "validate", "dev"),
    "test": ("test", "testing"),
}
_CANONICAL = {spelling: name for name, spellings in _SPELLINGS.items() for spelling in spellings}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardName:
    """One shard's place in its dataset.

    Args:
        split: the split's name, word characters only.
        shard_index: in [0, num_shards).
        num_shards: shards in this split.
        gzip: whether the file is gzip-compressed; readers tell by the `.gz` suffix.
    """

    split: str
    shard_index: int
    num_shards: int
    gzip: bool = False

    def __post_init__(self) -> None:
        check_split_name(self.split)
        if not 0 <= self.shard_index < self.num_shards:
            raise ConfigError(
                f"shard_index: expected 0 <= shard_index < {self.num_shards}, "
                f"got {self.shard_index}"
            )

    @property
    def path(self) -> str:
        """The path relative to the dataset's uri, with `/` between its parts."""
        suffix = ".gz" if self.gzip else ""
        return (
            f"{split_folder(self.split)}/{SHARD_PREFIX}"
            f"-{self.shard_index:05d}-of-{self.num_shards:05d}{suffix}"
        )

    @classmethod
    def parse(cls, path: str) -> "ShardName":
        """The name that a relative path spells.

        Raises:
            DatasetError: the path is not one that `path` makes.
        """
        match = _SHARD_PATH.fullmatch(path)
        if match is None:
            raise DatasetError(
                f"shard {path!r}: expected a path such as "
                f"'{SPLIT_PREFIX}train/{SHARD_PREFIX}-00000-of-00008'"
            )
        return cls(
            split=match["split"],
            shard_index=int(match["shard_index"]),
            num_shards=int(match["num_shards"]),
            gzip=match["gzip"] is not None,
        )


def split_folder(split: str) -> str:
    """The folder of a split's shards, relative to the dataset's uri."""
    return f"{SPLIT_PREFIX}{split}"


def index_file(shard_path: str) -> str:
    """The file that says where a shard's records lie, relative to the dataset's uri.

    It cannot lie beside the shard, since TFX reads whatever is in a split's folder, and is not
    called like one, since others look for `data_tfrecord-*` at any depth.

    Args:
        shard_path: the shard's, relative to the dataset's uri.
    """
    name = ShardName.parse(shard_path)
    numbers = f"{name.shard_index:05d}-of-{name.num_shards:05d}"
    return f"{INDEX_FOLDER}/{name.split}-{numbers}.npy"


def vocabulary_file(feature: str) -> str:
    """The file of a feature's vocabulary, relative to the dataset's uri."""
    return f"{VOCABULARY_FOLDER}/{feature}.txt"


def vocabulary_of(path: str) -> str | None:
    """The feature whose vocabulary a relative path is; None where it is another file's."""
    prefix, suffix = vocabulary_file("\0").split("\0")
    is_one = path.startswith(prefix) and path.endswith(suffix)
    return path.removeprefix(prefix).removesuffix(suffix) if is_one else None


def check_split_name(split: str) -> str:
    """`split` itself, if it can be a folder's name and stand in a slice such as `train[:80%]`.

    Raises:
        ConfigError: it holds anything but ASCII letters, digits and underscores.
    """
    if not _SPLIT_NAME.fullmatch(split):
        raise ConfigError(
            f"split {split!r}: expected a name of letters, digits and underscores, such as 'train'"
        )
    return split


def canonical_split(name: str) -> str | None:
    """`train`, `eval` or `test` for any of their usual spellings, None for any other name.

    `eval` is TFX's own word for what others call val, valid, validation or dev.
    """
    return _CANONICAL.get(name.lower())
