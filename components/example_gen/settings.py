"""The settings of the ExampleGens, checked where they are made, and what each does."""

import codecs
import collections
import dataclasses
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any, cast

from components.common.advice import how_to_set
from components.common.settings import (
    COMPRESSIONS,
    ComponentSettings,
    Sharding,
    are_texts,
    is_text,
    shard_counts,
)
from components.layouts.names import MEDIA
from components.media.options import AudioOptions, ImageOptions
from trainer_utils.format import ConfigError, DatasetError
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.settings import (
    Rule,
    Settings,
    group,
    number,
    one_of,
    setting,
    settings_of,
    where,
)
from trainer_utils.format.tensors import TensorSpec
from trainer_utils.storage import local_path

COLUMN_KINDS = ("int", "float", "string", "text", "json", "label", *MEDIA, "split", "ignore")
_ONLY_FOR_TEXTS = (
    *("lowercase", "normalize", "min_chars", "max_chars"),
    *("deduplicate", "tokenizer", "keep_text"),
)
_PATHS = ("file_roots", "base_dataset", "names")
# Settings that a manifest contains only where they are given, since earlier versions had none.
_TOLD_IF_GIVEN = (
    *("tensors", "num_shards", "shard_multiple", "feature_names", "quoting"),
    *("ignore", "follow_links", "rows", "label_separator", "find_files", "box_format"),
    *("box_frame", "list_encoding"),
)

_bool = one_of(False, True)
_texts = where(are_texts, "a list of texts that are not empty")
_column_name = where(is_text, "the name of a column")
_path = where(
    lambda value: is_text(value) and not value.startswith("/") and ".." not in value.split("/"),
    "a path relative to input_base",
)
_separator = where(
    lambda value: is_text(value) and len(value) <= 8 and "\n" not in value, "up to 8 characters"
)
_delimiter = where(
    lambda value: (
        isinstance(value, str) and len(value) == 1 and value.isascii() and value not in '"\r\n\0'
    ),
    "one ASCII character that is no quote and no line end",
)


def _layout_of(kind: str | None) -> Rule:
    """Return the rule of `layout`: a registered layout for inputs of a kind, or of any."""

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
    """A rule: a mapping, each of whose values this rule is for."""

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


_spec = where(_is_spec, "a dtype and a shape such as 'float16[3,?]'")


def _names_by_feature(name: str, given: object) -> object:
    names = {**given} if isinstance(given, Mapping) else {None: None}
    if not all(map(is_text, (*names, *names.values()))) or len({*names.values()}) < len(names):
        raise ConfigError.of(name, given, allowed="different names by feature")
    return given


def _encoding(name: str, value: Any) -> str:
    """The one name of an encoding that Python knows under several."""
    try:
        codec = codecs.lookup(value)
        "text".encode(value)  # some codecs are none of texts
    except (LookupError, TypeError, UnicodeError) as error:
        allowed = "one that Python knows, such as 'utf-8', 'latin-1' or 'utf-16'"
        raise ConfigError.of(name, value, allowed=allowed) from error
    return codec.name


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleGenSettings(Sharding, ComponentSettings):
    """What shapes the output, beside TFX's own input_config and output_config.

    Subclasses say which layouts there are.

    Args:
        columns: the kind of each column of a table: `int`, `float`, `string`, `text`, `json`,
            `label`, `image`, `audio`, `split` or `ignore`. Default: recognised from their names and
            values. Columns of kind `image` and `audio` name files, which go into the examples, each
            as a feature of the column's name. Values of `json` are kept as JSON, objects and lists
            among them.
        file_roots: folders and buckets outside `input_base` whose files a list may name. Default:
            none, and a list names files below `input_base` only.
        ignore: patterns of files that are left out, and counted as skipped: `*.json` matches at any
            depth, `extra/*` a path. Wildcards are `*`, `?` and `[…]`.
        follow_links: whether linked files and folders are read, wherever they lead. Default: a link
            that leads out of `input_base`, or to a folder, ends the run.
        column_names: names of the columns of a CSV or TSV without a header, or in place of those in
            it.
        header: whether the first row of a CSV or TSV has the columns' names. Default: recognised
            from the first rows of all files; if that leaves a doubt, it is an error.
        delimiter: delimiter of a table, one character. Default: a comma, or a tab for `tsv`.
        quoting: `csv`: a field may be in double quotes, which are doubled within it; `none`: quotes
            are characters like any other, and a row is a line.
        vocabulary: the labels in the order of their ids: a list for the feature `label`, or lists
            by feature, which Kubeflow's functions do not take. Other labels are rejected. Default:
            all labels found, sorted.
        tensors: columns of Parquet that hold serialized tensors, as `tf.io.serialize_tensor` makes
            them, with their dtype and shape: `float16[3,4]`, or `float16[3,?]` where they differ.
        stratify: splits made by a hash keep the share of each class, to within one example.
        seed: seed of the hash that decides splits, order and shards.
        num_shards: shards of every split, or by split, which Kubeflow's functions do not take.
            Fewer where there are fewer examples. Default: the number that comes closest to
            `target_shard_bytes`.
        target_shard_bytes: target size of a shard in bytes.
        shard_multiple: the number of shards is a multiple of this, such as the number of workers.
        compression: `none`, or `gzip` (slower to read, and Datum cannot read it).
        max_reject_fraction: the run fails if a larger share of the inputs is rejected.
    """

    layout: str = setting("auto", _layout_of(None))
    columns: Mapping[str, str] = setting({}, _by_name(one_of(*COLUMN_KINDS), "kinds by column"))
    file_roots: Sequence[str] = setting((), _texts)
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
    seed: int = setting(0, number(-(2**63), 2**63 - 1))
    num_shards: int | Mapping[str, int] | None = setting(None, shard_counts)
    target_shard_bytes: int = setting(128 << 20, number(1))  # the field's advice: 100 to 200 MB
    shard_multiple: int = setting(1, number(1))
    compression: str = setting("none", one_of(*COMPRESSIONS))
    max_reject_fraction: float = setting(0.01, number(0, 1, kind=float))

    def __post_init__(self) -> None:
        super().__post_init__()
        roots = type(self.file_roots)(map(local_path, self.file_roots))  # type: ignore[call-arg]
        object.__setattr__(self, "file_roots", roots)
        if self.tensors:  # bytes that are nothing else
            strings = dict.fromkeys(self.tensors, "string")
            object.__setattr__(self, "columns", {**self.columns, **strings})
        if self.header is False and not self.column_names:
            rule = "True or None without column_names"
            advice = f"Name the columns, such as {how_to_set(column_names=['text', 'label'])}"
            raise ConfigError.of("header", False, allowed=rule, advice=advice)

    @property
    def vocabularies(self) -> dict[str, tuple[str, ...]]:
        """The vocabularies that are given, by feature."""
        return cast(dict[str, tuple[str, ...]], self.vocabulary)

    def for_manifest(self) -> JsonObject:
        """The settings as a manifest keeps them: no paths, and of a vocabulary its size."""
        config = {n: v for n, v in dataclasses.asdict(self).items() if n not in _PATHS}
        for name in _TOLD_IF_GIVEN:
            if name in config and config[name] == settings_of(type(self))[name].default:
                del config[name]
        config["vocabulary"] = {name: len(labels) for name, labels in self.vocabularies.items()}
        return config


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayoutNames(Settings):
    """Folders and files of one's own, relative to `input_base`, as Datum's generators take them.

    Args:
        image_dir: the folder of the images: `JPEGImages` of `voc` and `segmentation`; of lists
            named after splits, the split's name. `{split}` stands for that name: `images/{split}`.
        csv_path: the list, or one a split: `labels/{split}.csv`. Default: at the top.
        annotation_dir: the folder of the boxes of `voc`. Default: `Annotations`.
        label_dir: the folder of the label maps of `segmentation`. Default: `SegmentationClass`.
        image_set_dir: the folder of `train.txt` and the like, of `voc` and `segmentation`. Default:
            `ImageSets/Main`, `ImageSets/Segmentation` or `ImageSets`.
        label_list: a text whose lines are the classes of the images that lie in no class folder, in
            the order of their names, as of ImageNet's validation images.
    """

    image_dir: str | None = setting(None, _path)
    csv_path: str | None = setting(None, _path)
    annotation_dir: str | None = setting(None, _path)
    label_dir: str | None = setting(None, _path)
    image_set_dir: str | None = setting(None, _path)
    label_list: str | None = setting(None, _path)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MediaSettings(ExampleGenSettings):
    """Those of all ExampleGens, and what becomes of images and sounds.

    Subclasses say which of the latter, and of the names, can be set.

    Args:
        feature_names: other names for features, by those that they have: `{'image':
            'image/encoded', 'label': 'image/class/label'}`. All other settings know them by the
            ones that they have.
        base_dataset: a dataset that an earlier run of this component made of the same inputs with
            the same settings: its shards whose inputs are as they were are linked or copied, not
            made again. Ids of labels do not move: new ones come last.
        rows: what several rows of one file become: `grouped`: one example, with lists of what
            differs between them; `each`: an example per row. `auto`: grouped where rows are boxes
            or captions; rows of one file that differ in their label only are an error.
        label_separator: a character between the labels of one field, as in `cat|dog`. Default: a
            field is one label.
        find_files: how the files that a list names are found: `path`: as the list says, and a name
            without a folder anywhere, if there is one file of it; `tail`: by the end of the path,
            without the folders in front that all paths share; `name`: by the file's name alone;
            `stem`: by that without its ending.
    """

    feature_names: Mapping[str, str] = setting({}, _names_by_feature)
    base_dataset: str | None = setting(None, where(is_text, "the uri of a dataset"))
    rows: str = setting("auto", one_of("auto", "grouped", "each"))
    label_separator: str | None = setting(None, _separator)
    find_files: str = setting("path", one_of("path", "tail", "name", "stem"))
    images: ImageOptions = group(ImageOptions, only=())
    audio: AudioOptions = group(AudioOptions, only=())
    names: LayoutNames = group(LayoutNames, only=())

    @property
    def layout_names(self) -> dict[str, str]:
        """The folders and files that replace those of the layouts, by setting."""
        return {name: path for name, path in dataclasses.asdict(self.names).items() if path}

    def for_manifest(self) -> JsonObject:
        """The settings as a manifest keeps them, those of images and sounds among them."""
        config = super().for_manifest()
        if self.delimiter is None:  # as before lists had one
            del config["delimiter"]
        if config.get("encoding") == "utf-8":
            del config["encoding"]
        images, audio = config.pop("images"), config["audio"]
        if images["sixteen_bit"] == ImageOptions.sixteen_bit:  # as before there was such a setting
            del images["sixteen_bit"]
        config.update(images)
        config.update(audio)  # which stays by itself too, as in every manifest so far
        return {**config, **self.layout_names}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageSettings(MediaSettings):
    """The settings of ImageExampleGen.

    Args:
        layout: `auto`, or the name of one: `folder` (`<split>/<class>/…`, `<class>/…`), `csv`,
            `tsv`, `jsonl`, `parquet`, `voc`, `segmentation`, `coco`, `tar`, `split_lists`.
        group_by: a column, such as a patient's id: rows with equal values go to the same split; or
            `near_duplicates`: images that are copies of one another do, encoded again, resized,
            cropped by up to 5 % of each side, made grey or mirrored. Every image is decoded for
            that.
        list_encoding: encoding of lists (CSV, TSV, JSON lines), as Python names it.
        box_format: what the four numbers of a column `bbox` are: `xywh` (left, top, width, height)
            or `xyxy` (left, top, right, bottom); `polygon`: take the box around the segments and
            oriented boxes of `yolo`. Default: what all rows and sizes agree with; if both do, it is
            an error.
        box_frame: what the boxes and label maps of images that EXIF rotates refer to: `stored`
            (the pixels as they are in the file) or `displayed` (the rotated image). Default: the
            frame that the annotated size fits; `stored`, with a warning, where both fit.
    """

    layout: str = setting("auto", _layout_of("image"))
    list_encoding: str = setting("utf-8", _encoding)
    box_format: str | None = setting(None, one_of(None, "xywh", "xyxy", "polygon"))
    box_frame: str | None = setting(None, one_of(None, "stored", "displayed"))
    names: LayoutNames = group(LayoutNames)
    images: ImageOptions = group(ImageOptions)
    audio: AudioOptions = group(AudioOptions, only=("sample_rate",))  # of sounds in a list


@dataclasses.dataclass(frozen=True, kw_only=True)
class AudioSettings(MediaSettings):
    """The settings of AudioExampleGen.

    Args:
        layout: `auto`, or the name of one: `folder` (`<split>/<class>/…`, `<class>/…`), `csv`,
            `tsv`, `jsonl`, `parquet`, `split_lists` (Speech Commands), `common_voice`, `ljspeech`,
            `speakers` (VCTK, LibriTTS).
        group_by: a column, such as a speaker's id: rows with equal values go to the same split; or
            `near_duplicates`: sounds of the same bytes do.
        encoding: encoding of lists (CSV, TSV, JSON lines), as Python names it.
    """

    layout: str = setting("auto", _layout_of("audio"))
    encoding: str = setting("utf-8", _encoding)
    audio: AudioOptions = group(AudioOptions)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ListSettings(MediaSettings):
    """The settings of tables whose rows name files, as TextExampleGen reads them."""

    encoding: str = setting("utf-8", _encoding)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextSettings(ExampleGenSettings):
    """The settings of TextExampleGen.

    Args:
        layout: `auto`, or the name of one: `csv`, `tsv`, `jsonl`, `parquet`, `json` (objects by
            key, or a list), `lines` (an example a line), `folder` (an example a file).
        group_by: a column, such as an author's id: rows with equal values go to the same split; or
            `near_duplicates`: rows whose texts are of the same words but few do.
        encoding: encoding of the files, as Python names it.
        lowercase: convert texts to lower case.
        normalize: normalise texts to a Unicode form: `NFC`, `NFD`, `NFKC` or `NFKD`.
        min_chars: least characters of a text; shorter ones are skipped, and counted. At least 0.
        max_chars: most characters of a text; longer ones are skipped, and counted.
        deduplicate: skip rows whose text came before, and count them.
        tokenizer: makes the feature `tokens` of each text: the `.json` file of a tokenizer of
            `tokenizers`, the `.model` file of SentencePiece, or the name or `.tiktoken` file of an
            encoding of tiktoken. Nothing is downloaded.
        keep_text: False: the tokens take the place of the text.
    """

    layout: str = setting("auto", _layout_of("text"))
    encoding: str = setting("utf-8", _encoding)
    lowercase: bool = setting(False, _bool)
    normalize: str | None = setting(None, one_of(None, "NFC", "NFD", "NFKC", "NFKD"))
    min_chars: int = setting(0, number(0))
    max_chars: int | None = setting(None, number(1))
    deduplicate: bool = setting(False, _bool)
    tokenizer: str | None = setting(None, where(is_text, "a file, or the name of an encoding"))
    keep_text: bool = setting(True, _bool)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_chars is not None:
            number(max(1, self.min_chars))("max_chars", self.max_chars)
        for name in _ONLY_FOR_TEXTS if self.names_files or self.is_custom else ():
            default, value = settings_of(TextSettings)[name].default, getattr(self, name)
            if value != default:
                allowed = f"{default!r} for a table whose rows name files, and for a custom layout"
                raise ConfigError.of(name, value, allowed=allowed)

    def for_manifest(self) -> JsonObject:
        """The settings as a manifest keeps them; the features say which tokenizer it was."""
        config = super().for_manifest()
        if self.tokenizer is None:  # as before there were any
            del config["tokenizer"], config["keep_text"]
        else:
            config["tokenizer"] = posixpath.basename(self.tokenizer)
        return config

    @property
    def is_custom(self) -> bool:
        """Whether the layout was registered by `components.layouts.layout`."""
        if self.layout == "auto":
            return False
        from components.layouts.registry import is_custom  # imports every layout

        return is_custom(self.layout)

    @property
    def names_files(self) -> bool:
        """Whether the rows of tables name images or sounds."""
        return any(kind in MEDIA for kind in self.columns.values())
