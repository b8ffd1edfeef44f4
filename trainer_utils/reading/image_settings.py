"""`ImageSettings`: what images are to become, checked; nothing is decoded here.

settings = ImageSettings(image_size=(224, 224), resize="crop", normalize="imagenet")
settings.is_random      # False
"""

import dataclasses
import functools
import importlib.util
from collections.abc import Sequence
from typing import Any

from trainer_utils.format import ConfigError
from trainer_utils.format.settings import (
    Settings,
    documents_settings,
    flag,
    is_int,
    one_of,
    setting,
    where,
)
from trainer_utils.reading.normalizing import (
    DTYPES,
    NORMALIZATIONS,
    Normalization,
    is_normalization,
)

__all__ = ["ImageOptions", "ImageSettings", "is_turbo_installed"]


@functools.cache
def is_turbo_installed() -> bool:
    """Whether the packages of the turbo decoder are there."""
    return all(importlib.util.find_spec(name) for name in ("simplejpeg", "cv2"))


def _is_pair(value: Any, kind: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) == 2
        and all(isinstance(n, kind) and not isinstance(n, bool) and n > 0 for n in value)
    )


def _is_range(value: Any) -> bool:
    return _is_pair(value, (int, float)) and value[0] <= value[1]


def _size(name: str, value: Any) -> tuple[int, int]:
    where(lambda value: _is_pair(value, int), "(height, width) in pixels")(name, value)
    return tuple(value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageOptions(Settings):
    """What `ImageSettings` and `DecodeOptions` have in common."""

    image_size: tuple[int, int] | None = setting(
        None,
        _size,
        "`(height, width)` in pixels to resize images to; needed for batches of images that "
        "differ in size.",
    )
    resize: str = setting(
        "stretch",
        one_of("stretch", "crop", "pad"),
        "how an image of another aspect ratio gets that size: `stretch`, `crop` (the largest part "
        "in the middle) or `pad` (the whole, black around it). All bilinear.",
    )
    channels: int | None = setting(
        None,
        where(lambda value: is_int(value) and value in (1, 3), "1, 3 or None"),
        "channels of images: 1 grey, 3 RGB; None: as the dataset says.",
    )
    flip: bool | None = setting(
        None,
        flag,
        "mirror half of the images; None: with `random_resized_crop`, or as the list says.",
    )
    normalize: str | Sequence[Any] | None = setting(
        None,
        where(
            is_normalization,
            f"{', '.join(NORMALIZATIONS)}, a pair of mean and standard deviation (each a number, "
            "or one for each channel), or None",
        ),
        "pixel values. None: uint8. Else floats: `unit` 0 to 1, `symmetric` -1 to 1, `imagenet`, "
        "or `(mean, standard deviation)` of values of 0 to 255, each a number or one a channel.",
    )
    image_dtype: str = setting(
        "float32", one_of(*DTYPES), "type of these floats: `float32`, `bfloat16` or `float16`."
    )
    dct_scaling: bool = setting(
        True,
        flag,
        "decode JPEGs at 1/2, 1/4 or 1/8 of their size where `image_size` is less than that in "
        "both directions: faster, and free of the aliasing of a bilinear resize to less than half. "
        "False: exactly the pixels that `tf.image.resize` makes of the whole image.",
    )
    crop_area: tuple[float, float] = setting(
        (0.08, 1.0),
        where(lambda value: _is_range(value) and value[1] <= 1, "two rising shares in (0, 1]"),
        "smallest and largest share of the image that a random crop covers, in (0, 1].",
    )
    crop_aspect: tuple[float, float] = setting(
        (3 / 4, 4 / 3),
        where(_is_range, "two rising ratios of width to height"),
        "smallest and largest width / height of the crop.",
    )


@documents_settings
@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageSettings(ImageOptions):
    """What images are to become.

    Raises:
        ConfigError: a setting is not allowed.
    """

    augment: str | None = setting(
        None,
        one_of("random_resized_crop"),
        "`random_resized_crop`: a random part of the image is resized to `image_size`.",
    )
    decoder: str = setting(
        "tensorflow",
        one_of("tensorflow", "turbo"),
        "`tensorflow`, or `turbo`: see `trainer_utils.reading.turbo`.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size is None and (self.augment or self.resize != "stretch"):
            setting = "augment" if self.augment else "resize"
            raise ConfigError(
                f"image_size: expected (height, width) in pixels, since {setting} is set, got None",
                setting="image_size",
            )

    @property
    def size(self) -> tuple[int, int] | None:
        """`image_size`."""
        return self.image_size

    @property
    def dtype(self) -> str:
        """`image_dtype`."""
        return self.image_dtype

    @property
    def flips(self) -> bool:
        """Whether half of the images are mirrored."""
        return bool(self.augment) if self.flip is None else self.flip

    @property
    def is_random(self) -> bool:
        """Whether an image comes out otherwise with another seed."""
        return self.augment is not None or self.flips

    @property
    def keeps_boxes(self) -> bool:
        """Whether relative coordinates of boxes on an image stay right."""
        return not self.is_random and (self.size is None or self.resize == "stretch")

    def decodes_batches(self, formats: Sequence[str] = (), *, label_map: bool = False) -> bool:
        """Whether `decode` takes a batch at once: JPEGs, with the turbo decoder."""
        return self.decoder == "turbo" and not label_map and (not formats or "JPEG" in formats)

    def normalization(self, channels: int) -> Normalization | None:
        """What becomes of the values; None: they stay uint8.

        Raises:
            ConfigError: it is for another number of channels.
        """
        if self.normalize is None:
            return None
        return Normalization.of(self.normalize, channels=channels, dtype=self.dtype)

    @property
    def keeps_whole(self) -> bool:
        """Whether no part of an image is cut off."""
        return self.augment is None and self.resize != "crop"

    @property
    def pads(self) -> bool:
        """Whether there is black around an image of another aspect."""
        return self.augment is None and self.resize == "pad"
