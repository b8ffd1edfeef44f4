"""Build and parse the names of all files and folders in a dataset.

Source: `tfx.types.artifact_utils.get_split_uri`; Datum keeps its two JSON files at the top.
"""

import dataclasses
import functools
import re
import urllib.parse
from collections.abc import Collection, Iterable, Sequence

from trainer_utils.core.errors import ConfigError, DatasetError, InputError
from trainer_utils.core.printable import is_printable

SPLIT_PREFIX = "Split-"
SHARD_PREFIX = "data_tfrecord"
MANIFEST_FILE = "manifest.json"
DATUM_TYPES_FILE = "datum_to_type_and_shape_mapping.json"
DATUM_SHARDS_FILE = "shard_info.json"
SCHEMA_FILE = "schema.pbtxt"
TFDS_INFO_FILE = "dataset_info.json"
TFDS_FEATURES_FILE = "features.json"
EXAMPLE_SCHEMA_FILE = "example.schema.json"
REJECTS_FILE = "rejects.jsonl"
CROISSANT_FILE = "croissant.json"
LINEAGE_FILE = "lineage.json"  # next to the manifest, which does not list it
INPUTS_FILE = "inputs.json"  # not listed in the manifest either
LISTING_FILE = "listing.json"  # not listed in the manifest either: it has versions of files
DATASET_FILES = (
    MANIFEST_FILE,
    DATUM_TYPES_FILE,
    DATUM_SHARDS_FILE,
    SCHEMA_FILE,
    REJECTS_FILE,
    CROISSANT_FILE,
    LINEAGE_FILE,
    INPUTS_FILE,
    LISTING_FILE,
)
DESCRIPTIONS = (MANIFEST_FILE, DATUM_SHARDS_FILE, TFDS_INFO_FILE)
"""The files that list a dataset's shards, in order of precedence."""
BARE_RECORDS = re.compile(r"\.(tfrecords?|tfrec)(\.gz|\.zlib)?$|\.tfrecords?-\d+-of-\d+$")
"""Extensions of TFRecord files from any writer."""
PLAIN_RECORDS = re.compile(r"(?<!\.data)(?<!\.index)-\d{5,}-of-\d{5,}$")
"""Names without extension, such as `train-00000-of-01024` but not `model.data-00000-of-00001`."""
LABEL_FEATURES = ("label", "labels")
"""The features that hold the classes of a record: one, or several."""
NAME_FEATURES = ("record_id", "filename", "id")
"""The features that name a record's source. `record_id` exists if texts have their own `id`."""
VOCABULARY_FOLDER = "vocab"
INDEX_FOLDER = "index"
WORKING_FOLDER = ".tfx-shards-tmp"  # exists while a dataset is being written
RUN_FILE = "run.json"  # in the working folder: identifies the run, its inputs and its settings

_MAX_NAME_BYTES = 255  # NAME_MAX of Linux, macOS and Windows
_MAX_SPLIT_CHARACTERS = 200  # a shard's name is longer than its split's
_SPLIT_NAME = re.compile(rf"\w{{1,{_MAX_SPLIT_CHARACTERS}}}", re.ASCII)
# Nearly all paths match this and need no further checks: five times faster.
_PLAIN_PATH = re.compile(r"(?:[\w-][\w.-]{0,99}/)*[\w-][\w.-]{0,99}", re.ASCII)
_INDEX_PATH = re.compile(rf"{INDEX_FOLDER}/\w+-\d{{5,}}-of-\d{{5,}}(\.names)?\.npy", re.ASCII)
# Separators, characters reserved by shells and Windows, and the escape character.
_RESERVED = frozenset('%/\\<>:"|?*')
_SHARD_PATH = re.compile(
    rf"{SPLIT_PREFIX}(?P<split>\w+)/{SHARD_PREFIX}"
    r"-(?P<shard_index>\d{5,})-of-(?P<num_shards>\d{5,})(?P<gzip>\.gz)?",
    re.ASCII,
)
_SHARD_OF_RUN = re.compile(rf"(artifacts/[^/]+/[^/]+/\d+/)?{SPLIT_PREFIX}[^/]+/{SHARD_PREFIX}-")
_BESIDE_BARE = (".json", ".pbtxt", ".labels.txt")
_EVAL = ("eval", "evaluation", "val", "valid", "validation", "validate", "dev", "vld")
_CANONICAL = {
    **dict.fromkeys(("train", "training", "trn"), "train"),
    **dict.fromkeys(("test", "testing", "tst"), "test"),
    **dict.fromkeys(_EVAL, "eval"),
}
SPLIT_SPELLINGS = tuple(_CANONICAL)
"""The words that name a split, in lower case."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardName:
    """The position of a shard: a split of word characters, and an index below a count."""

    split: str
    shard_index: int
    num_shards: int
    gzip: bool = False

    def __post_init__(self) -> None:
        check_split_name(self.split)
        if not 0 <= self.shard_index < self.num_shards:
            rule = f"0 <= shard_index < {self.num_shards}"
            raise ConfigError.of("shard_index", self.shard_index, allowed=rule)

    @property
    def path(self) -> str:
        """Path relative to the dataset's uri, with `/` between its parts."""
        place = f"{self.shard_index:05d}-of-{self.num_shards:05d}"
        suffix = ".gz" if self.gzip else ""
        return f"{SPLIT_PREFIX}{self.split}/{SHARD_PREFIX}-{place}{suffix}"

    @classmethod
    def parse(cls, path: str) -> "ShardName":
        """Parse a relative path; raise DatasetError if it is not the path of a shard."""
        split, index, count, gzip = _parts(path)
        return cls(split=split, shard_index=int(index), num_shards=int(count), gzip=bool(gzip))


def _parts(path: str) -> Sequence[str]:
    """Return the split, the index, the count, and `.gz` or None."""
    if match := _SHARD_PATH.fullmatch(path):
        return match.groups()
    example = f"'{SPLIT_PREFIX}train/{SHARD_PREFIX}-00000-of-00008'"
    raise DatasetError(f"shard {path!r}: expected a path such as {example}", path=path)


def check_inner_path(path: str, *, named_in: str = "") -> str:
    """Return `path` if it stays inside its folder; else raise DatasetError.

    Args:
        path: a path relative to the folder.
        named_in: the file that contains the path, for the message.
    """
    if _PLAIN_PATH.fullmatch(path):
        return path
    parts = path.split("/")
    if (
        any(part in ("", ".", "..") or len(_octets(part)) > _MAX_NAME_BYTES for part in parts)
        or not is_printable(path)
        or "\\" in path
        or re.match(r"[A-Za-z]:", path)
    ):
        rule = f"a file inside of the dataset's folder{f' ({named_in})' if named_in else ''}"
        advice = "The dataset was changed, or is none: write it again."
        raise DatasetError(f"path {path[:1000]!r}: expected {rule}. {advice}")
    return path


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def check_feature_names(names: Iterable[str]) -> None:
    """Raise InputError for names that are empty or invalid Unicode, like unpaired surrogates."""
    for name in names:
        if not name or name.encode(errors="ignore").decode() != name:
            rule = "a name in UTF-8, of 1 character or more"
            raise InputError(f"feature {name[:100]!r}: expected {rule}. Rename the column.")


def index_file(shard_path: str) -> str:
    """Return the record index file of a shard, relative to the dataset's uri.

    It is not next to the shard, since TFX reads every file in a split's folder. Its name differs
    from a shard's, since other tools look for `data_tfrecord-*` at any depth.
    """
    split, shard_index, num_shards, _ = _parts(shard_path)
    return f"{INDEX_FOLDER}/{split}-{shard_index}-of-{num_shards}.npy"


def is_shard_file(path: str) -> bool:
    """Return whether `ShardName` makes this relative path."""
    return _SHARD_PATH.fullmatch(path) is not None


def is_index_file(path: str) -> bool:
    """Return whether `index_file` makes this relative path, or made it in an older version."""
    return _INDEX_PATH.fullmatch(path) is not None


def vocabulary_file(feature: str) -> str:
    """Return the file of a feature's vocabulary, relative to the uri.

    Separators, control and direction characters, characters that Windows rejects, and dots or
    spaces at either end are percent-encoded (RFC 3986, section 2.1).

    Raises:
        ConfigError: the name is empty or too long.
    """
    name = ""
    for place, character in enumerate(feature):
        is_kept = is_printable(character) and character not in _RESERVED
        is_kept &= character not in ". " or 0 < place < len(feature) - 1
        name += character if is_kept else "".join(f"%{n:02X}" for n in _octets(character))
    if not 0 < len(_octets(name)) <= _MAX_NAME_BYTES - len(".labels.txt"):
        rule = f"a name of 1 to some {_MAX_NAME_BYTES} bytes, since a file is called after it"
        raise ConfigError.of("feature", feature[:100], allowed=rule, advice="Rename the column")
    return f"{VOCABULARY_FOLDER}/{name}.txt"


def vocabulary_of(path: str) -> str | None:
    """Return the feature of a vocabulary file, given its relative path; None for other files."""
    name = re.fullmatch(rf"{VOCABULARY_FOLDER}/(.*)\.txt", path, re.DOTALL)
    try:
        return None if name is None else urllib.parse.unquote(name[1], errors="surrogatepass")
    except UnicodeDecodeError:  # percent signs from another tool
        return None


@functools.lru_cache(maxsize=64)  # nearly all of a hundred thousand shards have the same split
def check_split_name(split: str) -> str:
    """Return `split` if it has only ASCII letters, digits and underscores, and is not too long."""
    if not isinstance(split, str) or not _SPLIT_NAME.fullmatch(split):
        rule = f"letters, digits and underscores, of at most {_MAX_SPLIT_CHARACTERS}"
        shown = split[:1000] if isinstance(split, str) else split
        raise ConfigError(f"split {shown!r}: expected a name of {rule}, such as 'train'")
    return split


def canonical_split(name: str) -> str | None:
    """Return `train`, `eval` or `test` for any of their usual spellings, None for any other name.

    `eval` is TFX's word for val, valid, validation or dev.
    """
    return _CANONICAL.get(name.lower())


def sign_of_dataset(names: Collection[str], numbered: Iterable[str]) -> str | None:
    """Return the file that shows that a folder is a dataset already; None for raw files.

    Args:
        names: the paths of all files in the folder.
        numbered: at least those with `SHARD_PREFIX`.
    """
    if shards := [name for name in numbered if _SHARD_OF_RUN.match(name)]:
        return min(shards)
    signs = {DATUM_SHARDS_FILE: DATUM_TYPES_FILE, TFDS_INFO_FILE: TFDS_FEATURES_FILE}
    for sign, beside in signs.items():
        if sign in names and beside in names:
            return sign
    if all(BARE_RECORDS.search(name) or name.endswith(_BESIDE_BARE) for name in names):
        return min(filter(BARE_RECORDS.search, names), default=None)
    return None


def is_named_as_records(path: str) -> bool:
    """Return whether a file has a name of TFRecord files, with an extension or without."""
    name = path.rpartition("/")[2]
    return bool(BARE_RECORDS.search(name) or PLAIN_RECORDS.search(name))
