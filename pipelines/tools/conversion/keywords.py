"""Typed keywords of `convert` and `balance`, made by scripts/generate_settings.py.

from pipelines.tools.conversion.keywords import BalanceKeywords
"""

import os
from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict


class ConvertKeywords(TypedDict, total=False):
    """The settings of the ExampleGens and of ShardBalancer."""

    layout: str
    columns: Mapping[str, str] | None
    file_roots: Sequence[str | os.PathLike[str]] | None
    ignore: Sequence[str] | None
    follow_links: bool
    column_names: Sequence[str] | None
    header: bool | None
    delimiter: str | None
    quoting: Literal["csv", "none"]
    vocabulary: Sequence[str] | Mapping[str, Sequence[str]] | None
    tensors: Mapping[str, str] | None
    group_by: str | None
    stratify: bool
    seed: int
    num_shards: int | Mapping[str, int] | None
    target_shard_bytes: int
    shard_multiple: int
    compression: Literal["none", "gzip"]
    max_reject_fraction: float
    feature_names: Mapping[str, str] | None
    base_dataset: str | os.PathLike[str] | None
    rows: Literal["auto", "grouped", "each"]
    label_separator: str | None
    find_files: Literal["path", "tail", "name", "stem"]
    name_pattern: str | None
    list_encoding: str
    box_format: Literal["xywh", "xyxy", "polygon"] | None
    box_frame: Literal["stored", "displayed"] | None
    orientation: Literal["apply", "keep"]
    frames: Literal["first", "reject"]
    resize_shorter_side: int | None
    quality: int
    encoding: Literal["file", "raw"] | str
    verify: Literal["structure", "decode"]
    max_pixels: int
    sixteen_bit: Literal["scale", "keep"]
    sample_rate: int | None
    image_dir: str | os.PathLike[str] | None
    csv_path: str | os.PathLike[str] | None
    annotation_dir: str | os.PathLike[str] | None
    label_dir: str | os.PathLike[str] | None
    image_set_dir: str | os.PathLike[str] | None
    label_list: str | os.PathLike[str] | None
    lowercase: bool
    normalize: Literal["NFC", "NFD", "NFKC", "NFKD"] | None
    min_chars: int
    max_chars: int | None
    deduplicate: bool
    tokenizer: str | os.PathLike[str] | None
    keep_text: bool
    channels: int | None
    shuffle: bool
    balance: Literal["records", "bytes"]
    stratify_by: str | None
    memory_bytes: int
    exclude: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None
    relabel: str | os.PathLike[str] | Mapping[str, str | int | float] | None
    where: str | None
    add: Sequence[str | os.PathLike[str]] | None
    keep_shards: bool


class BalanceKeywords(TypedDict, total=False):
    """The settings of ShardBalancer."""

    num_shards: int | Mapping[str, int] | None
    target_shard_bytes: int
    shard_multiple: int
    shuffle: bool
    balance: Literal["records", "bytes"]
    stratify_by: str | None
    seed: int
    compression: Literal["none", "gzip"]
    memory_bytes: int
    exclude: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None
    relabel: str | os.PathLike[str] | Mapping[str, str | int | float] | None
    where: str | None
    add: Sequence[str | os.PathLike[str]] | None
    keep_shards: bool
