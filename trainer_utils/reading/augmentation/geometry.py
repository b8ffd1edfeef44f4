"""What moves or hides parts of one image.

    rotate(pixels, degrees)             # bilinear, black where nothing was
    rotate(label_map, degrees, nearest=True)

Images are `(height, width, channels) uint8`, and so are the results. Angles, shears and shifts are
`() float32`.
"""

import math

import tensorflow as tf

from trainer_utils.reading import raw_ops

__all__ = ["cut_out", "rotate", "shear", "translate"]


def rotate(pixels: tf.Tensor, degrees: tf.Tensor, *, nearest: bool = False) -> tf.Tensor:
    """Turned counter-clockwise about its middle, as `PIL.Image.rotate`."""
    # In float64: what of a sine is rounded otherwise elsewhere is lost in float32.
    angle = tf.cast(degrees, tf.float64) * (math.pi / 180)
    sine, cosine = (tf.cast(f(angle), tf.float32) for f in (tf.sin, tf.cos))
    y, x = tf.unstack(tf.cast(tf.shape(pixels)[:2], tf.float32) - 1)
    y, x = y / 2, x / 2
    return _transform(
        pixels,
        (cosine, -sine, x - cosine * x + sine * y, sine, cosine, y - sine * x - cosine * y),
        nearest=nearest,
    )


def shear(pixels: tf.Tensor, x: tf.Tensor, y: tf.Tensor, *, nearest: bool = False) -> tf.Tensor:
    """Each row moved by `x` of its number, each column by `y` of its."""
    return _transform(pixels, (1.0, x, x / 2, y, 1.0, y / 2), nearest=nearest)


def translate(pixels: tf.Tensor, x: tf.Tensor, y: tf.Tensor, *, nearest: bool = False) -> tf.Tensor:
    """Moved left by `x` of its width and up by `y` of its height, to whole pixels."""
    height, width = tf.unstack(tf.cast(tf.shape(pixels)[:2], tf.float32))
    shifts = (1.0, 0.0, tf.round(x * width), 0.0, 1.0, tf.round(y * height))
    return _transform(pixels, shifts, nearest=nearest)


def cut_out(pixels: tf.Tensor, side: float, y: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Black in a square.

    Args:
        pixels: of one image.
        side: of the square, as a share of the shorter side of the image.
        y, x: its middle, as shares of height and width; parts of it may lie outside.

    Source: DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with
    Cutout", 2017.
    """
    height, width = tf.unstack(tf.shape(pixels)[:2])
    length = tf.cast(tf.round(side * tf.cast(tf.minimum(height, width), tf.float32)), tf.int32)

    def is_within(extent: tf.Tensor, middle: tf.Tensor) -> tf.Tensor:
        begin = tf.cast(middle * tf.cast(extent, tf.float32), tf.int32) - length // 2
        places = tf.range(extent)
        return (places >= begin) & (places < begin + length)

    rows, columns = is_within(height, y), is_within(width, x)
    is_cut = rows[:, tf.newaxis, tf.newaxis] & columns[tf.newaxis, :, tf.newaxis]
    return tf.where(is_cut, tf.zeros((), tf.uint8), pixels)


def _transform(pixels: tf.Tensor, of_output: tuple[object, ...], *, nearest: bool) -> tf.Tensor:
    """What is at (x, y) comes from (a x + b y + c, d x + e y + f), counted from the first pixel."""
    row = tf.stack([tf.cast(number, tf.float32) for number in (*of_output, 0.0, 0.0)])
    if nearest:
        return raw_ops.transform_images(pixels[tf.newaxis], row[tf.newaxis], nearest=True)[0]
    floats = tf.cast(pixels, tf.float32)[tf.newaxis]
    moved = raw_ops.transform_images(floats, row[tf.newaxis])[0]
    return tf.cast(tf.round(moved), tf.uint8)
