"""TextExampleGen: convert text and tables to a dataset.

texts = TextExampleGen(input_base="reviews.csv")
texts.outputs["examples"]
"""

import os
from collections.abc import Mapping, Sequence

from tfx.dsl.components.base import executor_spec
from tfx.proto import example_gen_pb2, range_config_pb2

from components.example_gen.settings import TextSettings
from components.tfx.component import Runtime, document_constructor, parameters_of
from components.tfx.example_gen import (
    TFX_ARGUMENTS,
    TFX_PARAMETERS,
    ExampleGenExecutor,
    FilesExampleGen,
    FilesExampleGenSpec,
    FileTreeDriver,
)


class Executor(ExampleGenExecutor):
    """Executor of TextExampleGen."""

    settings_class = TextSettings


class _Driver(FileTreeDriver):
    settings_class = TextSettings


class TextExampleGenSpec(FilesExampleGenSpec):
    """The component's parameters."""

    PARAMETERS = {**TFX_PARAMETERS, **parameters_of(TextSettings)}


class TextExampleGen(FilesExampleGen):
    """A component that converts text and tables to sharded TFRecords of `tf.train.Example`.

    Every example has the columns of its row, typed by all rows, or the `text` and `label` of a file
    in a class folder; and `id`, its source and its number there. String labels become int64 ids,
    which are indices in the sorted vocabulary `vocab/<feature>.txt`. Bad rows are listed in
    `rejects.jsonl`.

    Outputs:
        examples: TFX's `Examples`, and a Datum dataset.
    """

    SPEC_CLASS = TextExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
    DRIVER_CLASS = _Driver

    def __init__(
        self,
        input_base: str | os.PathLike[str] | Runtime,
        *,
        input_config: example_gen_pb2.Input | Runtime | None = None,
        output_config: example_gen_pb2.Output | Runtime | None = None,
        range_config: range_config_pb2.RangeConfig | Runtime | None = None,
        splits: Mapping[str, float] | None = None,
        layout: str | Runtime = TextSettings.layout,
        columns: Mapping[str, str] | Runtime | None = None,
        file_roots: Sequence[str] | Runtime | None = None,
        ignore: Sequence[str] | Runtime | None = None,
        follow_links: bool | Runtime = TextSettings.follow_links,
        column_names: Sequence[str] | Runtime | None = None,
        header: bool | Runtime | None = None,
        delimiter: str | Runtime | None = None,
        quoting: str | Runtime = TextSettings.quoting,
        vocabulary: Sequence[str] | Mapping[str, Sequence[str]] | Runtime | None = None,
        tensors: Mapping[str, str] | Runtime | None = None,
        group_by: str | Runtime | None = None,
        stratify: bool | Runtime = TextSettings.stratify,
        seed: int | Runtime = TextSettings.seed,
        num_shards: int | Mapping[str, int] | Runtime | None = None,
        target_shard_bytes: int | Runtime = TextSettings.target_shard_bytes,
        shard_multiple: int | Runtime = TextSettings.shard_multiple,
        compression: str | Runtime = TextSettings.compression,
        max_reject_fraction: float | Runtime = TextSettings.max_reject_fraction,
        encoding: str | Runtime = TextSettings.encoding,
        lowercase: bool | Runtime = TextSettings.lowercase,
        normalize: str | Runtime | None = None,
        min_chars: int | Runtime = TextSettings.min_chars,
        max_chars: int | Runtime | None = None,
        deduplicate: bool | Runtime = TextSettings.deduplicate,
        tokenizer: str | Runtime | None = None,
        keep_text: bool | Runtime = TextSettings.keep_text,
    ) -> None:
        """Create the component. `help(TextExampleGen)` describes every argument."""
        super().__init__(TextSettings, locals())


document_constructor(TextExampleGen, TextSettings, **TFX_ARGUMENTS)
