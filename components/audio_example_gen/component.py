"""The AudioExampleGen component: its interface.

sounds = AudioExampleGen(input_base="clips/", sample_rate=16_000)
sounds.outputs["examples"]
"""

from tfx.dsl.components.base import executor_spec

from components.audio_example_gen.conversion import AudioConversion
from components.audio_example_gen.executor import Executor
from components.audio_example_gen.settings import AudioSettings
from components.common.component import parameters_of, takes_settings
from components.example_gen.component import TFX_PARAMETERS, FilesExampleGen, FilesExampleGenSpec
from components.example_gen.driver import FileTreeDriver

__all__ = ["AudioExampleGen"]


class AudioExampleGenSpec(FilesExampleGenSpec):
    """The component's parameters."""

    PARAMETERS = {**TFX_PARAMETERS, **parameters_of(AudioSettings)}


class _Driver(FileTreeDriver):
    conversion_class = AudioConversion


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
    __init__ = takes_settings(AudioSettings)(FilesExampleGen.__init__)
