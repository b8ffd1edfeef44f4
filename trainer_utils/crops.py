"""Which part of an image is kept, and how much of its detail: geometry only, no pixels.

    box = centre_box([480, 640], (224, 224))        # begin [0, 80], extent [480, 480]
    dct_ratio_index(box.extent, (224, 224))         # 1, which stands for half the scale

A point or an extent is `(2,) int32`: rows first, then columns, in pixels. Vectors, not scalars: an
op costs a microsecond or two, which counts where a whole image takes 600.
"""

from typing import Any, NamedTuple

import tensorflow as tf

__all__ = ["DCT_RATIOS", "Box", "centre_box", "dct_ratio_index", "inner_extent", "random_box"]

DCT_RATIOS = (1, 2, 4, 8)  # those of libjpeg's that TensorFlow offers
_ATTEMPTS = 20  # at a crop of the area and aspect drawn; then the whole image is taken


class Box(NamedTuple):
    """A part of an image: its upper left corner, its height and width."""

    begin: Any
    extent: Any

    def at_scale(self, ratio: int) -> "Box":
        """The same part of the image decoded at 1 / `ratio`: its corners to the nearest pixel."""
        if ratio == 1:
            return self
        begin = (self.begin + ratio // 2) // ratio
        end = (self.begin + self.extent + ratio // 2) // ratio
        return Box(begin, end - begin)


def centre_box(extent: Any, target: tuple[int, int]) -> Box:
    """The largest box in the middle with the aspect of `target`.

    Args:
        extent: of the image.
        target: (height, width).

    Returns:
        A box at least 1 pixel high and wide; of an odd rest, the smaller half comes before it.
    """
    extent = tf.convert_to_tensor(extent)
    per = tf.constant(target[::-1])
    of_aspect = (extent[::-1] * tf.constant(target) + per // 2) // per
    kept = tf.clip_by_value(of_aspect, 1, extent)
    return Box((extent - kept) // 2, kept)


def random_box(
    shape: Any, seed: Any, area: tuple[float, float], aspect: tuple[float, float]
) -> Box:
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
    begin, extent, _ = tf.image.stateless_sample_distorted_bounding_box(
        shape,
        tf.zeros((1, 0, 4)),
        seed=seed,
        min_object_covered=0.0,
        aspect_ratio_range=aspect,
        area_range=area,
        max_attempts=_ATTEMPTS,
        use_image_if_no_bounding_boxes=True,
    )
    return Box(begin[:2], extent[:2])


def inner_extent(extent: Any, target: tuple[int, int]) -> tf.Tensor:
    """The largest extent of an image's own aspect that fits into `target`, at least 1 by 1.

    Source: rounded down as `tf.image.resize_with_pad` does.
    """
    extent = tf.convert_to_tensor(extent)
    of_aspect = extent * tf.constant(target[::-1]) // extent[::-1]
    return tf.clip_by_value(of_aspect, 1, tf.constant(target))


def dct_ratio_index(extent: Any, target: Any) -> tf.Tensor:
    """The place in `DCT_RATIOS` of the largest ratio that leaves more than `target` both ways."""
    smallest = tf.constant(DCT_RATIOS[1:])[:, tf.newaxis] * target
    return tf.reduce_sum(tf.cast(tf.reduce_all(smallest < extent, axis=1), tf.int32))
