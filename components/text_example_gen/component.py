"""The TextExampleGen component: its interface.

texts = TextExampleGen(input_base="reviews.csv")
texts.outputs["examples"]
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tfx import types
from tfx.components.example_gen import utils
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.orchestration import data_types
from tfx.proto import example_gen_pb2, range_config_pb2
from tfx.types import component_spec, standard_artifacts, standard_component_specs

from components.common.checks import as_properties, known_now
from components.example_gen.driver import FileTreeDriver
from components.text_example_gen.executor import Executor
from components.text_example_gen.layouts import is_source_file
from components.text_example_gen.settings import TextSettings

__all__ = ["TextExampleGen"]

_Runtime = data_types.RuntimeParameter


class TextExampleGenSpec(types.ComponentSpec):
    """The component's parameters and output; the names that it shares with TFX's are TFX's."""

    PARAMETERS = {
        standard_component_specs.INPUT_BASE_KEY: component_spec.ExecutionParameter(type=str),
        standard_component_specs.INPUT_CONFIG_KEY: component_spec.ExecutionParameter(
            type=example_gen_pb2.Input
        ),
        standard_component_specs.OUTPUT_CONFIG_KEY: component_spec.ExecutionParameter(
            type=example_gen_pb2.Output
        ),
        standard_component_specs.RANGE_CONFIG_KEY: component_spec.ExecutionParameter(
            type=range_config_pb2.RangeConfig, optional=True
        ),
        "layout": component_spec.ExecutionParameter(type=str),
        "columns": component_spec.ExecutionParameter(type=str, optional=True),
        "column_names": component_spec.ExecutionParameter(type=str, optional=True),
        "delimiter": component_spec.ExecutionParameter(type=str, optional=True),
        "encoding": component_spec.ExecutionParameter(type=str),
        "vocabulary": component_spec.ExecutionParameter(type=str, optional=True),
        "group_by": component_spec.ExecutionParameter(type=str, optional=True),
        "stratify": component_spec.ExecutionParameter(type=int),
        "lowercase": component_spec.ExecutionParameter(type=int),
        "normalize": component_spec.ExecutionParameter(type=str, optional=True),
        "min_chars": component_spec.ExecutionParameter(type=int),
        "max_chars": component_spec.ExecutionParameter(type=int, optional=True),
        "deduplicate": component_spec.ExecutionParameter(type=int),
        "seed": component_spec.ExecutionParameter(type=int),
        "target_shard_bytes": component_spec.ExecutionParameter(type=int),
        "compression": component_spec.ExecutionParameter(type=str),
        "max_reject_fraction": component_spec.ExecutionParameter(type=float),
    }
    INPUTS: dict[str, Any] = {}
    OUTPUTS = {"examples": component_spec.ChannelParameter(type=standard_artifacts.Examples)}


class _Driver(FileTreeDriver):
    def is_source_file(self, path: str) -> bool:
        return is_source_file(path)

    def sees_siblings(self, exec_properties: Mapping[str, Any]) -> bool:
        return False


class TextExampleGen(base_beam_component.BaseBeamComponent):
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

    def __init__(
        self,
        input_base: str | _Runtime,
        *,
        input_config: example_gen_pb2.Input | _Runtime | None = None,
        output_config: example_gen_pb2.Output | _Runtime | None = None,
        range_config: range_config_pb2.RangeConfig | _Runtime | None = None,
        layout: str | _Runtime = "auto",
        columns: Mapping[str, str] | _Runtime | None = None,
        column_names: Sequence[str] | _Runtime = (),
        delimiter: str | _Runtime | None = None,
        encoding: str | _Runtime = "utf-8",
        vocabulary: Sequence[str] | Mapping[str, Sequence[str]] | _Runtime | None = None,
        group_by: str | _Runtime | None = None,
        stratify: bool | _Runtime = False,
        lowercase: bool | _Runtime = False,
        normalize: str | _Runtime | None = None,
        min_chars: int | _Runtime = 0,
        max_chars: int | _Runtime | None = None,
        deduplicate: bool | _Runtime = False,
        seed: int | _Runtime = 0,
        target_shard_bytes: int | _Runtime = 128 << 20,
        compression: str | _Runtime = "none",
        max_reject_fraction: float | _Runtime = 0.01,
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
                `ignore`. Default: by their names and all their values.
            column_names: of a table without a header.
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
            "column_names": column_names,
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
        TextSettings.from_arguments(known_now(settings))
        settings = as_properties(settings, json_names=TextSettings.JSON_PROPERTIES)
        spec = TextExampleGenSpec(
            input_base=input_base,
            input_config=input_config or utils.make_default_input_config(),
            output_config=output_config or example_gen_pb2.Output(),
            range_config=range_config,
            examples=types.Channel(type=standard_artifacts.Examples),
            **settings,
        )
        super().__init__(spec=spec)
