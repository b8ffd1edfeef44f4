"""The AudioExampleGen component: its interface.

sounds = AudioExampleGen(input_base="clips/", sample_rate=16_000)
sounds.outputs["examples"]
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tfx import types
from tfx.dsl.components.base import executor_spec
from tfx.proto import example_gen_pb2, range_config_pb2

from components.audio_example_gen.executor import Executor
from components.audio_example_gen.settings import AudioSettings
from components.common.checks import names_checked
from components.example_gen.component import (
    COMMON_PARAMETERS,
    EXAMPLES,
    FilesExampleGen,
    Runtime,
    optional,
)
from components.example_gen.driver import FileTreeDriver
from components.example_gen.lists import is_list

__all__ = ["AudioExampleGen"]


class AudioExampleGenSpec(types.ComponentSpec):
    """The component's parameters and output."""

    PARAMETERS = {
        **COMMON_PARAMETERS,
        "image_roots": optional(str),
        "column_names": optional(str),
        "header": optional(int),
        "sample_rate": optional(int),
        "channels": optional(int),
    }
    INPUTS: dict[str, Any] = {}
    OUTPUTS = EXAMPLES


class _Driver(FileTreeDriver):
    unit = "sounds"

    def is_source_file(self, path: str) -> bool:
        return is_list(path)


class AudioExampleGen(FilesExampleGen):
    """Turns sounds in folders or lists into sharded TFRecords of `tf.train.Example`.

    Every example has `audio` (a WAV file of 16 bits: the file itself where it is one, else WAV,
    FLAC, OGG or MP3 decoded), `sample_rate` in Hz, `num_frames` (samples of each channel),
    `filename` (relative to `input_base`), and `label` of a class folder or the columns of a list.
    Labels that are texts become int64 ids, places in the sorted vocabulary `vocab/<feature>.txt`.
    Bad files are listed in `rejects.jsonl`.

    Outputs:
        examples: TFX's `Examples`, and a Datum dataset.
    """

    SPEC_CLASS = AudioExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
    DRIVER_CLASS = _Driver
    settings_class = AudioSettings

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
        vocabulary: Sequence[str] | Mapping[str, Sequence[str]] | Runtime | None = None,
        group_by: str | Runtime | None = None,
        stratify: bool | Runtime = False,
        sample_rate: int | Runtime | None = None,
        channels: int | Runtime | None = None,
        seed: int | Runtime = 0,
        target_shard_bytes: int | Runtime = 128 << 20,
        compression: str | Runtime = "none",
        max_reject_fraction: float | Runtime = 0.01,
    ) -> None:
        """Makes the component.

        Args:
            input_base: a folder, or a list of sounds (CSV, TSV, JSON lines, Parquet); a local
                path or `gs://`.
            input_config: TFX's. With several splits, each pattern selects one split's files and
                the folders below the pattern's literal part are classes. Patterns may hold
                {SPAN}, {VERSION}, {YYYY}, {MM} and {DD}. Default: all files, one split.
            output_config: TFX's: hash splits with their shares, over the filename or, by
                `partition_feature_name`, over a column. Default: the splits that the folders or
                the list name, else train and eval 2:1.
            range_config: TFX's: which span to take. Default: the latest.
            layout: `auto`, or the name of one: `folder` (`<split>/<class>/…`, `<class>/…`), `csv`,
                `tsv`, `jsonl`, `parquet`.
            columns: of a list, kinds by column: `int`, `float`, `string`, `text`, `label`,
                `image`, `audio`, `split` or `ignore`. Default: by their names and values. Where a
                row has several files, each is a feature by its column's name.
            image_roots: folders beside `input_base` that a list may point into.
            column_names: of a CSV or TSV without a header, or in place of its names.
            header: whether the first row of a CSV or TSV has the columns' names. Default: told
                by what stands in it; a doubt is an error.
            vocabulary: the labels in the order of their ids: of the feature `label`, or by
                feature. Others are rejected. Default: all labels, sorted.
            group_by: the column whose equal values share a split, such as a speaker.
            stratify: whether hashed splits keep the share of each class, to within one sound.
            sample_rate: in Hz, to which all are resampled. Default: each keeps its own.
            channels: 1 mixes all channels into one, 2 doubles a single one. Default: as they are.
            seed: of the hash that decides splits, order and shards. 64 bits, signed.
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
            "vocabulary": vocabulary,
            "group_by": group_by,
            "stratify": stratify,
            "sample_rate": sample_rate,
            "channels": channels,
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
