"""The settings of AudioExampleGen, checked where they are made.

AudioSettings(audio=AudioOptions(sample_rate=16_000), vocabulary=["yes", "no"])
"""

import dataclasses

from components.example_gen.media_settings import MediaSettings
from components.example_gen.simple_layouts import LISTS
from components.media.audio import AudioOptions

__all__ = ["AudioSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AudioSettings(MediaSettings):
    """Those of all media, and the layouts of audio."""

    LAYOUTS = ("auto", "folder", *LISTS)
    OPTION_NAMES = tuple(field.name for field in dataclasses.fields(AudioOptions))
