"""Turns serialized examples into tensors: only the features asked for, whole batches at a time.

parse = ExampleParser(features, image_size=(224, 224))
tensors = parse.batch(serialized) if parse.is_vectorised else parse.example(serialized)
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from trainer_utils.format import Feature

__all__ = ["ExampleParser"]

_DTYPES = {"int": tf.int64, "float": tf.float32, "string": tf.string}
_COMPANION = "_shape"  # of a sparse feature of rank 2 or more, as Datum writes it


@dataclasses.dataclass(frozen=True)
class ExampleParser:
    """Parses the features of `features`, and no others.

    Args:
        features: by name.
        image_size: height and width in pixels that images are resized to; None keeps them as they
            are.
    """

    features: Mapping[str, Feature]
    image_size: tuple[int, int] | None = None

    @property
    def is_vectorised(self) -> bool:
        """Whether whole batches can be parsed at once; images are decoded one by one."""
        return not any(
            feature.is_image or (not feature.dense and len(feature.shape) > 1)
            for feature in self.features.values()
        )

    @property
    def has_variable_length(self) -> bool:
        """Whether examples differ in shape, so that a batch must be padded."""
        return any(not feature.dense for feature in self.features.values())

    def batch(self, serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        """Parses `(batch,) string` into a dict of `(batch, …)`; variable lengths get zeros."""
        parsed = tf.io.parse_example(serialized, self._spec())
        return {name: self._restore(name, parsed) for name in self.features}

    def example(self, serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        """Parses a scalar string into a dict of one example's tensors."""
        parsed = tf.io.parse_single_example(serialized, self._spec())
        return {name: self._restore(name, parsed) for name in self.features}

    def with_image_shapes(self, tensors: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """One example whose images are known to have the size that the dataset says.

        An image of another size is an `InvalidArgumentError` when it is read.
        """
        if self.image_size is not None:
            return tensors
        return {
            name: tf.ensure_shape(value, (*feature.shape[:2], None)) if feature.is_image else value
            for (name, value), feature in zip(tensors.items(), self.features.values(), strict=True)
        }

    def _spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {}
        for name, feature in self.features.items():
            dtype = _DTYPES[feature.type]
            if not feature.dense:
                spec[name] = tf.io.VarLenFeature(dtype)
                if len(feature.shape) > 1 and not feature.is_image:
                    spec.setdefault(name + _COMPANION, tf.io.VarLenFeature(tf.int64))
            else:
                spec[name] = tf.io.FixedLenFeature(() if feature.is_image else feature.shape, dtype)
        return spec

    def _restore(self, name: str, parsed: Mapping[str, Any]) -> tf.Tensor:
        feature, value = self.features[name], parsed[name]
        if feature.is_image:
            return self._decode(feature, value)
        if feature.is_raw_image:
            shape = [-1] * value.shape.rank + list(feature.extra["image_shape"])
            return self._resize(feature, tf.reshape(tf.io.decode_raw(value, tf.uint8), shape))
        if feature.dense:
            return value
        dense = tf.sparse.to_dense(value)
        if len(feature.shape) < 2:
            return dense
        shape = parsed[name + _COMPANION]
        if isinstance(shape, tf.SparseTensor):
            shape = tf.sparse.to_dense(shape)
        fixed = tf.constant(feature.shape, tf.int64)
        restored = tf.reshape(dense, tf.cond(tf.size(shape) > 0, lambda: shape, lambda: fixed))
        return tf.ensure_shape(restored, [None] * len(feature.shape))

    def _decode(self, feature: Feature, encoded: tf.Tensor) -> tf.Tensor:
        """`(height, width, channels) uint8`: one channel for rank 2, three for rank 3."""
        channels = 1 if len(feature.shape) == 2 else 3
        if "BMP" in feature.extra.get("formats", ()):
            asked = 3 if channels == 3 else 0  # of a grey BMP the op refuses to be asked for one
            pixels = tf.io.decode_image(encoded, channels=asked, expand_animations=False)
            pixels = tf.ensure_shape(pixels, (None, None, channels))
        else:
            # The op reads PNG too. INTEGER_ACCURATE: exact, and no slower with libjpeg-turbo.
            pixels = tf.io.decode_jpeg(encoded, channels=channels, dct_method="INTEGER_ACCURATE")
        if feature.is_fixed_size:
            pixels = tf.ensure_shape(pixels, (*feature.shape[:2], channels))
        return self._resize(feature, pixels)

    def _resize(self, feature: Feature, pixels: tf.Tensor) -> tf.Tensor:
        """Bilinearly; class ids of a label map are not mixed, but the nearest is taken."""
        if self.image_size is None or list(pixels.shape[-3:-1]) == list(self.image_size):
            return pixels
        if feature.extra.get("label_map"):
            return tf.image.resize(pixels, self.image_size, method="nearest")
        return tf.cast(tf.round(tf.image.resize(pixels, self.image_size)), tf.uint8)
