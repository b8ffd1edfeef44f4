"""Typed keywords of the components, made by scripts/generate_settings.py.

from components.tfx.keywords import ShardBalancerKeywords
"""

import os
from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from tfx.proto.example_gen_pb2 import Input, Output
from tfx.proto.range_config_pb2 import RangeConfig

from components.tfx.component import Runtime


class ImageExampleGenKeywords(TypedDict, total=False):
    """The settings of the component ImageExampleGen."""

    input_config: Input | Runtime | None
    output_config: Output | Runtime | None
    range_config: RangeConfig | Runtime | None
    splits: Mapping[str, float] | None
    layout: str | Runtime
    columns: Mapping[str, str] | Runtime | None
    file_roots: Sequence[str | os.PathLike[str]] | Runtime | None
    ignore: Sequence[str] | Runtime | None
    follow_links: bool | Runtime
    column_names: Sequence[str] | Runtime | None
    header: bool | Runtime | None
    delimiter: str | Runtime | None
    quoting: Literal["csv", "none"] | Runtime
    vocabulary: Sequence[str] | Mapping[str, Sequence[str]] | Runtime | None
    tensors: Mapping[str, str] | Runtime | None
    group_by: str | Runtime | None
    stratify: bool | Runtime
    seed: int | Runtime
    num_shards: int | Mapping[str, int] | Runtime | None
    target_shard_bytes: int | Runtime
    shard_multiple: int | Runtime
    compression: Literal["none", "gzip"] | Runtime
    max_reject_fraction: float | Runtime
    feature_names: Mapping[str, str] | Runtime | None
    base_dataset: str | os.PathLike[str] | Runtime | None
    rows: Literal["auto", "grouped", "each"] | Runtime
    label_separator: str | Runtime | None
    find_files: Literal["path", "tail", "name", "stem"] | Runtime
    name_pattern: str | Runtime | None
    list_encoding: str | Runtime
    box_format: Literal["xywh", "xyxy", "polygon"] | Runtime | None
    box_frame: Literal["stored", "displayed"] | Runtime | None
    orientation: Literal["apply", "keep"] | Runtime
    frames: Literal["first", "reject"] | Runtime
    resize_shorter_side: int | Runtime | None
    quality: int | Runtime
    encoding: Literal["file", "raw"] | Runtime
    verify: Literal["structure", "decode"] | Runtime
    max_pixels: int | Runtime
    sixteen_bit: Literal["scale", "keep"] | Runtime
    sample_rate: int | Runtime | None
    image_dir: str | os.PathLike[str] | Runtime | None
    csv_path: str | os.PathLike[str] | Runtime | None
    annotation_dir: str | os.PathLike[str] | Runtime | None
    label_dir: str | os.PathLike[str] | Runtime | None
    image_set_dir: str | os.PathLike[str] | Runtime | None
    label_list: str | os.PathLike[str] | Runtime | None


class TextExampleGenKeywords(TypedDict, total=False):
    """The settings of the component TextExampleGen."""

    input_config: Input | Runtime | None
    output_config: Output | Runtime | None
    range_config: RangeConfig | Runtime | None
    splits: Mapping[str, float] | None
    layout: str | Runtime
    columns: Mapping[str, str] | Runtime | None
    file_roots: Sequence[str | os.PathLike[str]] | Runtime | None
    ignore: Sequence[str] | Runtime | None
    follow_links: bool | Runtime
    column_names: Sequence[str] | Runtime | None
    header: bool | Runtime | None
    delimiter: str | Runtime | None
    quoting: Literal["csv", "none"] | Runtime
    vocabulary: Sequence[str] | Mapping[str, Sequence[str]] | Runtime | None
    tensors: Mapping[str, str] | Runtime | None
    group_by: str | Runtime | None
    stratify: bool | Runtime
    seed: int | Runtime
    num_shards: int | Mapping[str, int] | Runtime | None
    target_shard_bytes: int | Runtime
    shard_multiple: int | Runtime
    compression: Literal["none", "gzip"] | Runtime
    max_reject_fraction: float | Runtime
    encoding: str | Runtime
    lowercase: bool | Runtime
    normalize: Literal["NFC", "NFD", "NFKC", "NFKD"] | Runtime | None
    min_chars: int | Runtime
    max_chars: int | Runtime | None
    deduplicate: bool | Runtime
    tokenizer: str | os.PathLike[str] | Runtime | None
    keep_text: bool | Runtime


class AudioExampleGenKeywords(TypedDict, total=False):
    """The settings of the component AudioExampleGen."""

    input_config: Input | Runtime | None
    output_config: Output | Runtime | None
    range_config: RangeConfig | Runtime | None
    splits: Mapping[str, float] | None
    layout: str | Runtime
    columns: Mapping[str, str] | Runtime | None
    file_roots: Sequence[str | os.PathLike[str]] | Runtime | None
    ignore: Sequence[str] | Runtime | None
    follow_links: bool | Runtime
    column_names: Sequence[str] | Runtime | None
    header: bool | Runtime | None
    delimiter: str | Runtime | None
    quoting: Literal["csv", "none"] | Runtime
    vocabulary: Sequence[str] | Mapping[str, Sequence[str]] | Runtime | None
    tensors: Mapping[str, str] | Runtime | None
    group_by: str | Runtime | None
    stratify: bool | Runtime
    seed: int | Runtime
    num_shards: int | Mapping[str, int] | Runtime | None
    target_shard_bytes: int | Runtime
    shard_multiple: int | Runtime
    compression: Literal["none", "gzip"] | Runtime
    max_reject_fraction: float | Runtime
    feature_names: Mapping[str, str] | Runtime | None
    base_dataset: str | os.PathLike[str] | Runtime | None
    rows: Literal["auto", "grouped", "each"] | Runtime
    label_separator: str | Runtime | None
    find_files: Literal["path", "tail", "name", "stem"] | Runtime
    name_pattern: str | Runtime | None
    encoding: str | Runtime
    sample_rate: int | Runtime | None
    channels: int | Runtime | None
    csv_path: str | os.PathLike[str] | Runtime | None


class ShardBalancerKeywords(TypedDict, total=False):
    """The settings of the component ShardBalancer."""

    num_shards: int | Mapping[str, int] | Runtime | None
    target_shard_bytes: int | Runtime
    shard_multiple: int | Runtime
    shuffle: bool | Runtime
    balance: Literal["records", "bytes"] | Runtime
    stratify_by: str | Runtime | None
    seed: int | Runtime
    compression: Literal["none", "gzip"] | Runtime
    memory_bytes: int | Runtime
    exclude: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Runtime | None
    relabel: str | os.PathLike[str] | Mapping[str, str | int | float] | Runtime | None
    where: str | Runtime | None
    add: Sequence[str | os.PathLike[str]] | Runtime | None
    keep_shards: bool | Runtime


class SchemaExportKeywords(TypedDict, total=False):
    """The settings of the component SchemaExport."""

    tfds: bool | Runtime


class DatasetAuditKeywords(TypedDict, total=False):
    """The settings of the component DatasetAudit."""

    fail_on: Sequence[str] | Runtime | None
    label: str | Runtime
    most: int | Runtime


class DatasetReportKeywords(TypedDict, total=False):
    """The settings of the component DatasetReport."""

    sample_records: int | Runtime
