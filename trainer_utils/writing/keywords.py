"""Typed keywords of `DatasetWriter`, made by scripts/generate_settings.py.

from trainer_utils.writing.keywords import WriterKeywords
"""

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict


class WriterKeywords(TypedDict, total=False):
    """The settings of `WriterSettings`."""

    num_shards: int | Mapping[str, int] | None
    target_shard_bytes: int
    compression: Literal["none", "gzip"]
    images: Sequence[str]
    vocabulary: Sequence[str] | Mapping[str, Sequence[str]]
