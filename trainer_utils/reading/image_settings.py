"""`ImageSettings`: what images and their values are to become, checked; nothing is decoded here.

settings = ImageSettings(image_size=(224, 224), augment=["random_resized_crop", "flip"])
settings.normalization(channels=3)      # None: they stay uint8
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

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
from trainer_utils.reading.augmentation import Augmentation, Chain

MOST_VALUES = 1 << 29
"""Of an image: TensorFlow takes no more, either."""


DTYPES = ("float32", "bfloat16", "float16")
# By name: mean and standard deviation, of all channels or of each.
NORMALIZATIONS: Mapping[str, tuple[Any, Any]] = {
    "unit": (0.0, 255.0),
    "symmetric": (127.5, 127.5),
    # Source: torchvision's constants for ImageNet, times 255.
    "imagenet": ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Normalization:
    """(value - mean) / deviation, each `(1,)` or `(channels,) float64`."""

    mean: npt.NDArray[np.float64]
    deviation: npt.NDArray[np.float64]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, given: Any, *, channels: int, dtype: str) -> "Normalization":
        """That of a name, or of `(mean, deviation)`, for so many channels."""
        pair: Any = NORMALIZATIONS[given] if isinstance(given, str) else given
        mean, deviation = (np.asarray(part, np.float64) for part in pair)
        if {mean.size, deviation.size} - {1, channels}:
            raise ConfigError.of("normalize", given, allowed=f"numbers for {channels} channels")
        return cls(mean.reshape(-1), deviation.reshape(-1), _dtype(dtype))

    def write(self, pixels: npt.NDArray[np.uint8], *, to: npt.NDArray[Any]) -> None:
        """Of `(height, width, channels) uint8` into an array of that shape and of `dtype`.

        There are 256 values, so it is a look-up in one pass; of channels that differ, in float32,
        OpenCV's own multiplication takes two thirds of its time (85 and 126 us of 224 x 224).
        """
        import cv2

        table = self._table
        if table.shape[-1] == 1:  # all channels are alike, which takes less
            pixels, to = pixels.reshape(len(pixels), -1), to.reshape(len(to), -1)
        elif self.dtype == np.float32:
            np.copyto(to, pixels)
            cv2.transform(to, self._matrix, to)
            return
        cv2.LUT(pixels, table, to.view(table.dtype))

    @functools.cached_property
    def _matrix(self) -> npt.NDArray[np.float64]:
        """What makes a pixel of itself and a 1 after it: `(channels, channels + 1)`."""
        channels = max(self.mean.size, self.deviation.size)
        offsets = np.broadcast_to(-self.mean / self.deviation, channels)
        scales = np.broadcast_to(1 / self.deviation, channels)
        return np.column_stack([np.diag(scales), offsets])

    @functools.cached_property
    def _table(self) -> npt.NDArray[Any]:
        """What each value becomes: `(1, 256, 1 or channels)`.

        Floats of 16 bits as integers of the same bits, since OpenCV does not know them.
        """
        floats = ((np.arange(256)[:, np.newaxis] - self.mean) / self.deviation).astype(self.dtype)
        table = floats if floats.itemsize == 4 else floats.view(np.uint16)
        return np.ascontiguousarray(table[np.newaxis])


def _dtype(name: str) -> np.dtype[Any]:
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError as error:
        raise ConfigError.of(
            "dtype",
            name,
            allowed="float32 or float16 where ml_dtypes is not installed",
            advice="pip install ml_dtypes, which TensorFlow and jax bring",
        ) from error
    return np.dtype(ml_dtypes.bfloat16)


def is_normalization(value: object) -> bool:
    """Whether `Normalization.of` takes it."""
    if value is None or isinstance(value, str):
        return value is None or value in NORMALIZATIONS
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return False
    try:
        mean, deviation = (np.asarray(part, np.float64) for part in value)
    except (TypeError, ValueError):
        return False
    are_shaped = all(part.shape in ((), (1,), (3,)) for part in (mean, deviation))
    return are_shaped and bool(np.isfinite(mean).all() and (deviation > 0).all())


def _is_pair(value: Any, kind: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) == 2
        and all(isinstance(n, kind) and not isinstance(n, bool) and n > 0 for n in value)
    )


def _is_range(value: Any) -> bool:
    return _is_pair(value, (int, float)) and value[0] <= value[1]


def _size(name: str, value: Any) -> tuple[int, int]:
    if not _is_pair(value, int) or 3 * value[0] * value[1] >= MOST_VALUES:
        rule = f"(height, width) in pixels, with three channels fewer than {MOST_VALUES:,} values"
        raise ConfigError.of(name, value, allowed=rule)
    return tuple(value)


def check_chain(name: str, value: Chain) -> Chain:
    """The rule of `augment=`."""
    Augmentation.of(value)
    return value


@documents_settings
@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageOptions(Settings):
    """How images are decoded, beside their `image_size` and `augment`."""

    resize: str = setting(
        "stretch",
        one_of("stretch", "crop", "pad"),
        "how an image of another aspect ratio gets that size: `stretch`, `crop` (the largest part "
        "in the middle) or `pad` (the whole, black around it). All bilinear.",
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
    dtype: str = setting(
        "float32", one_of(*DTYPES), "type of these floats: `float32`, `bfloat16` or `float16`."
    )
    channels: int | None = setting(
        None,
        where(lambda value: is_int(value) and value in (1, 3), "1, 3 or None"),
        "channels of images: 1 grey, 3 RGB; None: as the dataset says.",
    )
    dct_scaling: bool = setting(
        True,
        flag,
        "decode JPEGs at 1/2, 1/4 or 1/8 of their size where `image_size` is less than that in "
        "both directions: faster, and free of the aliasing of a bilinear resize to less than half. "
        "False: the pixels that `tf.image.resize` makes of the whole image, within a level.",
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
    """What images are to become."""

    image_size: tuple[int, int] | None = setting(
        None,
        _size,
        "`(height, width)` in pixels to resize images to; needed for batches of images that "
        "differ in size.",
    )
    augment: Chain = setting(
        None,
        check_chain,
        "a different change of each image every epoch: `random_resized_crop`, which mirrors half "
        "of them too, or a list of operations, each a name, a tuple of it and its numbers, or a "
        "function `f(image, rng) -> image` of numpy: "
        '`["random_resized_crop", "flip", ("colour", 0.4), ("mixup", 0.2)]`. There are '
        "`random_resized_crop`, `flip`, `colour`, `rotation`, `grey`, `blur`, `cutout`, "
        "`randaugment`, `mixup` and `cutmix`.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        crops = self.augmentation.crops
        if self.image_size is None and (crops or self.resize != "stretch"):
            setting = "augment" if crops else "resize"
            rule = f"(height, width) in pixels, since {setting} is set"
            raise ConfigError.of("image_size", None, allowed=rule)

    @functools.cached_property
    def augmentation(self) -> Augmentation:
        """The chain of `augment`, as it is carried out."""
        return Augmentation.of(self.augment)

    @property
    def keeps_boxes(self) -> bool:
        """Whether relative coordinates of boxes on an image stay right, but for mirroring."""
        is_whole = self.image_size is None or self.resize == "stretch"
        return is_whole and not self.augmentation.crops

    @property
    def pads(self) -> bool:
        """Whether there is black around an image of another aspect."""
        return not self.augmentation.crops and self.resize == "pad"

    def normalization(self, channels: int) -> Normalization | None:
        """What becomes of the values; None: they stay uint8."""
        if self.normalize is None:
            return None
        return Normalization.of(self.normalize, channels=channels, dtype=self.dtype)
