"""AudioExampleGen: convert audio files, in folders or lists, to a dataset.

clips = AudioExampleGen(input_base="clips/", sample_rate=16_000)
clips.outputs["examples"]
"""

import os
from collections.abc import Mapping, Sequence

from tfx.dsl.components.base import executor_spec
from tfx.proto import example_gen_pb2, range_config_pb2

from components.example_gen.settings import AudioSettings
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
    """Executor of AudioExampleGen."""

    settings_class = AudioSettings


class _Driver(FileTreeDriver):
    settings_class = AudioSettings


class AudioExampleGenSpec(FilesExampleGenSpec):
    """The component's parameters."""

    PARAMETERS = {**TFX_PARAMETERS, **parameters_of(AudioSettings)}


class AudioExampleGen(FilesExampleGen):
    """A component that converts audio files to sharded TFRecords of `tf.train.Example`.

    The files are in folders or lists. Every example has `audio`, `sample_rate` in Hz, `num_frames`
    (samples per channel) and `filename` (relative to `input_base`). It also has the `label` of a
    class folder, or the columns of a list. `audio` is a 16-bit WAV file: the original if possible,
    otherwise decoded from WAV, FLAC, OGG or MP3. String labels become int64 ids, which are indices
    in the sorted vocabulary `vocab/<feature>.txt`. Bad files are listed in `rejects.jsonl`.

    Outputs:
        examples: TFX's `Examples`, and a Datum dataset.
    """

    SPEC_CLASS = AudioExampleGenSpec
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
        layout: str | Runtime = AudioSettings.layout,
        columns: Mapping[str, str] | Runtime | None = None,
        file_roots: Sequence[str] | Runtime | None = None,
        ignore: Sequence[str] | Runtime | None = None,
        follow_links: bool | Runtime = AudioSettings.follow_links,
        column_names: Sequence[str] | Runtime | None = None,
        header: bool | Runtime | None = None,
        delimiter: str | Runtime | None = None,
        quoting: str | Runtime = AudioSettings.quoting,
        vocabulary: Sequence[str] | Mapping[str, Sequence[str]] | Runtime | None = None,
        tensors: Mapping[str, str] | Runtime | None = None,
        group_by: str | Runtime | None = None,
        stratify: bool | Runtime = AudioSettings.stratify,
        seed: int | Runtime = AudioSettings.seed,
        num_shards: int | Mapping[str, int] | Runtime | None = None,
        target_shard_bytes: int | Runtime = AudioSettings.target_shard_bytes,
        shard_multiple: int | Runtime = AudioSettings.shard_multiple,
        compression: str | Runtime = AudioSettings.compression,
        max_reject_fraction: float | Runtime = AudioSettings.max_reject_fraction,
        feature_names: Mapping[str, str] | Runtime | None = None,
        base_dataset: str | Runtime | None = None,
        rows: str | Runtime = AudioSettings.rows,
        label_separator: str | Runtime | None = None,
        find_files: str | Runtime = AudioSettings.find_files,
        encoding: str | Runtime = AudioSettings.encoding,
        sample_rate: int | Runtime | None = None,
        channels: int | Runtime | None = None,
    ) -> None:
        """Create the component. `help(AudioExampleGen)` describes every argument."""
        super().__init__(AudioSettings, locals())


document_constructor(AudioExampleGen, AudioSettings, **TFX_ARGUMENTS)
