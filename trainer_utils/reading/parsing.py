"""Turns serialized examples into tensors: only the features asked for, whole batches at a time.

parse = ExampleParser(features, DecodeOptions(image_size=(224, 224)))
tensors = parse.batch(serialized) if parse.is_vectorised else parse.example(serialized)
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from trainer_utils.format import Feature
from trainer_utils.format.base64_pixels import BASE64_SIZES
from trainer_utils.reading.audio import decode_wav, is_audio, is_fixed_length
from trainer_utils.reading.augmentation.mixing import Mixer
from trainer_utils.reading.augmentation.pixels import PixelChain
from trainer_utils.reading.boxes import boxes_of, check_followers, mirror_boxes
from trainer_utils.reading.crops import is_mirrored
from trainer_utils.reading.decoding import DecodeOptions
from trainer_utils.reading.images import ImageReading
from trainer_utils.reading.tensors import decode_each, decode_equal, has_equal_bytes
from trainer_utils.reading.turbo import normalize_images

__all__ = ["ExampleParser"]

_DTYPES = {"int": tf.int64, "float": tf.float32, "string": tf.string}
_COMPANION = "_shape"  # of a sparse feature of rank 2 or more, as Datum writes it


@dataclasses.dataclass(frozen=True)
class ExampleParser:
    """Parses the features of `features`, and no others.

    Args:
        features: by name.
        options: what they are to become.

    Raises:
        ConfigError: boxes were asked for, and images that they do not fit.
    """

    features: Mapping[str, Feature]
    options: DecodeOptions = dataclasses.field(default_factory=DecodeOptions)

    def __post_init__(self) -> None:
        if any(feature.has_pixels for feature in self.features.values()):
            check_followers(self.features, self.options)

    @functools.cached_property
    def _images(self) -> ImageReading:
        reading = ImageReading.of(self.options.images)
        return dataclasses.replace(reading, normalize=None) if self._chain else reading

    @functools.cached_property
    def _chain(self) -> PixelChain | None:
        """What comes between decoding and `normalize`."""
        operations = self.options.augmentation.pixels
        return PixelChain(operations) if operations else None

    @functools.cached_property
    def _mirrors_boxes(self) -> bool:
        has_images = any(feature.has_pixels for feature in self.features.values())
        return has_images and self.options.images.flips and bool(boxes_of(self.features))

    def mixer(self, label: str | None) -> Mixer | None:
        """What mixes rows of batches and that label with them, where the options say so."""
        operations = self.options.augmentation.mixing
        images = [name for name, feature in self.features.items() if feature.has_pixels]
        if not (operations and images):
            return None
        assert label is not None
        return Mixer(operations, images, label)

    @property
    def is_random(self) -> bool:
        """Whether `example` needs the seed of the epoch."""
        has_images = any(feature.has_pixels for feature in self.features.values())
        return self.options.augmentation.is_random and has_images

    @property
    def is_vectorised(self) -> bool:
        """Whether whole batches can be parsed at once; TensorFlow decodes images one by one."""
        return not self._mirrors_boxes and all(map(self._is_vectorised, self.features.values()))

    def _is_vectorised(self, feature: Feature) -> bool:
        if feature.is_image:
            formats, label_map = feature.extra.get("formats", ()), _is_label_map(feature)
            return self.options.images.decodes_batches(formats, label_map=label_map)
        if feature.is_raw_image:
            return not self.options.images.is_random
        if feature.tensor is not None:
            return has_equal_bytes(feature)
        if feature.is_base64_image:
            return not self.options.images.is_random and "image_shape" in feature.extra
        return not is_audio(feature) and (feature.dense or len(feature.shape) < 2)

    @property
    def decodes_batches(self) -> bool:
        """Whether `batch` is mostly at decoding images, in threads of its own."""
        return self.is_vectorised and any(feature.is_image for feature in self.features.values())

    @property
    def has_variable_length(self) -> bool:
        """Whether examples differ in shape, so that a batch must be padded."""
        return any(
            not (feature.dense if feature.tensor is None else feature.tensor.is_fixed)
            or (is_audio(feature) and not is_fixed_length(feature, self.options.audio))
            for feature in self.features.values()
        )

    def batch(
        self, serialized: tf.Tensor, epoch_seed: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """Parses `(batch,) string` into a dict of `(batch, …)`; variable lengths get zeros.

        With `ragged` they become ragged tensors. `epoch_seed` is that of `example`.
        """
        parsed = self.undecoded(serialized)
        seeds = self.keys(serialized, epoch_seed)
        return {name: self._restore(name, parsed, seeds) for name in self.features}

    def example(
        self, serialized: tf.Tensor, epoch_seed: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """Parses a scalar string into a dict of one example's tensors.

        Args:
            serialized: the example.
            epoch_seed: a scalar int64, needed where `is_random`. What is random follows from it and
                from the record's bytes, so it is the same in any order and on any worker.
        """
        if lists := self._list_spec():
            context, steps = tf.io.parse_single_sequence_example(serialized, self._spec(), lists)
            parsed = {**context, **steps}
        else:
            parsed = tf.io.parse_single_example(serialized, self._spec())
        seed = self.keys(serialized, epoch_seed)
        if self._mirrors_boxes:
            parsed = mirror_boxes(parsed, is_mirrored(seed))
        return {name: self._restore(name, parsed, seed) for name in self.features}

    def keys(self, serialized: tf.Tensor, epoch_seed: tf.Tensor | None) -> tf.Tensor | None:
        """`(…, 2) int64`, one for each of `serialized`; None where nothing is random."""
        if not self.is_random:
            return None
        assert epoch_seed is not None
        hashed = self.hashes(serialized)
        return tf.stack([hashed, tf.broadcast_to(epoch_seed, tf.shape(hashed))], axis=-1)

    @staticmethod
    def hashes(serialized: Any) -> tf.Tensor:
        """What of a key follows from the bytes of records: int64, of the shape given."""
        return tf.strings.to_hash_bucket_fast(serialized, 2**62)

    def undecoded(self, serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        """Parses `(batch,) string` and decodes nothing, to see what parsing alone costs."""
        if lists := self._list_spec():
            context, steps, sizes = tf.io.parse_sequence_example(serialized, self._spec(), lists)
            if self.options.ragged:
                steps |= {
                    name: tf.RaggedTensor.from_tensor(steps[name], lengths=size)
                    for name, size in sizes.items()
                }
            return {**context, **steps}
        parsed: dict[str, tf.Tensor] = tf.io.parse_example(serialized, self._spec())
        return parsed

    def with_image_shapes(self, tensors: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """One example whose images are known to have the size that the dataset says.

        An image of another size is an `InvalidArgumentError` when it is read.
        """
        if self.options.images.size is not None:
            return tensors
        shaped = dict(tensors)
        for name, feature in self.features.items():
            if feature.is_image:
                size, value = feature.shape[:2], tensors[name]
                message = (
                    f"images of {name!r}: expected one size in a batch, {size} as the dataset "
                    "says. Set image_size, or read them one by one, with batch_size=None."
                )
                is_right = tf.debugging.assert_equal(tf.shape(value)[:2], size, message=message)
                with tf.control_dependencies([is_right]):
                    shaped[name] = tf.ensure_shape(tf.identity(value), (*size, None))
        return shaped

    def _spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {}
        for name, feature in self.features.items():
            dtype = _DTYPES[feature.type]
            if feature.is_sequence:
                continue
            if feature.tensor is not None:
                default = None if feature.dense else ""
                spec[name] = tf.io.FixedLenFeature((), tf.string, default_value=default)
            elif not feature.dense:
                spec[name] = tf.io.VarLenFeature(dtype)
                if len(feature.shape) > 1 and not feature.is_image:
                    spec.setdefault(name + _COMPANION, tf.io.VarLenFeature(tf.int64))
            else:
                spec[name] = tf.io.FixedLenFeature(() if feature.is_image else feature.shape, dtype)
            if feature.is_base64_image and "image_shape" not in feature.extra:
                for part in BASE64_SIZES:
                    spec[name + part] = tf.io.FixedLenFeature((), tf.int64)
        return spec

    def _list_spec(self) -> dict[str, Any]:
        """Of the lists of `tf.train.SequenceExample`; one that is not there has no steps."""
        return {
            name: tf.io.RaggedFeature(_DTYPES[feature.type], row_splits_dtype=tf.int64)
            if feature.extra["sequence"] == "ragged"
            else tf.io.FixedLenSequenceFeature(
                feature.shape, _DTYPES[feature.type], allow_missing=True
            )
            for name, feature in self.features.items()
            if feature.is_sequence
        }

    def _restore(
        self, name: str, parsed: Mapping[str, tf.Tensor], seed: tf.Tensor | None = None
    ) -> tf.Tensor:
        feature, value = self.features[name], parsed[name]
        if feature.is_sequence:
            is_ragged = isinstance(value, tf.RaggedTensor) and not self.options.ragged
            return value.to_tensor() if is_ragged else value
        if feature.is_image:
            return self.finish_image(name, self._decode(name, value, seed), seed)
        if feature.is_raw_image or feature.is_base64_image:
            if feature.is_base64_image:
                value = tf.io.decode_base64(value)
            shape = [-1] * value.shape.rank + list(
                feature.extra.get("image_shape")
                or [tf.cast(parsed[name + part], tf.int32) for part in BASE64_SIZES]
            )
            pixels = tf.reshape(tf.io.decode_raw(value, tf.uint8), shape)
            if "image_shape" not in feature.extra:
                pixels = _with_channels(pixels, max(feature.extra["channels"]))
            return self.finish_pixels(name, pixels, seed)
        if feature.tensor is not None:
            decode = decode_equal if has_equal_bytes(feature) else decode_each
            return decode(value, feature.tensor, name=name)
        if is_audio(feature):
            return decode_wav(value, feature, self.options.audio)
        if feature.dense:
            return value
        if self.options.ragged and value.shape.rank == 2 and len(feature.shape) < 2:
            return tf.RaggedTensor.from_sparse(value)
        dense = tf.sparse.to_dense(value)
        if len(feature.shape) < 2:
            return dense
        shape = parsed[name + _COMPANION]
        if isinstance(shape, tf.SparseTensor):
            shape = tf.sparse.to_dense(shape)
        fixed = tf.constant(feature.shape, tf.int64)
        restored = tf.reshape(dense, tf.cond(tf.size(shape) > 0, lambda: shape, lambda: fixed))
        return tf.ensure_shape(restored, [None] * len(feature.shape))

    def image_reading(self, name: str) -> tuple[ImageReading, int]:
        """How an encoded image is decoded, and its channels where the reading does not say.

        These are one for rank 2, three for rank 3.
        """
        feature, reading = self.features[name], self._images
        if feature.is_fixed_size and reading.size == feature.shape[:2] and not reading.augment:
            reading = dataclasses.replace(reading, image_size=None, resize="stretch")
        return reading, 1 if len(feature.shape) == 2 else 3

    def _decode(self, name: str, encoded: tf.Tensor, seed: tf.Tensor | None) -> tf.Tensor:
        feature = self.features[name]
        reading, channels = self.image_reading(name)
        return reading.decode(
            encoded,
            channels=channels,
            seed=seed,
            formats=feature.extra.get("formats", ()),
            label_map=_is_label_map(feature),
        )

    def finish_image(self, name: str, pixels: tf.Tensor, seed: tf.Tensor | None) -> tf.Tensor:
        """What becomes of decoded images: `(…, height, width, channels)`."""
        feature = self.features[name]
        reading, _ = self.image_reading(name)
        if feature.is_fixed_size and reading.size is None:
            *before, _, _, channels = pixels.shape
            size = feature.shape[:2]
            if before:  # where there are no images, none says of what size
                none = [0, *size, channels]
                pixels = tf.reshape(pixels, tf.where(tf.size(pixels) > 0, tf.shape(pixels), none))
            pixels = tf.ensure_shape(pixels, (*before, *size, channels))
        return self._augment(feature, pixels, seed)

    def finish_pixels(self, name: str, pixels: tf.Tensor, seed: tf.Tensor | None) -> tf.Tensor:
        """What becomes of pixels that are stored as they are: `(…, height, width, channels)`."""
        feature = self.features[name]
        pixels = self._images.convert(pixels, seed=seed, label_map=_is_label_map(feature))
        return self._augment(feature, pixels, seed)

    def _augment(self, feature: Feature, pixels: tf.Tensor, keys: tf.Tensor | None) -> tf.Tensor:
        """What the chain makes of decoded images, then normalised."""
        if self._chain is None:
            return pixels
        label_map = _is_label_map(feature)
        pixels = self._chain.apply(pixels, keys, label_map=label_map)
        settings = self.options.images
        normalization = None if label_map else settings.normalization(pixels.shape[-1])
        if normalization is None:
            return pixels
        if pixels.shape.rank == 4 and settings.decoder == "turbo":
            return normalize_images(pixels, normalization)
        return normalization.convert(pixels)


def _with_channels(pixels: tf.Tensor, channels: int) -> tf.Tensor:
    """An image of 1 or so many channels as one of so many."""
    repeats = channels // tf.shape(pixels)[-1]
    return tf.ensure_shape(tf.tile(pixels, [1, 1, repeats]), (None, None, channels))


def _is_label_map(feature: Feature) -> bool:
    return bool(feature.extra.get("label_map"))
