"""`ImageSettings`: what images are to become, checked; nothing is decoded here.

settings = ImageSettings(size=(224, 224), resize="crop", normalize="imagenet")
settings.is_random      # False
"""

import dataclasses
import functools
import importlib.util
from collections.abc import Sequence
from typing import Any

from trainer_utils.format import ConfigError
from trainer_utils.reading.normalizing import (
    DTYPES,
    NORMALIZATIONS,
    Normalization,
    is_normalization,
)

__all__ = ["ImageSettings", "is_turbo_installed"]

_RESIZES = ("stretch", "crop", "pad")
_AUGMENTS = ("random_resized_crop",)
_DECODERS = ("tensorflow", "turbo")


@functools.cache
def is_turbo_installed() -> bool:
    """Whether the packages of the turbo decoder are there."""
    return all(importlib.util.find_spec(name) for name in ("simplejpeg", "cv2"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageSettings:
    """What images are to become.

    Args:
        size: `(height, width)` in pixels; None keeps each image's own.
        resize: how an image of another aspect gets that size: `stretch`, `crop` (the largest
            part in the middle) or `pad` (the whole, black around it). All bilinear.
        channels: 1 grey, 3 RGB; None: as the dataset says.
        augment: `random_resized_crop`: a random part of the image is resized to `size`.
        flip: mirrors half of the images; None: where there is `augment`.
        normalize: None: uint8. Else floats: `unit` 0 to 1, `symmetric` -1 to 1, `imagenet`, or
            `(mean, standard deviation)` of values of 0 to 255, each a number or one a channel.
        dtype: of these floats: float32, bfloat16 or float16.
        dct_scaling: decode JPEGs at 1/2, 1/4 or 1/8 where `size` is less than that in both
            directions: faster, and free of the aliasing of a bilinear resize to less than half.
            False: exactly the pixels that `tf.image.resize` makes of the whole image.
        crop_area: smallest and largest share of the image that a random crop covers, in (0, 1].
        crop_aspect: its smallest and largest width / height.
        decoder: `tensorflow`, or `turbo`: see `trainer_utils.reading.turbo`.

    Raises:
        ConfigError: a setting is not allowed.
    """

    size: tuple[int, int] | None = None
    resize: str = "stretch"
    channels: int | None = None
    augment: str | None = None
    flip: bool | None = None
    normalize: str | Sequence[Any] | None = None
    dtype: str = "float32"
    dct_scaling: bool = True
    crop_area: tuple[float, float] = (0.08, 1.0)
    crop_aspect: tuple[float, float] = (3 / 4, 4 / 3)
    decoder: str = "tensorflow"

    def __post_init__(self) -> None:
        is_size = self.size is None or _is_pair(self.size, int)
        is_area = _is_range(self.crop_area) and self.crop_area[1] <= 1
        rules = {
            "image_size": (self.size, is_size, "(height, width) in pixels"),
            "resize": (self.resize, self.resize in _RESIZES, f"one of {', '.join(_RESIZES)}"),
            "channels": (self.channels, _is_any_of(self.channels, None, 1, 3), "1, 3 or None"),
            "augment": (
                self.augment,
                self.augment in (None, *_AUGMENTS),
                f"{', '.join(_AUGMENTS)} or None",
            ),
            "flip": (self.flip, _is_any_of(self.flip, None, True, False), "True, False or None"),
            "normalize": (
                self.normalize,
                is_normalization(self.normalize),
                f"{', '.join(NORMALIZATIONS)}, a pair of mean and standard deviation "
                "(each a number, or one for each channel), or None",
            ),
            "image_dtype": (self.dtype, self.dtype in DTYPES, f"one of {', '.join(DTYPES)}"),
            "decoder": (self.decoder, self.decoder in _DECODERS, f"one of {', '.join(_DECODERS)}"),
            "dct_scaling": (self.dct_scaling, isinstance(self.dct_scaling, bool), "a bool"),
            "crop_area": (self.crop_area, is_area, "two rising shares in (0, 1]"),
            "crop_aspect": (
                self.crop_aspect,
                _is_range(self.crop_aspect),
                "two rising ratios of width to height",
            ),
        }
        for name, (value, is_allowed, rule) in rules.items():
            if not is_allowed:
                raise ConfigError.of(name, value, allowed=rule)
        if self.size is not None:
            object.__setattr__(self, "size", tuple(self.size))
        if self.size is None and (self.augment or self.resize != "stretch"):
            setting = "augment" if self.augment else "resize"
            raise ConfigError(
                f"image_size: expected (height, width) in pixels, since {setting} is set, got None",
                setting="image_size",
            )

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


def _is_any_of(value: object, *allowed: object) -> bool:
    """Not by equality, in which True is 1."""
    return any(value is one for one in allowed)


def _is_pair(value: Any, kind: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) == 2
        and all(isinstance(n, kind) and not isinstance(n, bool) and n > 0 for n in value)
    )


def _is_range(value: Any) -> bool:
    return _is_pair(value, (int, float)) and value[0] <= value[1]
