"""`ImageSettings`: what images are to become, checked; nothing is decoded here.

settings = ImageSettings(image_size=(224, 224), augment=["random_resized_crop", "flip"])
settings.is_random      # True
"""

import dataclasses
import functools
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
from trainer_utils.format.spelling import checks_names
from trainer_utils.reading.augmentation.chain import Augmentation, Chain
from trainer_utils.reading.normalizing import (
    DTYPES,
    NORMALIZATIONS,
    Normalization,
    is_normalization,
)

MOST_VALUES = 1 << 29
"""Of an image: TensorFlow takes no more, either."""


def _is_pair(value: Any, kind: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) == 2
        and all(isinstance(n, kind) and not isinstance(n, bool) and n > 0 for n in value)
    )


def _is_range(value: Any) -> bool:
    return _is_pair(value, (int, float)) and value[0] <= value[1]


def _is_image_size(value: Any) -> bool:
    return _is_pair(value, int) and 3 * value[0] * value[1] < MOST_VALUES


def _size(name: str, value: Any) -> tuple[int, int]:
    rule = f"(height, width) in pixels, with three channels fewer than {MOST_VALUES:,} values"
    where(_is_image_size, rule)(name, value)
    return tuple(value)


def check_chain(name: str, value: Chain) -> Chain:
    """The rule of `augment=`."""
    Augmentation.of(value)
    return value


@checks_names
@documents_settings
@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageOptions(Settings):
    """How images are decoded, beside their `image_size` and `augment`.

    Raises:
        ConfigError: a setting is not allowed.
    """

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
    """What images are to become.

    Raises:
        ConfigError: a setting is not allowed.
    """

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
        if self.image_size is None and (self.crops or self.resize != "stretch"):
            setting = "augment" if self.crops else "resize"
            raise ConfigError(
                f"image_size: expected (height, width) in pixels, since {setting} is set, got None",
                setting="image_size",
            )

    @functools.cached_property
    def augmentation(self) -> Augmentation:
        """The chain of `augment`, as it is carried out."""
        return Augmentation.of(self.augment)

    @property
    def crops(self) -> bool:
        """Whether a random part of each image is taken."""
        return self.augmentation.crops

    @property
    def is_random(self) -> bool:
        """Whether an image comes out otherwise with another key."""
        return self.augmentation.is_random

    @property
    def keeps_boxes(self) -> bool:
        """Whether relative coordinates of boxes on an image stay right, but for mirroring."""
        return not self.crops and (self.image_size is None or self.resize == "stretch")

    @property
    def pads(self) -> bool:
        """Whether there is black around an image of another aspect."""
        return not self.crops and self.resize == "pad"

    def normalization(self, channels: int) -> Normalization | None:
        """What becomes of the values; None: they stay uint8.

        Raises:
            ConfigError: it is for another number of channels, or has a type that is not installed.
        """
        if self.normalize is None:
            return None
        return Normalization.of(self.normalize, channels=channels, dtype=self.dtype)
