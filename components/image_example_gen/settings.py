"""The settings of ImageExampleGen, checked where they are made.

ImageSettings(target_shard_bytes=64 << 20, seed=7, vocabulary=["cat", "dog"])
"""

import dataclasses

from components.example_gen.media_settings import MediaSettings
from components.image_example_gen.layouts import LAYOUTS
from components.media.images import ImageOptions

__all__ = ["ImageSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageSettings(MediaSettings):
    """Those of all media, and the layouts of images."""

    LAYOUTS = LAYOUTS
    OPTION_NAMES = (*(field.name for field in dataclasses.fields(ImageOptions)), "sample_rate")
