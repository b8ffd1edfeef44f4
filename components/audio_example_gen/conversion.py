"""The steps of AudioExampleGen: what is its own of the conversion of files.

conversion = AudioConversion.of(exec_properties, InputSelection(base="clips/"), make_pipeline)
"""

from collections.abc import Iterable

from components.audio_example_gen.settings import AudioSettings
from components.example_gen.file_conversion import FileConversion
from components.example_gen.settings import LISTS
from components.example_gen.simple_layouts import names_at_top

__all__ = ["AudioConversion"]


class AudioConversion(FileConversion):
    """Sounds, and lists of them."""

    unit, media = "sounds", "audio"
    settings_class = AudioSettings

    def describe_search(self, names: Iterable[str]) -> str:  # noqa: D102
        return (
            f"Looked for a list of sounds ({', '.join(LISTS)}), and sounds in folders; "
            f"at its top: {names_at_top(names)}."
        )
