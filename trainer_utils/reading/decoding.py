"""`DecodeOptions`: what the features of an example are to become.

options = DecodeOptions(image_size=(224, 224), augment="random_resized_crop", audio_seconds=2)
options.images, options.audio       # checked, as ImageSettings and AudioReading
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from trainer_utils.format import ConfigError
from trainer_utils.format.spelling import checks_names
from trainer_utils.reading.audio import AudioReading
from trainer_utils.reading.augmentation.chain import Augmentation, Chain
from trainer_utils.reading.image_settings import ImageSettings, is_turbo_installed

__all__ = ["DECODERS", "DecodeOptions"]

DECODERS = ("auto", "tensorflow", "turbo")


@checks_names
@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodeOptions:
    """How features are decoded.

    Args:
        image_size: `(height, width)` in pixels to resize images to; needed for batches of images
            that differ in size.
        resize: how an image of another aspect ratio gets that size: `stretch`, `crop` (the
            largest part in the middle) or `pad` (the whole, black around it).
        channels: channels of images: 1 grey, 3 RGB; None: as the dataset says.
        augment: a different change of each image every epoch: `random_resized_crop`, or a list of
            operations, each a name or a tuple of it and its numbers:
            `["random_resized_crop", "flip", ("colour", 0.4), ("mixup", 0.2)]`. There are
            `random_resized_crop`, `flip`, `colour`, `rotation`, `grey`, `blur`, `cutout`,
            `randaugment`, `mixup` and `cutmix`.
        flip: mirror half of the images; None: with `random_resized_crop`, or as the list says.
        normalize: pixel values. None: uint8. Else floats: `unit` 0 to 1, `symmetric` -1 to 1,
            `imagenet`, or `(mean, standard deviation)` of values of 0 to 255.
        image_dtype: type of these floats: `float32`, `bfloat16` or `float16`.
        dct_scaling: decode JPEGs at 1/2, 1/4 or 1/8 of their size where `image_size` is smaller.
        crop_area: smallest and largest share of the image that a random crop covers, in (0, 1].
        crop_aspect: smallest and largest width / height of the crop.
        audio_seconds: length that sounds are cut or padded with silence to; None keeps theirs.
        decoder: decoder of images: `turbo` (simplejpeg and OpenCV, whole batches in threads; needs
            the extra `tfx-shards[turbo]`), `tensorflow`, or `auto`: turbo where it is installed.
            Their pixels are the same within one level of 255.
        ragged: features of variable length come as `tf.RaggedTensor`; else they are padded.

    Raises:
        ConfigError: a setting is not allowed.
    """

    image_size: tuple[int, int] | None = None
    resize: str = "stretch"
    channels: int | None = None
    augment: Chain = None
    flip: bool | None = None
    normalize: str | Sequence[Any] | None = None
    image_dtype: str = "float32"
    dct_scaling: bool = True
    crop_area: tuple[float, float] = (0.08, 1.0)
    crop_aspect: tuple[float, float] = (3 / 4, 4 / 3)
    audio_seconds: float | None = None
    decoder: str = "auto"
    ragged: bool = False

    def __post_init__(self) -> None:
        _ = self.images, self.audio  # which check their own
        if not isinstance(self.ragged, bool):
            raise ConfigError.of("ragged", self.ragged, allowed="a bool")

    @functools.cached_property
    def images(self) -> ImageSettings:
        """What images are to become."""
        return ImageSettings(
            size=self.image_size,
            resize=self.resize,
            channels=self.channels,
            augment="random_resized_crop" if self.augmentation.crops else None,
            flip=self.augmentation.flips,
            normalize=self.normalize,
            dtype=self.image_dtype,
            dct_scaling=self.dct_scaling,
            crop_area=self.crop_area,
            crop_aspect=self.crop_aspect,
            decoder=self._decoder,
        )

    @functools.cached_property
    def augmentation(self) -> Augmentation:
        """The chain of `augment`, as it is carried out."""
        return Augmentation.of(self.augment, flip=self.flip)

    @property
    def _decoder(self) -> str:
        """The one that is taken."""
        if self.decoder not in DECODERS:
            raise ConfigError.of("decoder", self.decoder, allowed=f"one of {', '.join(DECODERS)}")
        if self.decoder == "turbo" and not is_turbo_installed():
            raise ConfigError(
                "decoder: expected 'auto' or 'tensorflow' where simplejpeg and OpenCV are not "
                "installed, got 'turbo'. Install them: pip install 'tfx-shards[turbo]'.",
                setting="decoder",
            )
        if self.decoder == "auto":
            return "turbo" if is_turbo_installed() and self.decodes_here else "tensorflow"
        return self.decoder

    @property
    def decodes_here(self) -> bool:
        """Whether images are decoded in this process, where Python is."""
        return True

    @functools.cached_property
    def audio(self) -> AudioReading:
        """What sounds are to become."""
        return AudioReading(seconds=self.audio_seconds)
