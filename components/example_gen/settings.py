"""The settings of the ExampleGens, validated on creation, with their descriptions."""

import codecs
import collections
import dataclasses
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from components.inputs.advice import how_to_set
from components.layouts.names import MEDIA
from components.media.options import AudioOptions, ImageOptions
from components.runtime.component_settings import (
    COMPRESSIONS,
    ComponentSettings,
    Sharding,
    are_texts,
    is_text,
    shard_counts,
)
from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.core.json_text import JsonObject
from trainer_utils.core.settings import (
    NumberRule,
    Predicate,
    Rule,
    Settings,
    group,
    one_of,
    setting,
    settings_of,
)
from trainer_utils.format.tensors import TensorSpec
from trainer_utils.storage import local_path

COLUMN_KINDS = ("int", "float", "string", "text", "json", "label", *MEDIA, "split", "ignore")
_ONLY_FOR_TEXTS = (
    *("lowercase", "normalize", "min_chars", "max_chars"),
    *("deduplicate", "tokenizer", "keep_text"),
)
_PATHS = ("file_roots", "base_dataset", "names")
# Settings that a manifest contains only if they are set, since earlier versions did not have them.
_TOLD_IF_GIVEN = (
    *("tensors", "num_shards", "shard_multiple", "feature_names", "quoting"),
    *("ignore", "follow_links", "rows", "label_separator", "find_files", "box_format"),
    *("box_frame", "list_encoding", "name_pattern"),
)

_bool = one_of(False, True)
_texts = Predicate(are_texts, "a list of strings that are not empty")
_column_name = Predicate(is_text, "the name of a column")
_path = Predicate(
    lambda value: is_text(value) and not value.startswith("/") and ".." not in value.split("/"),
    "a path relative to input_base",
)
_separator = Predicate(
    lambda value: is_text(value) and len(value) <= 8 and "\n" not in value, "up to 8 characters"
)
_pattern = Predicate(
    lambda value: isinstance(value, str) and _has_groups(value),
    "a regular expression with named groups, such as '(?P<label>.+)_[0-9]+'",
)
_delimiter = Predicate(
    lambda value: (
        isinstance(value, str) and len(value) == 1 and value.isascii() and value not in '"\r\n\0'
    ),
    "one ASCII character that is neither a quote nor a line end",
)


def _has_groups(pattern: str) -> bool:
    """Return whether a regular expression is valid and has named groups."""
    try:
        return bool(re.compile(pattern).groupindex)
    except re.error:
        return False


def _layout_of(kind: str | None) -> Rule:
    """Return the rule of `layout`: a registered layout for inputs of a kind, or of any kind."""

    def check(name: str, value: object) -> object:
        if value == "auto":
            return value
        from components.layouts.registry import check_layout_name  # imports every layout

        return check_layout_name(name, value, kind=kind)

    return check


def _different_texts(name: str, values: Any) -> Any:
    _texts(name, values)
    if len(set(values)) < len(values):
        raise ConfigError.of(name, list(values), allowed="each once")
    return values


def _by_name(rule: Rule, allowed: str) -> Rule:
    """Return a rule for mappings that applies `rule` to every value."""

    def check(name: str, given: object) -> dict[str, Any]:
        if not isinstance(given, Mapping):
            raise ConfigError.of(name, given, allowed=allowed)
        return {key: rule(f"{name}[{key!r}]", value) for key, value in given.items()}

    return check


def _labels(name: str, labels: Any) -> tuple[str, ...]:
    _texts(name, labels)
    if not labels:
        raise ConfigError.of(name, labels, allowed="labels")
    for label, count in collections.Counter(labels).items():
        if "\n" in label or "\r" in label:
            raise ConfigError.of(name, label, allowed="one line each")
        if count > 1:
            raise ConfigError.of(name, label, allowed="each label once")
    return tuple(labels)


def _labels_by_feature(name: str, given: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(given, Mapping):
        _texts(name, given)
        given = {"label": given} if given else {}
    return {feature: _labels(f"{name}[{feature!r}]", labels) for feature, labels in given.items()}


def _is_spec(text: Any) -> bool:
    try:
        TensorSpec.parse(text)
    except DatasetError:
        return False
    return True


_spec = Predicate(_is_spec, "a dtype and a shape such as 'float16[3,?]'")


def _names_by_feature(name: str, given: object) -> object:
    names = {**given} if isinstance(given, Mapping) else {None: None}
    if not all(map(is_text, (*names, *names.values()))) or len({*names.values()}) < len(names):
        raise ConfigError.of(name, given, allowed="different names by feature")
    return given


def _encoding(name: str, value: Any) -> str:
    """Return Python's canonical name of an encoding."""
    try:
        codec = codecs.lookup(value)
        "text".encode(value)  # some codecs do not encode text
    except (LookupError, TypeError, UnicodeError) as error:
        allowed = "one that Python knows, such as 'utf-8', 'latin-1' or 'utf-16'"
        raise ConfigError.of(name, value, allowed=allowed) from error
    return codec.name


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleGenSettings(Sharding, ComponentSettings):
    """The settings of the output, in addition to TFX's own input_config and output_config.

    Subclasses define the available layouts.

    Args:
        columns: the kind of each column of a table: `int`, `float`, `string`, `text`, `json`,
            `label`, `image`, `audio`, `split` or `ignore`. Columns of kind `image` and `audio` name
            files, whose content becomes a feature with the column's name. Values of `json`,
            including objects and lists, are stored as JSON. Default: detected from names and
            values.
        file_roots: folders and buckets outside `input_base` that hold files named in a list.
            Default: a list may only name files below `input_base`.
        ignore: patterns of files to leave out and count as skipped: `*.json` matches at any depth,
            `extra/*` matches a path. Wildcards are `*`, `?` and `[…]`.
        follow_links: read linked files and folders, wherever the links lead. Default: a link that
            leads out of `input_base`, or to a folder, is an error.
        column_names: names of the columns of a CSV or TSV without a header, or to replace its
            header.
        header: whether the first row of a CSV or TSV has the names of the columns. Default:
            detected from the first rows of all files; it is an error if they are ambiguous.
        delimiter: delimiter of a table, one character. Default: a comma, or a tab for `tsv`.
        quoting: `csv`: a field may be in double quotes, and a quote within it is doubled; `none`:
            quotes are ordinary characters, and each line is a row.
        vocabulary: the labels in the order of their ids: a list for the feature `label`, or lists
            by feature (not in Kubeflow's functions). Other labels are rejected. Default: all labels
            found, sorted.
        tensors: columns of Parquet with serialized tensors, as written by `tf.io.serialize_tensor`,
            and their dtype and shape: `float16[3,4]`, or `float16[3,?]` if shapes differ.
        stratify: keep the proportion of each class in splits made by a hash, to within one example.
        seed: seed of the hash that determines splits, order and shards.
        num_shards: number of shards of every split, or a number by split (not in Kubeflow's
            functions). Splits with fewer examples get fewer shards. Default: the number that comes
            closest to `target_shard_bytes`.
        target_shard_bytes: target size of a shard in bytes.
        shard_multiple: round the number of shards to a multiple of this, such as the number of
            workers.
        compression: `none`, or `gzip` (slower to read, and Datum cannot read it).
        max_reject_fraction: fail the run if a larger fraction of the inputs is rejected.
    """

    layout: str = setting("auto", _layout_of(None))
    columns: Mapping[str, str] = setting({}, _by_name(one_of(*COLUMN_KINDS), "kinds by column"))
    file_roots: Sequence[str] = setting((), _texts, is_path=True)
    ignore: Sequence[str] = setting((), _texts)
    follow_links: bool = setting(False, _bool)
    column_names: Sequence[str] = setting((), _different_texts)
    header: bool | None = setting(None, one_of(None, False, True))
    delimiter: str | None = setting(None, _delimiter)
    quoting: str = setting("csv", one_of("csv", "none"))
    vocabulary: Sequence[str] | Mapping[str, Sequence[str]] = setting({}, _labels_by_feature)
    tensors: Mapping[str, str] = setting({}, _by_name(_spec, "dtypes and shapes by column"))
    group_by: str | None = setting(None, _column_name)
    stratify: bool = setting(False, _bool)
    seed: int = setting(0, NumberRule(-(2**63), 2**63 - 1))
    num_shards: int | Mapping[str, int] | None = setting(None, shard_counts)
    target_shard_bytes: int = setting(128 << 20, NumberRule(1))  # the usual advice is 100 to 200 MB
    shard_multiple: int = setting(1, NumberRule(1))
    compression: str = setting("none", one_of(*COMPRESSIONS))
    max_reject_fraction: float = setting(0.01, NumberRule(0, 1, kind=float))

    def __post_init__(self) -> None:
        super().__post_init__()
        roots = type(self.file_roots)(map(local_path, self.file_roots))  # type: ignore[call-arg]
        object.__setattr__(self, "file_roots", roots)
        if self.tensors:  # serialized tensors are always bytes
            strings = dict.fromkeys(self.tensors, "string")
            object.__setattr__(self, "columns", {**self.columns, **strings})
        if self.header is False and not self.column_names:
            rule = "True or None without column_names"
            advice = f"Name the columns, such as {how_to_set(column_names=['text', 'label'])}"
            raise ConfigError.of("header", False, allowed=rule, advice=advice)

    @property
    def vocabularies(self) -> dict[str, tuple[str, ...]]:
        """The given vocabularies, by feature."""
        return cast(dict[str, tuple[str, ...]], self.vocabulary)

    def for_manifest(self) -> JsonObject:
        """Return the settings for a manifest: without paths, and with the sizes of vocabularies."""
        config = {n: v for n, v in dataclasses.asdict(self).items() if n not in _PATHS}
        for name in _TOLD_IF_GIVEN:
            if name in config and config[name] == settings_of(type(self))[name].default:
                del config[name]
        config["vocabulary"] = {name: len(labels) for name, labels in self.vocabularies.items()}
        return config


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayoutNames(Settings):
    """Custom names of folders and files, relative to `input_base`, as Datum's generators take them.

    Args:
        image_dir: the folder of the images. Default: `JPEGImages` for `voc` and `segmentation`; for
            lists named after splits, the split's name. `{split}` is replaced by that name:
            `images/{split}`.
        csv_path: the list, or one list per split: `labels/{split}.csv`. Default: a list at the top
            of `input_base`.
        annotation_dir: the folder of the annotations of `voc`. Default: `Annotations`.
        label_dir: the folder of the label maps of `segmentation`. Default: `SegmentationClass`.
        image_set_dir: the folder of `train.txt` and other image sets of `voc` and `segmentation`.
            Default: `ImageSets/Main`, `ImageSets/Segmentation` or `ImageSets`.
        label_list: a text file with one class per line, for images outside class folders in the
            order of their names, such as ImageNet's validation images.
    """

    image_dir: str | None = setting(None, _path, is_path=True)
    csv_path: str | None = setting(None, _path, is_path=True)
    annotation_dir: str | None = setting(None, _path, is_path=True)
    label_dir: str | None = setting(None, _path, is_path=True)
    image_set_dir: str | None = setting(None, _path, is_path=True)
    label_list: str | None = setting(None, _path, is_path=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MediaSettings(ExampleGenSettings):
    """The settings of all ExampleGens for files, including images and audio.

    Subclasses decide which options of images and audio, and which names, can be set.

    Args:
        feature_names: new names for features, by their current names: `{'image': 'image/encoded',
            'label': 'image/class/label'}`. All other settings use the current names.
        base_dataset: a dataset from an earlier run of this component with the same inputs and
            settings. Shards whose inputs have not changed are linked or copied instead of
            rewritten. Ids of labels do not change: new labels come last.
        rows: how to treat several rows of one file. `grouped`: one example, with lists of the
            values that differ; `each`: one example per row; `auto`: grouped if rows are boxes or
            captions. In `auto`, rows of one file that differ only in their label are an error.
        label_separator: a character between the labels of one field, as in `cat|dog`. Default: a
            field is one label.
        find_files: how to find the files that a list names. `path`: by the path in the list, or
            anywhere if it is a unique name without a folder; `tail`: by the end of the path,
            without the leading folders that all paths share; `name`: by the file's name alone;
            `stem`: by the name without its extension.
        name_pattern: a regular expression that is matched from the beginning of each file's name,
            or of its path below `input_base` if it has a slash. The named groups become features:
            `(?P<label>.+)_[0-9]+`. `label` replaces class folders, and `split` names the split.
    """

    feature_names: Mapping[str, str] = setting({}, _names_by_feature)
    base_dataset: str | None = setting(
        None, Predicate(is_text, "the uri of a dataset"), is_path=True
    )
    rows: str = setting("auto", one_of("auto", "grouped", "each"))
    label_separator: str | None = setting(None, _separator)
    find_files: str = setting("path", one_of("path", "tail", "name", "stem"))
    name_pattern: str | None = setting(None, _pattern)
    images: ImageOptions = group(ImageOptions, only=())
    audio: AudioOptions = group(AudioOptions, only=())
    names: LayoutNames = group(LayoutNames, only=())

    @property
    def layout_names(self) -> dict[str, str]:
        """Names of folders and files that replace the defaults of layouts, by setting."""
        return {name: path for name, path in dataclasses.asdict(self.names).items() if path}

    def for_manifest(self) -> JsonObject:
        """Return the settings for a manifest, including options of images and audio."""
        config = super().for_manifest()
        if self.delimiter is None:  # absent before lists had a delimiter
            del config["delimiter"]
        if config.get("encoding") == "utf-8":
            del config["encoding"]
        images, audio = config.pop("images"), config["audio"]
        if images["sixteen_bit"] == ImageOptions.sixteen_bit:  # absent before the setting existed
            del images["sixteen_bit"]
        config.update(images)
        config.update(audio)  # also kept separately, as in every earlier manifest
        return {**config, **self.layout_names}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageSettings(MediaSettings):
    """The settings of ImageExampleGen.

    Args:
        layout: `auto`, or a name: `folder` (`<split>/<class>/…`, `<class>/…`), `csv`, `tsv`,
            `jsonl`, `parquet`, `voc`, `coco`, `yolo`, `segmentation`, `masks`, `imagenet`,
            `tiny-imagenet`, `tar`, `split_lists`.
        group_by: a column, such as a patient's id, to keep rows with equal values in one split; or
            `near_duplicates`, to keep copies of an image in one split. Copies may be encoded again,
            resized, cropped by up to 5 % of each side, made grey or mirrored. This decodes every
            image.
        list_encoding: encoding of lists (CSV, TSV, JSON lines), by its name in Python.
        box_format: meaning of the four numbers in a column `bbox`: `xywh` (left, top, width,
            height) or `xyxy` (left, top, right, bottom); `polygon`: take the box around the
            segments and oriented boxes of `yolo`. Default: the format that all rows and sizes agree
            with; it is an error if both do.
        box_frame: the frame of the boxes and label maps of images that EXIF rotates: `stored` (the
            pixels in the file) or `displayed` (the rotated image). Default: detected from the
            annotated size; images whose frame is unclear are rejected.
    """

    layout: str = setting("auto", _layout_of("image"))
    list_encoding: str = setting("utf-8", _encoding)
    box_format: str | None = setting(None, one_of(None, "xywh", "xyxy", "polygon"))
    box_frame: str | None = setting(None, one_of(None, "stored", "displayed"))
    names: LayoutNames = group(LayoutNames)
    images: ImageOptions = group(ImageOptions)
    audio: AudioOptions = group(AudioOptions, only=("sample_rate",))  # for clips in a list


@dataclasses.dataclass(frozen=True, kw_only=True)
class AudioSettings(MediaSettings):
    """The settings of AudioExampleGen.

    Args:
        layout: `auto`, or a name: `folder` (`<split>/<class>/…`, `<class>/…`), `csv`, `tsv`,
            `jsonl`, `parquet`, `split_lists` (Speech Commands), `common_voice`, `ljspeech`,
            `speakers` (VCTK, LibriTTS).
        group_by: a column, such as a speaker's id, to keep rows with equal values in one split; or
            `near_duplicates`, to keep files with the same bytes in one split.
        encoding: encoding of lists (CSV, TSV, JSON lines), by its name in Python.
    """

    layout: str = setting("auto", _layout_of("audio"))
    encoding: str = setting("utf-8", _encoding)
    audio: AudioOptions = group(AudioOptions)
    names: LayoutNames = group(LayoutNames, only=("csv_path",))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ListSettings(MediaSettings):
    """The settings of tables whose rows refer to files, as TextExampleGen reads them."""

    encoding: str = setting("utf-8", _encoding)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextSettings(ExampleGenSettings):
    """The settings of TextExampleGen.

    Args:
        layout: `auto`, or a name: `csv`, `tsv`, `jsonl`, `parquet`, `json` (objects by key, or a
            list), `lines` (one example per line), `folder` (one example per file).
        group_by: a column, such as an author's id, to keep rows with equal values in one split; or
            `near_duplicates`, to keep rows whose texts differ in only a few words in one split.
        encoding: encoding of the files, by its name in Python.
        lowercase: convert text to lower case.
        normalize: normalise text to a Unicode form: `NFC`, `NFD`, `NFKC` or `NFKD`.
        min_chars: skip texts with fewer characters, and count them.
        max_chars: skip texts with more characters, and count them.
        deduplicate: skip rows whose text occurred before, and count them.
        tokenizer: tokenize each text into the feature `tokens`, with this tokenizer: a `.json` file
            of the library `tokenizers`, a `.model` file of SentencePiece, or the name or
            `.tiktoken` file of an encoding of tiktoken. Nothing is downloaded.
        keep_text: keep the text next to its tokens. False: store only the tokens.
    """

    layout: str = setting("auto", _layout_of("text"))
    encoding: str = setting("utf-8", _encoding)
    lowercase: bool = setting(False, _bool)
    normalize: str | None = setting(None, one_of(None, "NFC", "NFD", "NFKC", "NFKD"))
    min_chars: int = setting(0, NumberRule(0))
    max_chars: int | None = setting(None, NumberRule(1))
    deduplicate: bool = setting(False, _bool)
    tokenizer: str | None = setting(
        None, Predicate(is_text, "a file, or the name of an encoding"), is_path=True
    )
    keep_text: bool = setting(True, _bool)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_chars is not None:
            NumberRule(max(1, self.min_chars))("max_chars", self.max_chars)
        for name in _ONLY_FOR_TEXTS if self.names_files or self.is_custom else ():
            default, value = settings_of(TextSettings)[name].default, getattr(self, name)
            if value != default:
                allowed = f"{default!r} for a table whose rows name files, and for a custom layout"
                raise ConfigError.of(name, value, allowed=allowed)

    def for_manifest(self) -> JsonObject:
        """Return the settings for a manifest; the features identify the tokenizer."""
        config = super().for_manifest()
        if self.tokenizer is None:  # absent before tokenizers were supported
            del config["tokenizer"], config["keep_text"]
        else:
            config["tokenizer"] = posixpath.basename(self.tokenizer)
        return config

    @property
    def is_custom(self) -> bool:
        """Whether the layout was registered with `components.layouts.layout`."""
        if self.layout == "auto":
            return False
        from components.layouts.registry import is_custom  # imports every layout

        return is_custom(self.layout)

    @property
    def names_files(self) -> bool:
        """Whether the rows of tables refer to image or audio files."""
        return any(kind in MEDIA for kind in self.columns.values())
