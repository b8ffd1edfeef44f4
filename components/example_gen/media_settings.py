"""The settings of ExampleGens whose examples hold files: images, audio.

MediaSettings(images=ImageOptions(resize_shorter_side=256), audio=AudioOptions(sample_rate=16_000))
"""

import dataclasses

from components.example_gen.settings import ExampleGenSettings
from components.media.options import AudioOptions, ImageOptions
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.settings import group

__all__ = ["MediaSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MediaSettings(ExampleGenSettings):
    """Those of all ExampleGens, and what becomes of images and sounds.

    Subclasses say which of the latter can be set.
    """

    images: ImageOptions = group(ImageOptions, only=())
    audio: AudioOptions = group(AudioOptions, only=())

    def for_manifest(self) -> JsonObject:
        """The settings as a manifest keeps them, those of images and sounds among them."""
        config = super().for_manifest()
        images, audio = config.pop("images"), config["audio"]
        config.update(images)
        config.update(audio)  # which stays by itself too, as in every manifest so far
        return config
