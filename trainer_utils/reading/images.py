"""Images from encoded bytes or raw pixels, decoded straight to what a model asks for.

    reading = ImageReading(image_size=(224, 224), resize="crop", normalize="imagenet")
    pixels = reading.decode(encoded, channels=3)        # (224, 224, 3) float32

What makes it fast: only the part that is kept is decoded, and where the target is less than half of
that part in both directions, libjpeg decodes it at 1/2, 1/4 or 1/8 of the scale, which also spares
the resize most of its memory traffic.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import tensorflow as tf

from trainer_utils.format.media_formats import BMP, JPEG
from trainer_utils.reading.crops import (
    DCT_RATIOS,
    CropBox,
    Vector,
    centre_box,
    dct_ratio_index,
    inner_extent,
    is_mirrored,
    random_box,
)
from trainer_utils.reading.image_settings import ImageSettings
from trainer_utils.reading.raw_ops import resize_images
from trainer_utils.reading.turbo import TurboDecoder, normalize_images

__all__ = ["ImageReading"]

_MARGIN = 2  # pixels
_EXACT = "INTEGER_ACCURATE"  # libjpeg's exact arithmetic, with which other decoders agree


@dataclass(frozen=True, kw_only=True)
class ImageReading(ImageSettings):
    """Decodes images as `ImageSettings` say."""

    @classmethod
    def of(cls, settings: ImageSettings) -> "ImageReading":
        """That of these settings."""
        return cls(**{field.name: getattr(settings, field.name) for field in fields(settings)})

    def decode(
        self,
        encoded: tf.Tensor,
        *,
        channels: int,
        seed: tf.Tensor | None = None,
        formats: Sequence[str] = (),
        label_map: bool = False,
    ) -> tf.Tensor:
        """Decodes one image.

        Args:
            encoded: a scalar string: JPEG, PNG or GIF, or, where `formats` says so, BMP. Or, where
                `decodes_batches`, `(batch,)` of them.
            channels: 1 or 3, where the setting is None.
            seed: `(2,) int64`, one for a record and epoch; needed where `is_random`. Of a batch
                `(batch, 2)`.
            formats: all that may come, where the dataset says so.
            label_map: it is a map of class ids: the nearest is taken, none are mixed; neither
                channels nor values are changed.

        Returns:
            `(height, width, channels)`, uint8 or, normalised, floats. Of a batch these, stacked.
        """
        channels = channels if label_map or self.channels is None else self.channels
        if self.decodes_batches(formats, label_map=label_map):
            turbo = TurboDecoder(self, channels=channels, formats=formats)
            if encoded.shape.rank:
                return turbo.decode(encoded, seed)
            seeds = None if seed is None else seed[tf.newaxis]
            return turbo.decode(encoded[tf.newaxis], seeds)[0]

        def whole() -> tf.Tensor:
            return self._fit(_decode_whole(encoded, channels, formats), seed, label_map)

        def jpeg() -> tf.Tensor:
            return self._decode_jpeg(encoded, channels, seed)

        needs_whole = label_map or (self.keeps_whole and not self.dct_scaling)
        if self.size is None or needs_whole or (formats and "JPEG" not in formats):
            pixels = whole()
        elif set(formats) == {"JPEG"}:
            pixels = jpeg()
        else:
            is_jpeg = tf.strings.substr(encoded, 0, len(JPEG)) == JPEG
            pixels = tf.cond(is_jpeg, jpeg, whole)
        # Not every op says how many there are, which a chain and a model have to know.
        pixels = tf.ensure_shape(pixels, (*pixels.shape[:2], channels))
        return self._finish(pixels, seed, label_map)

    def convert(
        self, pixels: tf.Tensor, *, seed: tf.Tensor | None = None, label_map: bool = False
    ) -> tf.Tensor:
        """Brings pixels that need no decoding to the same form.

        Args:
            pixels: `(height, width, channels) uint8`; where not `is_random`, any dimensions may
                come before.
            seed, label_map: as in `decode`.

        Returns:
            As of `decode`, with the dimensions that came before.
        """
        if not label_map and self.channels is not None and pixels.shape[-1] != self.channels:
            to = tf.image.rgb_to_grayscale if self.channels == 1 else tf.image.grayscale_to_rgb
            pixels = to(pixels)
        return self._finish(self._fit(pixels, seed, label_map), seed, label_map)

    def box_of(self, shape: tf.Tensor, seed: tf.Tensor | None) -> CropBox:
        """What is kept of an image of `shape`."""
        assert self.size is not None
        if self.augment:
            assert seed is not None
            return random_box(shape, seed, self.crop_area, self.crop_aspect)
        if self.resize == "crop":
            return centre_box(shape[:2], self.size)
        return CropBox([0, 0], shape[:2])

    def _target(self, box: CropBox) -> Vector:
        """What that is resized to."""
        assert self.size is not None
        return inner_extent(box.extent, self.size) if self.pads else self.size

    def _decode_jpeg(self, encoded: tf.Tensor, channels: int, seed: tf.Tensor | None) -> tf.Tensor:
        """Decodes what is kept, no larger than needed, and resizes that."""
        shape = tf.io.extract_jpeg_shape(encoded)
        box = self.box_of(shape, seed)
        target = self._target(box)

        def at(ratio: int) -> tf.Tensor:
            # A random crop needs no exact pixels; TensorFlow's default is 3% faster.
            method = "" if self.augment else _EXACT
            settings = {"channels": channels, "ratio": ratio, "dct_method": method}
            if self.keeps_whole:
                return tf.io.decode_jpeg(encoded, **settings)
            kept = box.at_scale(ratio)
            # At the border of what it decodes libjpeg lacks the neighbours that smooth colours.
            begin = tf.maximum(kept.begin - _MARGIN, 0)
            end = tf.minimum(kept.begin + kept.extent + _MARGIN, (shape[:2] + ratio - 1) // ratio)
            window = tf.concat([begin, end - begin], axis=0)
            pixels = tf.io.decode_and_crop_jpeg(encoded, window, **settings)
            (top, left), (height, width) = (
                tf.unstack(n) for n in (kept.begin - begin, kept.extent)
            )
            return pixels[top : top + height, left : left + width]

        if not self.dct_scaling:
            return self._pad(_resize(at(1), target), target)
        index = dct_ratio_index(box.extent, target)
        scaled = [lambda ratio=ratio: at(ratio) for ratio in DCT_RATIOS[1:]]
        # In two steps, so that the usual case waits for one decision only.
        part = tf.cond(index == 0, lambda: at(1), lambda: tf.switch_case(index - 1, scaled))
        # What is small now is resized 15 to 25% faster as float32; a whole photo would be slower.
        return self._pad(_resize(tf.cast(part, tf.float32), target), target)

    def _fit(self, pixels: tf.Tensor, seed: tf.Tensor | None, label_map: bool) -> tf.Tensor:
        """Resizes what is kept of decoded pixels."""
        if self.size is None:
            return pixels
        box = self.box_of(tf.shape(pixels)[-3:], seed)
        target = self._target(box)
        if not self.keeps_whole:
            (top, left), (bottom, right) = tf.unstack(box.begin), tf.unstack(tf.add(*box))
            pixels = pixels[..., top:bottom, left:right, :]
        return self._pad(_resize(pixels, target, nearest=label_map), target)

    def _pad(self, pixels: tf.Tensor, target: Vector) -> tf.Tensor:
        assert self.size is not None
        shape = [*pixels.shape[:-3], *self.size, pixels.shape[-1]]
        if self.pads:
            spare = self.size - target
            margins = tf.stack([spare // 2, spare - spare // 2], axis=1)
            before = pixels.shape.rank - 3
            pixels = tf.pad(pixels, tf.pad(margins, [[before, 1], [0, 0]]))
        return tf.ensure_shape(pixels, shape)

    def _finish(self, pixels: tf.Tensor, seed: tf.Tensor | None, label_map: bool) -> tf.Tensor:
        """Sets the dtype, then mirrors, so that the fewest bytes are moved."""
        normalization = None if label_map else self.normalization(pixels.shape[-1])
        if normalization is not None:
            is_batch = pixels.shape.rank == 4 and pixels.dtype == tf.uint8
            pixels = (
                normalize_images(pixels, normalization)
                if is_batch and self.decoder == "turbo"
                else normalization.convert(pixels)
            )
        elif pixels.dtype != tf.uint8:
            pixels = tf.cast(tf.round(pixels), tf.uint8)
        if not self.flips:
            return pixels
        assert seed is not None
        return tf.cond(is_mirrored(seed), lambda: tf.reverse(pixels, [-2]), lambda: pixels)


def _decode_whole(encoded: tf.Tensor, channels: int, formats: Sequence[str]) -> tf.Tensor:
    def others() -> tf.Tensor:
        # The op reads PNG and GIF too.
        return tf.io.decode_jpeg(encoded, channels=channels, dct_method=_EXACT)

    def bmp() -> tf.Tensor:
        pixels = tf.io.decode_image(encoded, channels=3, expand_animations=False)
        return tf.ensure_shape(pixels, (None, None, 3))

    if channels == 3 and "BMP" in formats:
        # That op decodes JPEGs by the fast arithmetic, as much as 6 levels off.
        return tf.cond(tf.strings.substr(encoded, 0, len(BMP)) == BMP, bmp, others)
    if channels != 1 or (formats and not {"BMP", "GIF"} & set(formats)):
        return others()
    head = tf.strings.substr(encoded, 0, 3)
    is_coloured = tf.logical_or(head == b"GIF", tf.strings.substr(head, 0, len(BMP)) == BMP)
    return tf.cond(is_coloured, lambda: _decode_as_grey(encoded), others)


def _decode_as_grey(encoded: tf.Tensor) -> tf.Tensor:
    """`(height, width, 1) uint8` of a BMP or GIF, which the op does not make grey."""
    pixels = tf.io.decode_image(encoded, expand_animations=False)
    pixels.set_shape((None, None, None))
    return tf.cond(
        tf.shape(pixels)[-1] == 1,
        lambda: pixels[..., :1],
        lambda: tf.image.rgb_to_grayscale(pixels[..., :3]),
    )


def _resize(pixels: tf.Tensor, target: Vector, *, nearest: bool = False) -> tf.Tensor:
    """Float32, but for the nearest or what fits."""
    if isinstance(target, tuple) and pixels.shape[-3:-1].as_list() == list(target):
        return pixels
    is_one = pixels.shape.rank == 3
    images = pixels[tf.newaxis] if is_one else pixels
    resized = resize_images(images, target, nearest=nearest)
    return resized[0] if is_one else resized
