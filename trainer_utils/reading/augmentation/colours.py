"""What is done to the values of one image's pixels, each where it is.

    enhance_colour(pixels, 1.4)     # more saturated
    equalize(pixels)

Images are `(height, width, 1 or 3) uint8`, and so are the results. They are Pillow's, level by
level: those of `ImageEnhance` and `ImageOps`, which AutoAugment and RandAugment were found with.
Factors and thresholds are `() float32`.
"""

import tensorflow as tf

__all__ = [
    "autocontrast",
    "enhance_brightness",
    "enhance_colour",
    "enhance_contrast",
    "equalize",
    "posterize",
    "shift_hue",
    "solarize",
    "to_grey",
]

_LUMA = (19595.0, 38470.0, 7471.0)  # of 65536: ITU-R 601 as Pillow rounds it
_LEVELS = 256


def blend(base: tf.Tensor, pixels: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Pixels at 1, `base` at 0, beyond both elsewhere; both floats. Rounded down as Pillow does."""
    return tf.cast(tf.clip_by_value(base + factor * (pixels - base), 0.0, 255.0), tf.uint8)


def enhance_brightness(pixels: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Black at 0, the image at 1."""
    bright = tf.minimum(tf.cast(pixels, tf.float32) * factor, 255.0)
    return tf.cast(bright, tf.uint8)


def enhance_contrast(pixels: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """The mean grey at 0, the image at 1."""
    floats = tf.cast(pixels, tf.float32)
    greys = tf.cast(_luma(floats), tf.int64)  # the sum of a photo is beyond a float's digits
    mean = tf.cast(tf.reduce_sum(greys), tf.float64) / tf.cast(tf.size(greys), tf.float64)
    return blend(tf.cast(tf.floor(mean + 0.5), tf.float32), floats, factor)


def enhance_colour(pixels: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Grey at 0, the image at 1, more saturated beyond; grey images stay as they are."""
    if pixels.shape[-1] == 1:
        return pixels
    floats = tf.cast(pixels, tf.float32)
    return blend(_luma(floats), floats, factor)


def to_grey(pixels: tf.Tensor) -> tf.Tensor:
    """Grey, in as many channels."""
    if pixels.shape[-1] == 1:
        return pixels
    grey = tf.cast(_luma(tf.cast(pixels, tf.float32)), tf.uint8)
    return tf.broadcast_to(grey, tf.shape(pixels))


def shift_hue(pixels: tf.Tensor, turns: tf.Tensor) -> tf.Tensor:
    """Hues moved round the circle by so many turns, `() float32`; greys stay as they are."""
    if pixels.shape[-1] == 1:
        return pixels
    hue, rest = tf.split(tf.image.rgb_to_hsv(tf.cast(pixels, tf.float32) / 255), [1, 2], axis=-1)
    moved = tf.image.hsv_to_rgb(tf.concat([tf.math.floormod(hue + turns, 1.0), rest], axis=-1))
    return tf.cast(tf.round(moved * 255), tf.uint8)


def autocontrast(pixels: tf.Tensor) -> tf.Tensor:
    """Each channel stretched from 0 to 255."""
    low = tf.cast(tf.reduce_min(pixels, axis=(0, 1)), tf.float64)
    high = tf.cast(tf.reduce_max(pixels, axis=(0, 1)), tf.float64)
    is_flat = high <= low
    scale = 255 / tf.where(is_flat, tf.ones_like(high), high - low)
    levels = tf.range(_LEVELS, dtype=tf.float64)[:, tf.newaxis]
    stretched = tf.clip_by_value(tf.cast(levels * scale - low * scale, tf.int32), 0, 255)
    return _look_up(pixels, tf.where(is_flat, tf.cast(levels, tf.int32), stretched))


def equalize(pixels: tf.Tensor) -> tf.Tensor:
    """Each channel's levels spread so that all are as frequent, as far as that can be."""
    channels = pixels.shape[-1]
    places = tf.cast(pixels, tf.int32) * channels + tf.range(channels)
    counts = tf.math.bincount(tf.reshape(places, [-1]), minlength=_LEVELS * channels)
    counts = tf.reshape(counts, (_LEVELS, channels))
    used = tf.range(_LEVELS)[:, tf.newaxis] * tf.cast(counts > 0, tf.int32)
    last = tf.gather(tf.transpose(counts), tf.reduce_max(used, axis=0), batch_dims=1)
    step = (tf.reduce_sum(counts, axis=0) - last) // 255
    levels = (step // 2 + tf.cumsum(counts, axis=0, exclusive=True)) // tf.maximum(step, 1)
    same = tf.broadcast_to(tf.range(_LEVELS)[:, tf.newaxis], tf.shape(levels))
    return _look_up(pixels, tf.where(step == 0, same, tf.minimum(levels, 255)))


def posterize(pixels: tf.Tensor, bits: tf.Tensor) -> tf.Tensor:
    """Only the highest `bits`, `() int32` of 0 to 8, of each value."""
    mask = tf.cast(255 - (tf.bitwise.left_shift(1, 8 - bits) - 1), tf.uint8)
    return tf.bitwise.bitwise_and(pixels, mask)


def solarize(pixels: tf.Tensor, threshold: tf.Tensor) -> tf.Tensor:
    """Values of at least the threshold inverted."""
    floats = tf.cast(pixels, tf.float32)
    return tf.where(floats < threshold, pixels, 255 - pixels)


def _luma(floats: tf.Tensor) -> tf.Tensor:
    """Grey of `(height, width, channels)` floats: one channel, whole numbers.

    All products and sums are whole numbers below 2**24, hence exact in float32 in any order.
    """
    if floats.shape[-1] == 1:
        return floats
    flat = tf.matmul(tf.reshape(floats, (-1, 3)), tf.constant(_LUMA, shape=(3, 1)))
    height, width = tf.unstack(tf.shape(floats)[:2])
    return tf.reshape(tf.floor((flat + 32768) * 2.0**-16), (height, width, 1))


def _look_up(pixels: tf.Tensor, tables: tf.Tensor) -> tf.Tensor:
    """Each value's entry in its channel's table, `(256, channels) int32`."""
    channels = pixels.shape[-1]
    places = tf.cast(pixels, tf.int32) * channels + tf.range(channels)
    return tf.gather(tf.cast(tf.reshape(tables, [-1]), tf.uint8), places)
