"""AudioExampleGen: convert audio files, in folders or lists, to a dataset.

clips = AudioExampleGen(input_base="clips/", sample_rate=16_000)
clips.outputs["examples"]
"""

import os
from typing import TYPE_CHECKING

from tfx.dsl.components.base import executor_spec

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
from components.tfx.keywords import AudioExampleGenKeywords

if TYPE_CHECKING:
    from typing_extensions import Unpack


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
        **arguments: "Unpack[AudioExampleGenKeywords]",
    ) -> None:
        """Create the component. `help(AudioExampleGen)` describes every argument."""
        super().__init__(AudioSettings, {"input_base": input_base, **arguments})


document_constructor(AudioExampleGen, AudioSettings, AudioExampleGenKeywords, **TFX_ARGUMENTS)
