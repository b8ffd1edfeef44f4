"""The steps of AudioExampleGen: what is its own of the conversion of files.

conversion = AudioConversion.of(exec_properties, InputSelection(base="clips/"), runner)
"""

from components.audio_example_gen.settings import AudioSettings
from components.example_gen.file_conversion import FileConversion
from components.example_gen.settings import LISTS

__all__ = ["AudioConversion"]


class AudioConversion(FileConversion):
    """Sounds, and lists of them."""

    unit, media = "sounds", "audio"
    settings_class = AudioSettings
    looked_for = f"a list of sounds ({', '.join(LISTS)}), and sounds in folders"
