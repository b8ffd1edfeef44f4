"""The settings of ExampleGens whose examples hold files: images, audio.

MediaSettings(images=ImageOptions(resize_shorter_side=256), audio=AudioOptions(sample_rate=16_000))
"""

import dataclasses
from collections.abc import Mapping

from components.common.settings import is_text
from components.example_gen.settings import ExampleGenSettings
from components.media.options import AudioOptions, ImageOptions
from trainer_utils.format import ConfigError
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.settings import group, setting

__all__ = ["MediaSettings"]


def _names_by_feature(name: str, given: object) -> object:
    if (
        not isinstance(given, Mapping)
        or not all(map(is_text, (*given, *given.values())))
        or len({*given.values()}) < len(given)
    ):
        raise ConfigError.of(name, given, allowed="different names by feature")
    return given


@dataclasses.dataclass(frozen=True, kw_only=True)
class MediaSettings(ExampleGenSettings):
    """Those of all ExampleGens, and what becomes of images and sounds.

    Subclasses say which of the latter can be set.
    """

    feature_names: Mapping[str, str] = setting(
        {},
        _names_by_feature,
        "other names for features, by those that they have: `{'image': 'image/encoded', 'label': "
        "'image/class/label'}`. All other settings know them by the ones that they have.",
    )
    images: ImageOptions = group(ImageOptions, only=())
    audio: AudioOptions = group(AudioOptions, only=())

    @property
    def layout_names(self) -> dict[str, str]:
        """Names of folders and files that replace those of the layouts; of sounds none."""
        return {}

    def for_manifest(self) -> JsonObject:
        """The settings as a manifest keeps them, those of images and sounds among them."""
        config = super().for_manifest()
        if not self.feature_names:  # as before there were any
            del config["feature_names"]
        images, audio = config.pop("images"), config["audio"]
        config.update(images)
        config.update(audio)  # which stays by itself too, as in every manifest so far
        return config
