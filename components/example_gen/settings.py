"""The settings that every ExampleGen has, checked where they are made.

@dataclasses.dataclass(frozen=True, kw_only=True)
class TextSettings(ExampleGenSettings):
    LAYOUTS = ("auto", "csv", "lines")
    lowercase: bool = False
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

from components.common.checks import COMPRESSIONS, check_choice, check_number
from trainer_utils.format import ConfigError

__all__ = ["ExampleGenSettings", "check_table_names", "check_texts"]

_Settings = TypeVar("_Settings", bound="ExampleGenSettings")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleGenSettings:
    """What shapes the output, beside TFX's own input_config and output_config.

    Args:
        layout: one of `LAYOUTS`.
        columns: kinds by column of a list or table.
        vocabulary: labels in the order of their ids: of `label`, or by feature.
        group_by: the column whose equal values share a split.
        stratify: whether hashed splits keep the shares of the classes.
        seed: of the hash that decides splits, order and shards; 64 bits, signed.
        target_shard_bytes: wished size of a shard, at least 1 byte.
        compression: `none` or `gzip`.
        max_reject_fraction: of the inputs that may be rejected, in [0, 1].
    """

    LAYOUTS: ClassVar[Sequence[str]]
    JSON_PROPERTIES: ClassVar[Sequence[str]] = ("columns", "vocabulary")  # texts, where TFX is

    layout: str = "auto"
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    vocabulary: Mapping[str, Sequence[str]] | Sequence[str] = dataclasses.field(
        default_factory=dict
    )
    group_by: str | None = None
    stratify: bool = False
    seed: int = 0
    target_shard_bytes: int = 128 << 20  # 128 MiB: the field's advice is 100 to 200 MB
    compression: str = "none"
    max_reject_fraction: float = 0.01

    def __post_init__(self) -> None:
        check_choice("layout", self.layout, self.LAYOUTS)
        if not isinstance(self.columns, Mapping):
            raise ConfigError(f"columns: expected kinds by column, got {self.columns!r}")
        object.__setattr__(self, "vocabulary", _checked_vocabulary(self.vocabulary))
        if self.group_by is not None and not (self.group_by and isinstance(self.group_by, str)):
            raise ConfigError(f"group_by: expected the name of a column, got {self.group_by!r}")
        check_choice("stratify", self.stratify, (False, True))
        check_number("seed", self.seed, -(2**63), 2**63 - 1)
        check_number("target_shard_bytes", self.target_shard_bytes, 1)
        check_choice("compression", self.compression, COMPRESSIONS)
        check_number("max_reject_fraction", self.max_reject_fraction, 0, 1, kind=float)

    @property
    def vocabularies(self) -> dict[str, tuple[str, ...]]:
        """The vocabularies that are given, by feature."""
        return cast(dict[str, tuple[str, ...]], self.vocabulary)

    @property
    def gzip(self) -> bool:
        """Whether shards are compressed."""
        return self.compression == "gzip"

    @classmethod
    def from_properties(cls: type[_Settings], values: Mapping[str, Any]) -> _Settings:
        """From execution properties; other keys are passed over, missing ones have defaults."""
        known = {name: value for name, value in values.items() if value is not None}
        for name in known.keys() & set(cls.JSON_PROPERTIES):
            try:
                known[name] = json.loads(known[name])
            except ValueError as error:
                raise ConfigError(f"{name}: expected JSON, got {known[name]!r}") from error
        return cls.from_arguments(known)

    @classmethod
    def from_arguments(cls: type[_Settings], values: Mapping[str, Any]) -> _Settings:
        """From the component's arguments; others are passed over, and None means the default
        of those that are lists or mappings.
        """
        defaults = {field.name: field.default for field in dataclasses.fields(cls)}
        collections = (dataclasses.MISSING, ())
        return cls(
            **{
                name: value
                for name, value in values.items()
                if name in defaults and not (value is None and defaults[name] in collections)
            }
        )

    @classmethod
    def argument_names(cls) -> tuple[str, ...]:
        """What the component's constructor takes of these settings."""
        return tuple(field.name for field in dataclasses.fields(cls))

    def for_manifest(self) -> dict[str, Any]:
        """The settings as a manifest keeps them: of a vocabulary its size."""
        config = dataclasses.asdict(self)
        config["vocabulary"] = {name: len(labels) for name, labels in self.vocabularies.items()}
        return config


def _checked_vocabulary(given: Any) -> dict[str, tuple[str, ...]]:
    if isinstance(given, Mapping):
        by_feature = given
    else:
        check_texts("vocabulary", given)
        by_feature = {"label": given} if given else {}
    for name, labels in by_feature.items():
        check_texts(f"vocabulary[{name!r}]", labels)
        if not labels:
            raise ConfigError(f"vocabulary[{name!r}]: expected labels, got {labels!r}")
        for label in labels:
            if "\n" in label or "\r" in label:
                raise ConfigError(f"vocabulary[{name!r}]: expected one line each, got {label!r}")
        if len(set(labels)) < len(labels):
            twice = next(label for label in labels if list(labels).count(label) > 1)
            raise ConfigError(
                f"vocabulary[{name!r}]: expected each label once, got {twice!r} twice"
            )
    return {name: tuple(labels) for name, labels in by_feature.items()}


def check_texts(name: str, values: object) -> None:
    """Refuses anything but a list of texts that are not empty."""
    is_list = isinstance(values, Sequence) and not isinstance(values, str)
    if not is_list or not all(value and isinstance(value, str) for value in values):  # type: ignore[attr-defined]
        raise ConfigError(f"{name}: expected a list of texts that are not empty, got {values!r}")


def check_table_names(column_names: Sequence[str], header: object) -> None:
    """Refuses names of columns that are none, or that come twice, and a missing header without."""
    check_texts("column_names", column_names)
    if len(set(column_names)) < len(column_names):
        raise ConfigError(f"column_names: expected each once, got {list(column_names)}")
    check_choice("header", header, (None, False, True))
    if header is not None and not header and not column_names:
        raise ConfigError(
            "header: expected True or None without column_names, got False. "
            "Name the columns: column_names=['text', 'label']."
        )
