"""The names of files and folders in a dataset, written and parsed in this one place.

    name = ShardName(split="train", shard_index=0, num_shards=8)
    name.path                      # 'Split-train/data_tfrecord-00000-of-00008'
    ShardName.parse(name.path)     # the same again

Source: TFX keeps an Examples artifact as `Split-<name>/` folders of sharded TFRecord files
(`tfx.types.artifact_utils.get_split_uri`); Datum keeps its two JSON files at the top.

Whatever becomes part of a path is checked here. A feature may be called anything: in the name of
its vocabulary's file, what a file system, a shell or a terminal would take for more than a letter
is percent-encoded (RFC 3986, section 2.1). A path that a file of a dataset names is inside it.
"""

import dataclasses
import functools
import re
import urllib.parse
from collections.abc import Iterable

from trainer_utils.format.errors import ConfigError, DatasetError, InputError
from trainer_utils.format.printable import is_printable

__all__ = [
    "CROISSANT_FILE",
    "DATASET_FILES",
    "DATUM_SHARDS_FILE",
    "DATUM_TYPES_FILE",
    "EXAMPLE_SCHEMA_FILE",
    "INDEX_FOLDER",
    "LABEL_FEATURES",
    "LINEAGE_FILE",
    "MANIFEST_FILE",
    "NAME_FEATURES",
    "REJECTS_FILE",
    "SCHEMA_FILE",
    "SHARD_PREFIX",
    "SPLIT_PREFIX",
    "VOCABULARY_FOLDER",
    "WORKING_FOLDER",
    "ShardName",
    "canonical_split",
    "check_feature_names",
    "check_inner_path",
    "check_split_name",
    "escape_name",
    "index_file",
    "is_index_file",
    "is_names_file",
    "is_shard_file",
    "names_file",
    "split_folder",
    "unescape_name",
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
CROISSANT_FILE = "croissant.json"
LINEAGE_FILE = "lineage.json"  # beside the manifest, which does not name it
DATASET_FILES = (
    MANIFEST_FILE,
    DATUM_TYPES_FILE,
    DATUM_SHARDS_FILE,
    SCHEMA_FILE,
    REJECTS_FILE,
    CROISSANT_FILE,
    LINEAGE_FILE,
)
LABEL_FEATURES = ("label", "labels")
"""What a record's classes are called: one, or several."""
NAME_FEATURES = ("record_id", "filename", "id")
"""What says where a record is from. Where texts have an `id` of their own, the first is ours."""
VOCABULARY_FOLDER = "vocab"
INDEX_FOLDER = "index"
_VOCABULARY_SUFFIX = ".txt"
WORKING_FOLDER = ".tfx-shards-tmp"  # while a dataset is being written

_MOST_NAME_BYTES = 255  # NAME_MAX of Linux, macOS and Windows
_MOST_SPLIT_CHARACTERS = 200  # a shard's name has more than its split's
_SPLIT_NAME = re.compile(r"\w+", re.ASCII)
# A path with nothing to look at more closely, as nearly all are: five times faster.
_PLAIN_PATH = re.compile(r"(?:[\w-][\w.-]{0,99}/)*[\w-][\w.-]{0,99}", re.ASCII)
_INDEX_PATH = re.compile(rf"{INDEX_FOLDER}/\w+-\d{{5,}}-of-\d{{5,}}(\.names)?\.npy", re.ASCII)
# Separators, what shells and Windows keep for themselves, and the escape itself.
_RESERVED = frozenset('%/\\<>:"|?*')
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
            raise ConfigError.of(
                "shard_index",
                self.shard_index,
                allowed=f"0 <= shard_index < {self.num_shards}",
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
        split, shard_index, num_shards, gzip = _parts(path)
        return cls(
            split=split,
            shard_index=int(shard_index),
            num_shards=int(num_shards),
            gzip=gzip is not None,
        )


def _parts(path: str) -> tuple[str, str, str, str | None]:
    match = _SHARD_PATH.fullmatch(path)
    if match is None:
        raise DatasetError(
            f"shard {path!r}: expected a path such as "
            f"'{SPLIT_PREFIX}train/{SHARD_PREFIX}-00000-of-00008'",
            path=path,
        )
    split, shard_index, num_shards, gzip = match.groups()
    return split, shard_index, num_shards, gzip


def check_inner_path(path: str, *, named_in: str = "") -> str:
    """`path` itself, if it leads to a file inside of the folder that it is relative to.

    Args:
        path: with `/` between its parts.
        named_in: what names it, for the message.

    Raises:
        DatasetError: it is absolute, leads out, or has a part that no file can be called.
    """
    if _PLAIN_PATH.fullmatch(path):
        return path
    parts = path.split("/")
    if (
        any(part in ("", ".", "..") or len(_octets(part)) > _MOST_NAME_BYTES for part in parts)
        or not is_printable(path)
        or "\\" in path
        or re.match(r"[A-Za-z]:", path)
    ):
        where = f" ({named_in})" if named_in else ""
        raise DatasetError(
            f"path {path[:1000]!r}: expected a file inside of the dataset's folder{where}. "
            "The dataset was changed, or is none: write it again."
        )
    return path


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def escape_name(name: str) -> str:
    """A feature's name as part of a file's name; `unescape_name` leads back.

    Letters, digits, blanks and signs of any script stay. Percent-encoded are separators, control
    and direction marks, what Windows refuses, and dots or blanks at either end.

    Raises:
        ConfigError: no file can have so long a name.
    """
    middle = range(1, len(name) - 1)
    escaped = "".join(
        character
        if is_printable(character)
        and character not in _RESERVED
        and (character not in ". " or place in middle)
        else "".join(f"%{octet:02X}" for octet in _octets(character))
        for place, character in enumerate(name)
    )
    if not 0 < len(_octets(escaped)) <= _MOST_NAME_BYTES - len(".labels.txt"):
        raise ConfigError(
            f"feature {name[:100]!r}: expected a name of 1 to some {_MOST_NAME_BYTES} bytes, since "
            f"a file is called after it, got {len(_octets(name))}. Rename the column."
        )
    return escaped


def unescape_name(escaped: str) -> str:
    """The feature's name that `escape_name` made into part of a file's."""
    return urllib.parse.unquote(escaped, errors="surrogatepass") if "%" in escaped else escaped


def check_feature_names(names: Iterable[str]) -> None:
    """Refuses a name that no feature of an example can have.

    Raises:
        InputError: it is empty, or is not Unicode, as half of a surrogate pair.
    """
    for name in names:
        try:
            is_name = bool(name.encode())
        except UnicodeEncodeError:
            is_name = False
        if not is_name:
            raise InputError(
                f"feature {name[:100]!r}: expected a name in UTF-8, of 1 character or more. "
                "Rename the column."
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
    split, shard_index, num_shards, _ = _parts(shard_path)
    return f"{INDEX_FOLDER}/{split}-{shard_index}-of-{num_shards}.npy"


def names_file(shard_path: str) -> str:
    """The file of the names and content sums of a shard's records, beside its record index.

    Args:
        shard_path: the shard's, relative to the dataset's uri.
    """
    return f"{index_file(shard_path).removesuffix('.npy')}.names.npy"


def is_shard_file(path: str) -> bool:
    """Whether a relative path is one that `ShardName` makes."""
    return _SHARD_PATH.fullmatch(path) is not None


def is_index_file(path: str) -> bool:
    """Whether a relative path is one that `index_file` or `names_file` makes."""
    return _INDEX_PATH.fullmatch(path) is not None


def is_names_file(path: str) -> bool:
    """Whether a relative path is one that `names_file` makes."""
    return path.endswith(".names.npy") and is_index_file(path)


def vocabulary_file(feature: str) -> str:
    """The file of a feature's vocabulary, relative to the dataset's uri.

    Raises:
        ConfigError: as `escape_name`.
    """
    return f"{VOCABULARY_FOLDER}/{escape_name(feature)}{_VOCABULARY_SUFFIX}"


def vocabulary_of(path: str) -> str | None:
    """The feature whose vocabulary a relative path is; None where it is another file's."""
    folder, _, name = path.partition("/")
    if folder != VOCABULARY_FOLDER or not name.endswith(_VOCABULARY_SUFFIX):
        return None
    try:
        return unescape_name(name.removesuffix(_VOCABULARY_SUFFIX))
    except UnicodeDecodeError:  # percent signs of somebody else's
        return None


@functools.lru_cache(maxsize=64)  # of a hundred thousand shards, nearly all have the same
def check_split_name(split: str) -> str:
    """`split` itself, if it can be a folder's name and stand in a slice such as `train[:80%]`.

    Raises:
        ConfigError: it holds anything but ASCII letters, digits and underscores, or is too long.
    """
    is_text = isinstance(split, str)
    if not is_text or len(split) > _MOST_SPLIT_CHARACTERS or not _SPLIT_NAME.fullmatch(split):
        raise ConfigError(
            f"split {split[:1000] if is_text else split!r}: expected a name of letters, digits "
            f"and underscores, such as 'train', of at most {_MOST_SPLIT_CHARACTERS}"
        )
    return split


def canonical_split(name: str) -> str | None:
    """`train`, `eval` or `test` for any of their usual spellings, None for any other name.

    `eval` is TFX's own word for what others call val, valid, validation or dev.
    """
    return _CANONICAL.get(name.lower())
