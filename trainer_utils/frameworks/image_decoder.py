"""Decode images in a TensorFlow graph as in training, for a served model.

    decode = image_decoder(image_size=(224, 224), image={"resize": "crop"})
    tf.function(lambda encoded: model(decode(encoded)), ...)    # encoded: (batch,) string

The graph has only TensorFlow's operations, so a SavedModel can store it.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from trainer_utils.format import media_formats as media
from trainer_utils.options import ImageOptions, InputOptions
from trainer_utils.options.pixels import NORMALIZATIONS
from trainer_utils.reading.images import SMALLEST_SCALED

_RATIOS = (1, 2, 4, 8)  # of a JPEG's size to the size that libjpeg decodes
_CMYK = 4  # components; such JPEGs are decoded at full size
_COEFFICIENT_BITS = 11  # of the weights of two neighbouring pixels in OpenCV


def image_decoder(
    *, image_size: tuple[int, int], image: ImageOptions | Mapping[str, Any] | None = None
) -> Callable[[Any], Any]:
    """Return a function that decodes images for serving, with the pixels that `input_fn` yields.

    Args:
        image_size: the height and width of the result, as in `input_fn`.
        image: the image options, as in `input_fn`; `channels=None` means 3 channels. There is no
            augmentation, as in evaluation.

    Returns:
        A function from `(batch,) string` to `(batch, height, width, channels)`, uint8 or, with
        `normalize`, floats. JPEGs and PNGs that are made smaller have exactly the pixels of
        training, with either value of `dct_scaling`. Enlarged ones may be a level off. EXIF
        orientation is not applied: ImageExampleGen applies it to the photos it converts.

    Raises:
        ConfigError: a setting is invalid.
    """
    given: Any = {} if image is None else image
    options = InputOptions(image_size=image_size, image=given)
    graph = _ImageGraph(options)
    spec = tf.TensorSpec((*image_size, graph.channels), graph.dtype)
    decode = tf.autograph.experimental.do_not_convert(graph.decode)
    return lambda encoded: tf.map_fn(decode, encoded, fn_output_signature=spec)


class _ImageGraph:
    """The operations that decode one image as `plan_images` and `ImageDecoder` do."""

    def __init__(self, options: InputOptions) -> None:
        self._options = options
        assert options.image_size is not None
        self._size = np.array(options.image_size, np.int32)
        self.channels = options.image.channels or 3
        self.dtype = tf.uint8
        if options.image.normalize is not None:
            self.dtype = tf.as_dtype(options.image.dtype)

    def decode(self, data: Any) -> Any:
        """Return the pixels of one image, `(height, width, channels)`."""
        is_jpeg = tf.equal(tf.strings.substr(data, 0, len(media.JPEG)), media.JPEG)
        shape = tf.cond(
            is_jpeg, lambda: tf.io.extract_jpeg_shape(data), lambda: tf.zeros(3, tf.int32)
        )
        ratio = self._ratio(shape)
        branches: list[Any] = [
            lambda: tf.io.decode_image(data, self.channels, expand_animations=False)
        ]
        branches += [functools.partial(self._decode_jpeg, data, ratio) for ratio in _RATIOS]
        index = tf.reduce_sum(tf.cast(ratio >= _RATIOS, tf.int32)) * tf.cast(is_jpeg, tf.int32)
        pixels = tf.switch_case(index, branches)
        whole = tf.where(is_jpeg, shape[:2], tf.shape(pixels)[:2])
        begin, extent, target = self._box(whole)
        end = begin + extent
        first, last = (begin + ratio // 2) // ratio, (end + ratio // 2) // ratio
        last = tf.where(tf.equal(end, whole), -(-whole // ratio), last)
        part = pixels[first[0] : last[0], first[1] : last[1]]
        fitted = self._resize(part, target)
        if self._options.pads:
            before = (self._size - target) // 2
            after = self._size - target - before
            around = tf.concat([tf.stack([before, after], axis=1), tf.zeros((1, 2), tf.int32)], 0)
            fitted = tf.pad(fitted, around)
        fitted = tf.ensure_shape(fitted, (*self._size, self.channels))
        return self._normalize(fitted)

    def _decode_jpeg(self, data: Any, ratio: int) -> Any:
        return tf.io.decode_jpeg(data, self.channels, ratio, dct_method="INTEGER_ACCURATE")

    def _box(self, whole: Any) -> tuple[Any, Any, Any]:
        """Return the begin and extent of the part that is kept, and its new size."""
        begin, extent, target = tf.zeros_like(whole), whole, tf.constant(self._size)
        if self._options.image.resize == "crop":
            aspect = (whole[::-1] * self._size + self._size[::-1] // 2) // self._size[::-1]
            extent = tf.clip_by_value(aspect, 1, whole)
            begin = (whole - extent) // 2
        if self._options.pads:
            target = tf.clip_by_value(extent * self._size[::-1] // extent[::-1], 1, self._size)
        return begin, extent, target

    def _ratio(self, shape: Any) -> Any:
        """Return the scale ratio for decoding a JPEG of this height, width and components."""
        if not self._options.image.dct_scaling:
            return tf.constant(1)
        whole = tf.maximum(shape[:2], 1)
        _, extent, target = self._box(whole)
        fits = tf.reduce_min((extent - 1) // target)
        ratio = tf.reduce_max(tf.where(fits >= _RATIOS, _RATIOS, 1))
        scales = (tf.reduce_max(whole) >= SMALLEST_SCALED) & (shape[2] < _CMYK)
        return tf.where(scales, ratio, 1)

    def _resize(self, pixels: Any, target: Any) -> Any:
        """Resize like OpenCV, with its integer weights; `tf.image.resize` is a level off.

        Source: OpenCV's modules/imgproc/src/resize.cpp, INTER_LINEAR of 8 bits.
        """
        rows, columns = (self._weights(tf.shape(pixels)[axis], target[axis]) for axis in (0, 1))
        values = tf.cast(pixels, tf.int32)
        (left, right), weights = columns
        across = sum(
            tf.gather(values, index, axis=1) * weight[:, tf.newaxis]
            for index, weight in zip((left, right), weights, strict=True)
        )
        (above, below), weights = rows
        down = sum(
            weight[:, tf.newaxis, tf.newaxis] * (tf.gather(across, index, axis=0) // 16) // 65_536
            for index, weight in zip((above, below), weights, strict=True)
        )
        return tf.cast((down + 2) // 4, tf.uint8)

    def _weights(self, size: Any, target: Any) -> Any:
        """Return the two pixels that make each new one along an axis, and their weights."""
        scale = tf.cast(size, tf.float64) / tf.cast(target, tf.float64)
        places = (tf.cast(tf.range(target), tf.float64) + 0.5) * scale - 0.5
        places = tf.cast(places, tf.float32)
        lower = tf.cast(tf.floor(places), tf.int32)
        share = places - tf.cast(lower, tf.float32)
        share = tf.where((lower < 0) | (lower >= size - 1), 0.0, share)
        first = tf.clip_by_value(lower, 0, size - 1)
        weights = (
            tf.cast(tf.round(part * (1 << _COEFFICIENT_BITS)), tf.int32)
            for part in (1.0 - share, share)
        )
        return (first, tf.minimum(first + 1, size - 1)), tuple(weights)

    def _normalize(self, pixels: Any) -> Any:
        normalize: Any = self._options.image.normalize
        if normalize is None:
            return pixels
        mean, deviation = NORMALIZATIONS[normalize] if isinstance(normalize, str) else normalize
        mean, deviation = (np.asarray(part, np.float64) for part in (mean, deviation))
        scaled = tf.cast(pixels, tf.float32) * np.float32(1 / deviation)
        return tf.cast(scaled - np.float32(mean / deviation), self.dtype)
