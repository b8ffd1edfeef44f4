"""The settings of `DatasetWriter`.

WriterSettings(num_shards={"train": 8}, compression="gzip")
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from trainer_utils.format import ConfigError
from trainer_utils.format.naming import check_split_name
from trainer_utils.format.settings import Settings, number, one_of, setting

__all__ = ["WriterSettings"]

_LABEL = "label"


def _shards(name: str, value: Any) -> Any:
    """Refuses anything but numbers of shards: one for all, or by split."""
    if not isinstance(value, Mapping):
        return number(1)(name, value)
    for split, shards in value.items():
        check_split_name(str(split))
        number(1)(f"{name}[{split!r}]", shards)
    return dict(value)


def _texts(name: str, value: Any) -> Any:
    if isinstance(value, str) or not all(isinstance(text, str) for text in value):
        raise ConfigError.of(name, value, allowed="a list of texts")
    return tuple(value)


def _vocabularies(name: str, value: Any) -> Any:
    given = value if isinstance(value, Mapping) else {_LABEL: value} if value else {}
    for feature, labels in given.items():
        _texts(f"{name}[{feature!r}]", labels)
        if not labels or len(set(labels)) < len(labels) or any("\n" in label for label in labels):
            raise ConfigError.of(
                f"{name}[{feature!r}]", labels, allowed="different labels of one line each"
            )
    return {feature: tuple(labels) for feature, labels in given.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class WriterSettings(Settings):
    """What shapes the dataset that `DatasetWriter` writes."""

    num_shards: int | Mapping[str, int] | None = setting(
        None,
        _shards,
        'shards of every split, or by split: `{"train": 8, "eval": 2}`; examples go into them by '
        "turns. Fewer where there are fewer examples. Default: a shard is filled up to "
        "`target_shard_bytes`, and then the next.",
    )
    target_shard_bytes: int = setting(128 << 20, number(1), "target size of a shard in bytes.")
    compression: str = setting(
        "none",
        one_of("none", "gzip"),
        "`none`, or `gzip` (slower to read, and Datum cannot read it).",
    )
    images: Sequence[str] = setting(
        ("image",),
        _texts,
        "features that are images: bytes are kept, pixels become PNG files.",
    )
    vocabulary: Sequence[str] | Mapping[str, Sequence[str]] = setting(
        {},
        _vocabularies,
        "the labels in the order of their ids: a list for the feature `label`, or lists by "
        "feature. Texts of these features become ids.",
    )
