"""The engine of all ExampleGens of files, for audio."""

from components.audio_example_gen.conversion import AudioConversion
from components.example_gen.executor import ExampleGenExecutor

__all__ = ["Executor"]


class Executor(ExampleGenExecutor):
    """Executor of AudioExampleGen."""

    producer = "AudioExampleGen"
    conversion_class = AudioConversion
