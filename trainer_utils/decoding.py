"""`DecodeOptions`: what the features of an example are to become.

options = DecodeOptions(image_size=(224, 224), augment="random_resized_crop", audio_seconds=2)
options.images, options.audio       # checked, as ImageReading and AudioReading
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from trainer_utils.audio import AudioReading
from trainer_utils.format import ConfigError
from trainer_utils.images import ImageReading
from trainer_utils.setting_names import checks_names

__all__ = ["DecodeOptions"]


@checks_names
@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodeOptions:
    """How features are decoded.

    Args:
        image_size: `(height, width)` in pixels to resize images to; needed for batches of images
            that differ in size.
        resize: how an image of another aspect gets that size: `stretch`, `crop` (the largest part
            in the middle) or `pad` (the whole, black around it).
        channels: of images: 1 grey, 3 RGB; None as the dataset says.
        augment: `random_resized_crop`: another part of each image every epoch.
        flip: mirrors half of the images; None: where there is `augment`.
        normalize: of images: None uint8. Else float32: `unit` 0 to 1, `symmetric` -1 to 1,
            `imagenet`, or `(mean, standard deviation)` of values of 0 to 255.
        dct_scaling: decode JPEGs at 1/2, 1/4 or 1/8 where less than that is asked for.
        crop_area: smallest and largest share of the image that a random crop covers, in (0, 1].
        crop_aspect: its smallest and largest width / height.
        audio_seconds: that sounds are cut or, with silence, filled up to; None keeps lengths.
        ragged: features of variable length come as `tf.RaggedTensor`; else they are padded.

    Raises:
        ConfigError: a setting is not allowed.
    """

    image_size: tuple[int, int] | None = None
    resize: str = "stretch"
    channels: int | None = None
    augment: str | None = None
    flip: bool | None = None
    normalize: str | Sequence[Any] | None = None
    dct_scaling: bool = True
    crop_area: tuple[float, float] = (0.08, 1.0)
    crop_aspect: tuple[float, float] = (3 / 4, 4 / 3)
    audio_seconds: float | None = None
    ragged: bool = False

    def __post_init__(self) -> None:
        _ = self.images, self.audio  # which check their own
        if not isinstance(self.ragged, bool):
            raise ConfigError(f"ragged: expected a bool, got {self.ragged!r}")

    @functools.cached_property
    def images(self) -> ImageReading:
        """What images are to become."""
        return ImageReading(
            size=self.image_size,
            resize=self.resize,
            channels=self.channels,
            augment=self.augment,
            flip=self.flip,
            normalize=self.normalize,
            dct_scaling=self.dct_scaling,
            crop_area=self.crop_area,
            crop_aspect=self.crop_aspect,
        )

    @functools.cached_property
    def audio(self) -> AudioReading:
        """What sounds are to become."""
        return AudioReading(seconds=self.audio_seconds)
