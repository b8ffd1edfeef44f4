"""The engine of all ExampleGens of files, for audio."""

from collections.abc import Iterable

from components.audio_example_gen.settings import AudioSettings
from components.common.settings import ExecProperties
from components.example_gen.executor import ExampleGenExecutor
from components.example_gen.file_conversion import FileConversion
from components.example_gen.settings import LISTS
from components.example_gen.simple_layouts import names_at_top

__all__ = ["AudioConversion", "Executor"]


class Executor(ExampleGenExecutor):
    """Executor of AudioExampleGen."""

    producer = "AudioExampleGen"

    def conversion(self, exec_properties: ExecProperties) -> FileConversion:  # noqa: D102
        return AudioConversion(exec_properties, self._make_beam_pipeline)


class AudioConversion(FileConversion):
    """Sounds, and lists of them."""

    unit, media = "sounds", "audio"
    settings_class = AudioSettings

    def describe_search(self, names: Iterable[str]) -> str:  # noqa: D102
        return (
            f"Looked for a list of sounds ({', '.join(LISTS)}), and sounds in folders; "
            f"at its top: {names_at_top(names)}."
        )
