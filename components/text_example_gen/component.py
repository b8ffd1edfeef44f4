"""The TextExampleGen component: its interface.

texts = TextExampleGen(input_base="reviews.csv")
texts.outputs["examples"]
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tfx import types
from tfx.dsl.components.base import executor_spec
from tfx.proto import example_gen_pb2, range_config_pb2

from components.common.checks import names_checked
from components.example_gen.component import (
    COMMON_PARAMETERS,
    EXAMPLES,
    FilesExampleGen,
    Runtime,
    optional,
    required,
)
from components.example_gen.driver import FileTreeDriver
from components.example_gen.list_files import MEDIA
from components.text_example_gen.executor import Executor
from components.text_example_gen.layouts import is_source_file
from components.text_example_gen.settings import TextSettings

__all__ = ["TextExampleGen"]


class TextExampleGenSpec(types.ComponentSpec):
    """The component's parameters and output."""

    PARAMETERS = {
        **COMMON_PARAMETERS,
        "image_roots": optional(str),
        "column_names": optional(str),
        "header": optional(int),
        "delimiter": optional(str),
        "encoding": required(str),
        "lowercase": required(int),
        "normalize": optional(str),
        "min_chars": required(int),
        "max_chars": optional(int),
        "deduplicate": required(int),
    }
    INPUTS: dict[str, Any] = {}
    OUTPUTS = EXAMPLES


class _Driver(FileTreeDriver):
    unit = "texts"

    def is_source_file(self, path: str) -> bool:
        return is_source_file(path)

    def sees_siblings(self, exec_properties: Mapping[str, Any]) -> bool:
        columns = json.loads(exec_properties.get("columns") or "{}")
        return any(kind in MEDIA for kind in columns.values())


class TextExampleGen(FilesExampleGen):
    """Turns texts and tables into sharded TFRecords of `tf.train.Example`.

    Every example has the columns of its row, typed by all rows, or `text` and `label` of a file
    in a class folder; and `id`, its source and its number there. Labels that are texts become
    int64 ids, places in the sorted vocabulary `vocab/<feature>.txt`. Bad rows are listed in
    `rejects.jsonl`.

    Outputs:
        examples: TFX's `Examples`, and a Datum dataset.
    """

    SPEC_CLASS = TextExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
    DRIVER_CLASS = _Driver
    settings_class = TextSettings

    @names_checked
    def __init__(
        self,
        input_base: str | Runtime,
        *,
        input_config: example_gen_pb2.Input | Runtime | None = None,
        output_config: example_gen_pb2.Output | Runtime | None = None,
        range_config: range_config_pb2.RangeConfig | Runtime | None = None,
        layout: str | Runtime = "auto",
        columns: Mapping[str, str] | Runtime | None = None,
        image_roots: Sequence[str] | Runtime = (),
        column_names: Sequence[str] | Runtime = (),
        header: bool | Runtime | None = None,
        delimiter: str | Runtime | None = None,
        encoding: str | Runtime = "utf-8",
        vocabulary: Sequence[str] | Mapping[str, Sequence[str]] | Runtime | None = None,
        group_by: str | Runtime | None = None,
        stratify: bool | Runtime = False,
        lowercase: bool | Runtime = False,
        normalize: str | Runtime | None = None,
        min_chars: int | Runtime = 0,
        max_chars: int | Runtime | None = None,
        deduplicate: bool | Runtime = False,
        seed: int | Runtime = 0,
        target_shard_bytes: int | Runtime = 128 << 20,
        compression: str | Runtime = "none",
        max_reject_fraction: float | Runtime = 0.01,
    ) -> None:
        """Makes the component.

        Args:
            input_base: a folder or a file; a local path or `gs://`.
            input_config: TFX's. With several splits, each pattern selects one split's files.
                Patterns may hold {SPAN}, {VERSION}, {YYYY}, {MM} and {DD}. Default: all files.
            output_config: TFX's: hash splits with their shares, over each row's `id` or, by
                `partition_feature_name`, over a column. Default: the splits that folders, files
                or rows name, else train and eval 2:1.
            range_config: TFX's: which span to take. Default: the latest.
            layout: `auto`, or the name of one: `csv`, `tsv`, `jsonl`, `parquet`, `json` (objects
                by key, or a list), `lines` (an example a line), `folder` (an example a file).
            columns: kinds by column: `int`, `float`, `string`, `text`, `label`, `split` or
                `ignore`. Default: by their names and all their values. With `image` or `audio`,
                rows name files, which go into the examples.
            image_roots: folders beside `input_base` that rows may point into.
            column_names: of a CSV or TSV without a header, or in place of its names.
            header: whether the first row of a CSV or TSV has the columns' names. Default: told
                by what stands in it, and in all files; a doubt is an error.
            delimiter: of a table, one character. Default: a comma, or a tab for `tsv`.
            encoding: of the files, as Python names it.
            vocabulary: the labels in the order of their ids: of the feature `label`, or by
                feature. Others are rejected. Default: all labels, sorted.
            group_by: the column whose equal values share a split, such as an author.
            stratify: whether hashed splits keep the share of each class, to within one row.
            lowercase: makes texts lower case.
            normalize: brings texts into a form of Unicode: NFC, NFD, NFKC or NFKD.
            min_chars: a text needs; shorter ones are left out, and counted as skipped.
            max_chars: a text may have; longer ones are left out, and counted as skipped.
            deduplicate: leaves out rows whose text came before, and counts them as skipped.
            seed: of the hash that decides splits and order. 64 bits, signed.
            target_shard_bytes: wished size of a shard in bytes, at least 1.
            compression: `none`, or `gzip` (slower to read, and Datum cannot).
            max_reject_fraction: the run fails when more than this part of the inputs, in [0, 1],
                was rejected.

        Raises:
            ConfigError: a setting is not allowed.
        """
        settings: dict[str, Any] = {
            "layout": layout,
            "columns": columns,
            "image_roots": image_roots,
            "column_names": column_names,
            "header": header,
            "delimiter": delimiter,
            "encoding": encoding,
            "vocabulary": vocabulary,
            "group_by": group_by,
            "stratify": stratify,
            "lowercase": lowercase,
            "normalize": normalize,
            "min_chars": min_chars,
            "max_chars": max_chars,
            "deduplicate": deduplicate,
            "seed": seed,
            "target_shard_bytes": target_shard_bytes,
            "compression": compression,
            "max_reject_fraction": max_reject_fraction,
        }
        super().__init__(
            input_base,
            input_config=input_config,
            output_config=output_config,
            range_config=range_config,
            settings=settings,
        )
