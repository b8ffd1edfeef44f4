"""The names of files and folders in a dataset, written and parsed in this one place.

Source: `tfx.types.artifact_utils.get_split_uri`; Datum keeps its two JSON files at the top.
"""

import dataclasses
import functools
import re
import urllib.parse
from collections.abc import Collection, Iterable, Sequence

from trainer_utils.format.errors import ConfigError, DatasetError, InputError
from trainer_utils.format.printable import is_printable

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
LINEAGE_FILE = "lineage.json"  # beside the manifest, which does not name it
INPUTS_FILE = "inputs.json"  # likewise
DATASET_FILES = (
    MANIFEST_FILE,
    DATUM_TYPES_FILE,
    DATUM_SHARDS_FILE,
    SCHEMA_FILE,
    REJECTS_FILE,
    CROISSANT_FILE,
    LINEAGE_FILE,
    INPUTS_FILE,
)
DESCRIPTIONS = (MANIFEST_FILE, DATUM_SHARDS_FILE, TFDS_INFO_FILE)
"""The files that name a dataset's shards, in the order in which they are believed."""
BARE_RECORDS = re.compile(r"\.(tfrecords?|tfrec)(\.gz|\.zlib)?$|\.tfrecords?-\d+-of-\d+$")
"""What names of TFRecord files end in, whoever wrote them."""
PLAIN_RECORDS = re.compile(r"(?<!\.data)(?<!\.index)-\d{5,}-of-\d{5,}$")
"""The same, without an extension: `train-00000-of-01024`; `model.data-00000-of-00001` is none."""
LABEL_FEATURES = ("label", "labels")
"""What a record's classes are called: one, or several."""
NAME_FEATURES = ("record_id", "filename", "id")
"""What says where a record is from. Where texts have an `id` of their own, the first is ours."""
VOCABULARY_FOLDER = "vocab"
INDEX_FOLDER = "index"
WORKING_FOLDER = ".tfx-shards-tmp"  # while a dataset is being written
RUN_FILE = "run.json"  # in it: of which run, and of which inputs and settings, the rest of it is

_MOST_NAME_BYTES = 255  # NAME_MAX of Linux, macOS and Windows
_MOST_SPLIT_CHARACTERS = 200  # a shard's name has more than its split's
_SPLIT_NAME = re.compile(rf"\w{{1,{_MOST_SPLIT_CHARACTERS}}}", re.ASCII)
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
_SHARD_OF_RUN = re.compile(rf"(artifacts/[^/]+/[^/]+/\d+/)?{SPLIT_PREFIX}[^/]+/{SHARD_PREFIX}-")
_BESIDE_BARE = (".json", ".pbtxt", ".labels.txt")
_EVAL = ("eval", "evaluation", "val", "valid", "validation", "validate", "dev")
_CANONICAL = {
    **{"train": "train", "training": "train", "test": "test", "testing": "test"},
    **dict.fromkeys(_EVAL, "eval"),
}
SPLIT_SPELLINGS = tuple(_CANONICAL)
"""The words that name a split, in lower case."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardName:
    """One shard's place in its dataset: a split of word characters, an index below a count."""

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
        """The path relative to the dataset's uri, with `/` between its parts."""
        place = f"{self.shard_index:05d}-of-{self.num_shards:05d}"
        suffix = ".gz" if self.gzip else ""
        return f"{SPLIT_PREFIX}{self.split}/{SHARD_PREFIX}-{place}{suffix}"

    @classmethod
    def parse(cls, path: str) -> "ShardName":
        """The name that a relative path spells; a DatasetError where `path` makes no such."""
        split, index, count, gzip = _parts(path)
        return cls(split=split, shard_index=int(index), num_shards=int(count), gzip=bool(gzip))


def _parts(path: str) -> Sequence[str]:
    """Split, number, count, and `.gz` or None."""
    if match := _SHARD_PATH.fullmatch(path):
        return match.groups()
    example = f"'{SPLIT_PREFIX}train/{SHARD_PREFIX}-00000-of-00008'"
    raise DatasetError(f"shard {path!r}: expected a path such as {example}", path=path)


def check_inner_path(path: str, *, named_in: str = "") -> str:
    """`path` itself, if it leads to a file inside of the folder that it is relative to; else a
    DatasetError with the file that it is `named_in`."""
    if _PLAIN_PATH.fullmatch(path):
        return path
    parts = path.split("/")
    if (
        any(part in ("", ".", "..") or len(_octets(part)) > _MOST_NAME_BYTES for part in parts)
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
    """Refuses, by an InputError, names that are empty, or not Unicode, as half a surrogate pair."""
    for name in names:
        if not name or name.encode(errors="ignore").decode() != name:
            rule = "a name in UTF-8, of 1 character or more"
            raise InputError(f"feature {name[:100]!r}: expected {rule}. Rename the column.")


def index_file(shard_path: str) -> str:
    """The file that says where a shard's records lie, relative to the dataset's uri.

    It cannot lie beside the shard, since TFX reads whatever is in a split's folder, and is not
    called like one, since others look for `data_tfrecord-*` at any depth.
    """
    split, shard_index, num_shards, _ = _parts(shard_path)
    return f"{INDEX_FOLDER}/{split}-{shard_index}-of-{num_shards}.npy"


def is_shard_file(path: str) -> bool:
    """Whether a relative path is one that `ShardName` makes."""
    return _SHARD_PATH.fullmatch(path) is not None


def is_index_file(path: str) -> bool:
    """Whether a relative path is one that `index_file` makes, or once made for names."""
    return _INDEX_PATH.fullmatch(path) is not None


def vocabulary_file(feature: str) -> str:
    """The file of a feature's vocabulary, relative to the uri.

    Percent-encoded (RFC 3986, section 2.1) are separators, control and direction marks, what
    Windows refuses, and dots or blanks at either end. A ConfigError where it gets too long.
    """
    name = ""
    for place, character in enumerate(feature):
        is_kept = is_printable(character) and character not in _RESERVED
        is_kept &= character not in ". " or 0 < place < len(feature) - 1
        name += character if is_kept else "".join(f"%{n:02X}" for n in _octets(character))
    if not 0 < len(_octets(name)) <= _MOST_NAME_BYTES - len(".labels.txt"):
        rule = f"a name of 1 to some {_MOST_NAME_BYTES} bytes, since a file is called after it"
        raise ConfigError.of("feature", feature[:100], allowed=rule, advice="Rename the column")
    return f"{VOCABULARY_FOLDER}/{name}.txt"


def vocabulary_of(path: str) -> str | None:
    """The feature whose vocabulary a relative path is; None where it is another file's."""
    name = re.fullmatch(rf"{VOCABULARY_FOLDER}/(.*)\.txt", path, re.DOTALL)
    try:
        return None if name is None else urllib.parse.unquote(name[1], errors="surrogatepass")
    except UnicodeDecodeError:  # percent signs of somebody else's
        return None


@functools.lru_cache(maxsize=64)  # of a hundred thousand shards, nearly all have the same
def check_split_name(split: str) -> str:
    """`split` itself, if it is of ASCII letters, digits and underscores, and not too long."""
    if not isinstance(split, str) or not _SPLIT_NAME.fullmatch(split):
        rule = f"letters, digits and underscores, of at most {_MOST_SPLIT_CHARACTERS}"
        shown = split[:1000] if isinstance(split, str) else split
        raise ConfigError(f"split {shown!r}: expected a name of {rule}, such as 'train'")
    return split


def canonical_split(name: str) -> str | None:
    """`train`, `eval` or `test` for any of their usual spellings, None for any other name.

    `eval` is TFX's own word for what others call val, valid, validation or dev.
    """
    return _CANONICAL.get(name.lower())


def sign_of_dataset(names: Collection[str]) -> str | None:
    """The file that shows that a folder of these is a dataset already; None for raw files."""
    if shards := [name for name in names if _SHARD_OF_RUN.match(name)]:
        return min(shards)
    signs = {DATUM_SHARDS_FILE: DATUM_TYPES_FILE, TFDS_INFO_FILE: TFDS_FEATURES_FILE}
    for own, beside in signs.items():
        if own in names and beside in names:
            return own
    if all(BARE_RECORDS.search(name) or name.endswith(_BESIDE_BARE) for name in names):
        return min(filter(BARE_RECORDS.search, names), default=None)
    return None


def is_named_as_records(path: str) -> bool:
    """Whether a file is called as files of TFRecords are, with an extension or without."""
    name = path.rpartition("/")[2]
    return bool(BARE_RECORDS.search(name) or PLAIN_RECORDS.search(name))
