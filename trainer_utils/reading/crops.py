"""Which part of an image is kept, and how much of its detail: geometry only, no pixels.

    box = centre_box([480, 640], (224, 224))        # begin [0, 80], extent [480, 480]
    dct_ratio_index(box.extent, (224, 224))         # 1, which stands for half the scale

A point or an extent is `(2,) int32`: rows first, then columns, in pixels. Vectors, not scalars: an
op costs a microsecond or two, which counts where a whole image takes 600. Of numpy arrays, `(2,)`
or `(images, 2)`, numpy's are made: one geometry for all decoders.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from trainer_utils.reading import raw_ops

__all__ = [
    "DCT_RATIOS",
    "CropBox",
    "Vector",
    "centre_box",
    "dct_ratio_index",
    "inner_extent",
    "is_mirrored",
    "random_box",
]

Vector: TypeAlias = Any  # a tensor, an array of numpy, or two numbers
DCT_RATIOS = (1, 2, 4, 8)  # those of libjpeg's that TensorFlow offers
_ATTEMPTS = 20  # at a crop of the area and aspect drawn; then the whole image is taken


class CropBox(NamedTuple):
    """A part of an image: its upper left corner, its height and width."""

    begin: Vector
    extent: Vector

    def at_scale(self, ratio: Vector) -> "CropBox":
        """The same part of the image decoded at 1 / `ratio`: its corners to the nearest pixel."""
        if isinstance(ratio, int) and ratio == 1:
            return self
        begin = (self.begin + ratio // 2) // ratio
        end = (self.begin + self.extent + ratio // 2) // ratio
        return CropBox(begin, end - begin)


def centre_box(extent: Vector, target: tuple[int, int]) -> CropBox:
    """The largest box in the middle with the aspect of `target`.

    Args:
        extent: of the image.
        target: (height, width).

    Returns:
        A box at least 1 pixel high and wide; of an odd rest, the smaller half comes before it.
    """
    extent, per, times = _alike(extent, target[::-1], target)
    of_aspect = (extent[..., ::-1] * times + per // 2) // per
    kept = _clip(of_aspect, 1, extent)
    return CropBox((extent - kept) // 2, kept)


def random_box(
    shape: Vector, seed: Vector, area: tuple[float, float], aspect: tuple[float, float]
) -> CropBox:
    """A box of a random share of the image, of a random aspect, at a random place.

    Args:
        shape: of the image: `(3,) int32`, height, width, channels.
        seed: `(2,)` of int32 or int64: equal seeds give equal boxes for images of equal size.
        area: smallest and largest share of the image, in (0, 1].
        aspect: smallest and largest width / height.

    Returns:
        The box; the whole image where none such was found in 20 attempts, as in a very long one.

    Source: "Going deeper with convolutions" (Szegedy et al., 2014), the augmentation of Inception.
    """
    begin, extent = raw_ops.random_box(
        shape,
        seed,
        min_object_covered=0.0,
        aspect_ratio_range=aspect,
        area_range=area,
        max_attempts=_ATTEMPTS,
        use_image_if_no_bounding_boxes=True,
    )
    return CropBox(begin[:2], extent[:2])


def inner_extent(extent: Vector, target: tuple[int, int]) -> Vector:
    """The largest extent of an image's own aspect that fits into `target`, at least 1 by 1.

    Source: rounded down as `tf.image.resize_with_pad` does.
    """
    extent, most, times = _alike(extent, target, target[::-1])
    return _clip(extent * times // extent[..., ::-1], 1, most)


def dct_ratio_index(extent: Vector, target: Vector) -> Vector:
    """The place in `DCT_RATIOS` of the largest ratio that leaves more than `target` both ways."""
    extent, target = _alike(extent, target)
    ratios = (extent - 1) // target  # the largest whole ones, of height and width
    fits = _clip(ratios[..., :1] // DCT_RATIOS[1:], 0, 1) * _clip(
        ratios[..., 1:] // DCT_RATIOS[1:], 0, 1
    )
    return fits.sum(axis=-1) if isinstance(fits, np.ndarray) else tf.reduce_sum(fits)


def is_mirrored(seed: tf.Tensor) -> tf.Tensor:
    """Whether the image of this seed, `(2,) int64`, is mirrored: `() bool`, for half of them."""
    # Folded, so that the side does not follow from the crop.
    return raw_ops.random_uniform(seed ^ 1) < 0.5


def _alike(extent: Vector, *others: Vector) -> list[Vector]:
    """All as numpy arrays, or all as tensors."""
    convert = np.asarray if isinstance(extent, np.ndarray) else tf.convert_to_tensor
    return [convert(part) for part in (extent, *others)]


def _clip(value: Vector, least: Vector, most: Vector) -> Vector:
    clip = np.clip if isinstance(value, np.ndarray) else tf.clip_by_value
    return clip(value, least, most)
