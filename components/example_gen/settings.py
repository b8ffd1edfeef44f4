"""The settings that every ExampleGen has, checked where they are made.

@dataclasses.dataclass(frozen=True, kw_only=True)
class TextSettings(ExampleGenSettings):
    layout: str = setting("auto", one_of("auto", "csv"), "`auto`, or the name of one: `csv`.")
    lowercase: bool = setting(False, one_of(False, True), "make texts lower case.")
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast

from components.common.settings import COMPRESSIONS, ComponentSettings, are_texts, is_text
from trainer_utils.format import ConfigError, DatasetError, Feature
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.settings import number, one_of, setting, where
from trainer_utils.format.spelling import did_you_mean
from trainer_utils.format.tensors import TensorSpec

__all__ = ["COLUMN_KINDS", "LISTS", "MEDIA", "ExampleGenSettings", "column_name"]

LISTS = ("csv", "tsv", "jsonl", "parquet")
MEDIA = ("image", "audio")
COLUMN_KINDS = ("int", "float", "string", "text", "label", *MEDIA, "split", "ignore")


_texts = where(are_texts, "a list of texts that are not empty")
column_name = where(is_text, "the name of a column")
"""A rule: the name of a column."""


def _different_texts(name: str, values: Any) -> Any:
    _texts(name, values)
    if len(set(values)) < len(values):
        raise ConfigError.of(name, list(values), allowed="each once")
    return values


def _kinds_by_column(name: str, columns: object) -> object:
    if not isinstance(columns, Mapping):
        raise ConfigError.of(name, columns, allowed="kinds by column")
    for column, kind in columns.items():
        one_of(*COLUMN_KINDS)(f"{name}[{column!r}]", kind)
    return columns


def _labels_by_feature(name: str, given: object) -> dict[str, tuple[str, ...]]:
    if isinstance(given, Mapping):
        by_feature = given
    else:
        _texts(name, given)
        by_feature = {"label": given} if given else {}
    for feature, labels in by_feature.items():
        _texts(f"{name}[{feature!r}]", labels)
        if not labels:
            raise ConfigError.of(f"{name}[{feature!r}]", labels, allowed="labels")
        for label in labels:
            if "\n" in label or "\r" in label:
                raise ConfigError.of(f"{name}[{feature!r}]", label, allowed="one line each")
        if len(set(labels)) < len(labels):
            twice = next(label for label in labels if list(labels).count(label) > 1)
            raise ConfigError(f"{name}[{feature!r}]: expected each label once, got {twice!r} twice")
    return {feature: tuple(labels) for feature, labels in by_feature.items()}


def _specs_by_column(name: str, given: object) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise ConfigError.of(name, given, allowed="dtypes and shapes by column")
    for column, spec in given.items():
        try:
            TensorSpec.parse(spec)
        except DatasetError as error:
            raise ConfigError.of(
                f"{name}[{column!r}]", spec, allowed="a dtype and a shape such as 'float16[3,?]'"
            ) from error
    return dict(given)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleGenSettings(ComponentSettings):
    """What shapes the output, beside TFX's own input_config and output_config.

    Subclasses say which layouts there are.
    """

    layout: str = setting(
        "auto",
        one_of("auto", *LISTS),
        "`auto`: it is recognised; or the name of one, such as `folder`, `csv` or `voc`.",
    )
    columns: Mapping[str, str] = setting(
        {},
        _kinds_by_column,
        "the kind of each column of a table: `int`, `float`, `string`, `text`, `label`, `image`, "
        "`audio`, `split` or `ignore`. Default: recognised from their names and values. Columns of "
        "kind `image` and `audio` name files, which go into the examples, each as a feature of the "
        "column's name.",
    )
    image_roots: Sequence[str] = setting(
        (),
        _texts,
        "folders outside `input_base` whose files a table may name; no others, if any is given. "
        "Default: a table may name any file by its whole path.",
    )
    column_names: Sequence[str] = setting(
        (),
        _different_texts,
        "names of the columns of a CSV or TSV without a header, or in place of those in it.",
    )
    header: bool | None = setting(
        None,
        one_of(None, False, True),
        "whether the first row of a CSV or TSV has the columns' names. Default: recognised from "
        "the first rows of all files; if that leaves a doubt, it is an error.",
    )
    vocabulary: Sequence[str] | Mapping[str, Sequence[str]] = setting(
        {},
        _labels_by_feature,
        "the labels in the order of their ids: a list for the feature `label`, or lists by "
        "feature, which Kubeflow's functions do not take. Other labels are rejected. Default: all "
        "labels found, sorted.",
    )
    tensors: Mapping[str, str] = setting(
        {},
        _specs_by_column,
        "columns of Parquet that hold serialized tensors, as `tf.io.serialize_tensor` makes them, "
        "with their dtype and shape: `float16[3,4]`, or `float16[3,?]` where they differ.",
    )
    group_by: str | None = setting(
        None,
        column_name,
        "a column, such as a patient's id: rows with equal values go to the same split.",
    )
    stratify: bool = setting(
        False,
        one_of(False, True),
        "splits made by a hash keep the share of each class, to within one example.",
    )
    seed: int = setting(
        0, number(-(2**63), 2**63 - 1), "seed of the hash that decides splits, order and shards."
    )
    target_shard_bytes: int = setting(  # 128 MiB: the field's advice is 100 to 200 MB
        128 << 20, number(1), "target size of a shard in bytes."
    )
    compression: str = setting(
        "none",
        one_of(*COMPRESSIONS),
        "`none`, or `gzip` (slower to read, and Datum cannot read it).",
    )
    max_reject_fraction: float = setting(
        0.01,
        number(0, 1, kind=float),
        "the run fails if a larger share of the inputs is rejected.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tensors:  # bytes that are nothing else
            strings = dict.fromkeys(self.tensors, "string")
            object.__setattr__(self, "columns", {**self.columns, **strings})
        if self.header is False and not self.column_names:
            raise ConfigError(
                "header: expected True or None without column_names, got False. "
                "Name the columns: column_names=['text', 'label'].",
                setting="header",
            )

    @property
    def vocabularies(self) -> dict[str, tuple[str, ...]]:
        """The vocabularies that are given, by feature."""
        return cast(dict[str, tuple[str, ...]], self.vocabulary)

    def described(self, features: Mapping[str, Feature]) -> dict[str, Feature]:
        """Features with what `tensors` says of them.

        Raises:
            ConfigError: it names a column that is no feature of bytes.
        """
        found = dict(features)
        for name, text in self.tensors.items():
            if name not in found or found[name].type != "string" or found[name].is_image:
                raise ConfigError.of(
                    "tensors",
                    name,
                    allowed=f"columns of bytes, of {', '.join(features)}",
                    advice=did_you_mean(name, features).strip(),
                )
            extra = {**found[name].extra, "tensor": TensorSpec.parse(text).to_json()}
            found[name] = dataclasses.replace(found[name], extra=extra)
        return found

    @property
    def gzip(self) -> bool:
        """Whether shards are compressed."""
        return self.compression == "gzip"

    def for_manifest(self) -> JsonObject:
        """The settings as a manifest keeps them: no paths, and of a vocabulary its size."""
        config = dataclasses.asdict(self)
        del config["image_roots"]
        if not self.tensors:  # as before there were any
            del config["tensors"]
        config["vocabulary"] = {name: len(labels) for name, labels in self.vocabularies.items()}
        return config
