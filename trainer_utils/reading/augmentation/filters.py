"""What is done to each pixel of one image with its neighbours.

    blur(pixels, sigma, most=2.0)
    enhance_sharpness(pixels, 1.9)

Images are `(height, width, channels) uint8`, and so are the results.
"""

import math

import tensorflow as tf

from trainer_utils.reading.augmentation.colours import blend

__all__ = ["blur", "enhance_sharpness"]

_REACH = 3  # deviations of a Gaussian; what is beyond is 0.3% of it


def blur(pixels: tf.Tensor, sigma: tf.Tensor, *, most: float) -> tf.Tensor:
    """Smoothed by a Gaussian; what is beyond an edge is as the edge.

    Args:
        pixels: of one image.
        sigma: its standard deviation in pixels, `() float32` above 0.
        most: the largest that may come.
    """
    radius = math.ceil(_REACH * most)
    # In float64, so that what of an exponential is rounded otherwise elsewhere is lost.
    distance = tf.range(radius + 1, dtype=tf.float64)
    weights = tf.exp(-tf.square(distance) / (2 * tf.square(tf.cast(sigma, tf.float64))))
    weights /= 2 * tf.reduce_sum(weights) - weights[0]
    factors = tf.unstack(tf.cast(weights, tf.float32))
    floats = tf.cast(pixels, tf.float32)
    smooth = _smooth_rows(floats, factors)
    smooth = tf.transpose(_smooth_rows(tf.transpose(smooth, (1, 0, 2)), factors), (1, 0, 2))
    return tf.cast(tf.round(smooth), tf.uint8)


def _smooth_rows(floats: tf.Tensor, factors: list[tf.Tensor]) -> tf.Tensor:
    """Each row a mean of those above and below it; slices of whole rows are the cheapest."""
    radius, height = len(factors) - 1, tf.shape(floats)[0]
    places = tf.clip_by_value(tf.range(-radius, height + radius), 0, height - 1)
    padded = tf.gather(floats, places)
    total = floats * factors[0]
    for distance, factor in enumerate(factors[1:], 1):
        above = padded[radius - distance : radius - distance + height]
        below = padded[radius + distance : radius + distance + height]
        total += (above + below) * factor
    return total


def enhance_sharpness(pixels: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Smooth at 0, the image at 1, sharper beyond; the outermost pixels stay as they are.

    Source: `PIL.ImageEnhance.Sharpness`, with its filter SMOOTH.
    """

    def sharpened() -> tf.Tensor:
        whole = tf.cast(pixels, tf.int32)
        across = whole[:, :-2] + whole[:, 1:-1] + whole[:, 2:]
        around = across[:-2] + across[1:-1] + across[2:]
        inner = (around + 4 * whole[1:-1, 1:-1] + 6) // 13
        smooth = tf.concat([whole[1:-1, :1], inner, whole[1:-1, -1:]], axis=1)
        smooth = tf.concat([whole[:1], smooth, whole[-1:]], axis=0)
        return blend(tf.cast(smooth, tf.float32), tf.cast(pixels, tf.float32), factor)

    return tf.cond(tf.reduce_all(tf.shape(pixels)[:2] >= 3), sharpened, lambda: pixels)
