"""The engine of all ExampleGens of files, for audio."""

from components.audio_example_gen.conversion import make_conversion
from components.example_gen.executor import ExampleGenExecutor

__all__ = ["Executor"]


class Executor(ExampleGenExecutor):
    """Executor of AudioExampleGen."""

    producer = "AudioExampleGen"
    make_conversion = staticmethod(make_conversion)
