"""Which part of an image is kept, and how much of its detail: geometry only, no pixels.

    box = centre_box([480, 640], (224, 224))        # begin [0, 80], extent [480, 480]
    dct_ratio_index(box.extent, (224, 224))         # 1, which stands for half the scale

A point or an extent is `(2,) int32`: rows first, then columns, in pixels. Vectors, not scalars: an
op costs a microsecond or two, which counts where a whole image takes 600. Of numpy arrays, `(2,)`
or `(images, 2)`, numpy's are made, without TensorFlow: one geometry for all decoders.
"""

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import tensorflow as tf

__all__ = [
    "DCT_RATIOS",
    "CropBox",
    "Vector",
    "are_mirrored",
    "centre_box",
    "dct_ratio_index",
    "inner_extent",
    "is_mirrored",
    "random_box",
    "random_boxes",
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
    begin, extent = _draw_box(shape, seed, area, aspect)
    return CropBox(begin[:2], extent[:2])


def random_boxes(
    shapes: "tf.Tensor", seeds: "tf.Tensor", area: tuple[float, float], aspect: tuple[float, float]
) -> CropBox:
    """`random_box` of a fixed number of images, `(images, 3) int32` and `(images, 2)`, at once."""
    import tensorflow as tf

    each = [
        _draw_box(shape, seed, area, aspect)
        for shape, seed in zip(tf.unstack(shapes), tf.unstack(seeds), strict=True)
    ]
    return CropBox(*(tf.stack(part)[:, :2] for part in zip(*each, strict=True)))


def _draw_box(
    shape: Vector, seed: Vector, area: tuple[float, float], aspect: tuple[float, float]
) -> "tuple[tf.Tensor, tf.Tensor]":
    """Begin and extent, `(3,) int32` each."""
    from trainer_utils.reading import raw_ops

    return raw_ops.random_box(
        shape,
        seed,
        min_object_covered=0.0,
        aspect_ratio_range=aspect,
        area_range=area,
        max_attempts=_ATTEMPTS,
        use_image_if_no_bounding_boxes=True,
    )


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
    if isinstance(fits, np.ndarray):
        return fits.sum(axis=-1)
    import tensorflow as tf

    return tf.reduce_sum(fits)


def is_mirrored(seed: "tf.Tensor") -> "tf.Tensor":
    """Whether the image of this seed, `(2,) int64`, is mirrored: `() bool`, for half of them."""
    from trainer_utils.reading import raw_ops

    return raw_ops.random_uniform(_folded(seed)) < 0.5


def are_mirrored(seeds: "tf.Tensor") -> "tf.Tensor":
    """`is_mirrored` of a fixed number of seeds, `(images, 2) int64`, at once: `(images,) bool`."""
    import tensorflow as tf

    from trainer_utils.reading import raw_ops

    return tf.stack([raw_ops.random_uniform(seed) for seed in tf.unstack(_folded(seeds))]) < 0.5


def _folded(seed: "tf.Tensor") -> "tf.Tensor":
    """Another seed, so that the side does not follow from the crop."""
    return seed ^ 1


def _alike(extent: Vector, *others: Vector) -> list[Vector]:
    """All as numpy arrays, or all as tensors."""
    if isinstance(extent, np.ndarray):
        return [np.asarray(part) for part in (extent, *others)]
    import tensorflow as tf

    return [tf.convert_to_tensor(part) for part in (extent, *others)]


def _clip(value: Vector, least: Vector, most: Vector) -> Vector:
    if isinstance(value, np.ndarray):
        return np.clip(value, least, most)
    import tensorflow as tf

    return tf.clip_by_value(value, least, most)
