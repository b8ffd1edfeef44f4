"""Images from encoded bytes or raw pixels, decoded straight to what a model asks for.

    reading = ImageReading(size=(224, 224), resize="crop", normalize="imagenet")
    pixels = reading.decode(encoded, channels=3)        # (224, 224, 3) float32

What makes it fast: only the part that is kept is decoded, and where the target is less than half of
that part in both directions, libjpeg decodes it at 1/2, 1/4 or 1/8 of the scale, which also spares
the resize most of its memory traffic.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from trainer_utils.crops import (
    DCT_RATIOS,
    Box,
    centre_box,
    dct_ratio_index,
    inner_extent,
    is_mirrored,
    random_box,
)
from trainer_utils.format import ConfigError
from trainer_utils.format.media_formats import JPEG
from trainer_utils.normalizing import DTYPES, NORMALIZATIONS, Normalization, is_normalization
from trainer_utils.turbo import TurboDecoder, normalized

__all__ = ["ImageReading"]

_RESIZES = ("stretch", "crop", "pad")
_AUGMENTS = ("random_resized_crop",)
_DECODERS = ("tensorflow", "turbo")
_MARGIN = 2  # pixels
_EXACT = "INTEGER_ACCURATE"  # libjpeg's exact arithmetic, with which other decoders agree


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageReading:
    """What images are to become.

    Args:
        size: `(height, width)` in pixels; None keeps each image's own.
        resize: how an image of another aspect gets that size: `stretch`, `crop` (the largest
            part in the middle) or `pad` (the whole, black around it). All bilinear.
        channels: 1 grey, 3 RGB; None: as the dataset says.
        augment: `random_resized_crop`: a random part of the image is resized to `size`.
        flip: mirrors half of the images; None: where there is `augment`.
        normalize: None: uint8. Else floats: `unit` 0 to 1, `symmetric` -1 to 1, `imagenet`, or
            `(mean, standard deviation)` of values of 0 to 255, each a number or one a channel.
        dtype: of these floats: float32, bfloat16 or float16.
        dct_scaling: decode JPEGs at 1/2, 1/4 or 1/8 where `size` is less than that in both
            directions: faster, and free of the aliasing of a bilinear resize to less than half.
            False: exactly the pixels that `tf.image.resize` makes of the whole image.
        crop_area: smallest and largest share of the image that a random crop covers, in (0, 1].
        crop_aspect: its smallest and largest width / height.
        decoder: `tensorflow`, or `turbo`: see `trainer_utils.turbo`.

    Raises:
        ConfigError: a setting is not allowed.
    """

    size: tuple[int, int] | None = None
    resize: str = "stretch"
    channels: int | None = None
    augment: str | None = None
    flip: bool | None = None
    normalize: str | Sequence[Any] | None = None
    dtype: str = "float32"
    dct_scaling: bool = True
    crop_area: tuple[float, float] = (0.08, 1.0)
    crop_aspect: tuple[float, float] = (3 / 4, 4 / 3)
    decoder: str = "tensorflow"

    def __post_init__(self) -> None:
        is_size = self.size is None or _is_pair(self.size, int)
        is_area = _is_range(self.crop_area) and self.crop_area[1] <= 1
        rules = {
            "image_size": (self.size, is_size, "(height, width) in pixels"),
            "resize": (self.resize, self.resize in _RESIZES, f"one of {', '.join(_RESIZES)}"),
            "channels": (self.channels, _is_any_of(self.channels, None, 1, 3), "1, 3 or None"),
            "augment": (
                self.augment,
                self.augment in (None, *_AUGMENTS),
                f"{', '.join(_AUGMENTS)} or None",
            ),
            "flip": (self.flip, _is_any_of(self.flip, None, True, False), "True, False or None"),
            "normalize": (
                self.normalize,
                is_normalization(self.normalize),
                f"{', '.join(NORMALIZATIONS)}, a pair of mean and standard deviation "
                "(each a number, or one for each channel), or None",
            ),
            "image_dtype": (self.dtype, self.dtype in DTYPES, f"one of {', '.join(DTYPES)}"),
            "decoder": (self.decoder, self.decoder in _DECODERS, f"one of {', '.join(_DECODERS)}"),
            "dct_scaling": (self.dct_scaling, isinstance(self.dct_scaling, bool), "a bool"),
            "crop_area": (self.crop_area, is_area, "two rising shares in (0, 1]"),
            "crop_aspect": (
                self.crop_aspect,
                _is_range(self.crop_aspect),
                "two rising ratios of width to height",
            ),
        }
        for name, (value, is_allowed, rule) in rules.items():
            if not is_allowed:
                raise ConfigError(f"{name}: expected {rule}, got {value!r}")
        if self.size is not None:
            object.__setattr__(self, "size", tuple(self.size))
        if self.size is None and (self.augment or self.resize != "stretch"):
            setting = "augment" if self.augment else "resize"
            raise ConfigError(
                f"image_size: expected (height, width) in pixels, since {setting} is set, got None"
            )

    @property
    def flips(self) -> bool:
        """Whether half of the images are mirrored."""
        return bool(self.augment) if self.flip is None else self.flip

    @property
    def is_random(self) -> bool:
        """Whether an image comes out otherwise with another seed."""
        return self.augment is not None or self.flips

    @property
    def keeps_boxes(self) -> bool:
        """Whether relative coordinates of boxes on an image stay right."""
        return not self.is_random and (self.size is None or self.resize == "stretch")

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

    def decodes_batches(self, formats: Sequence[str] = (), *, label_map: bool = False) -> bool:
        """Whether `decode` takes a batch at once: JPEGs, with the turbo decoder."""
        return self.decoder == "turbo" and not label_map and (not formats or "JPEG" in formats)

    def normalization(self, channels: int) -> Normalization | None:
        """What becomes of the values; None: they stay uint8.

        Raises:
            ConfigError: it is for another number of channels.
        """
        if self.normalize is None:
            return None
        return Normalization.of(self.normalize, channels=channels, dtype=self.dtype)

    @property
    def keeps_whole(self) -> bool:
        """Whether no part of an image is cut off."""
        return self.augment is None and self.resize != "crop"

    @property
    def pads(self) -> bool:
        """Whether there is black around an image of another aspect."""
        return self.augment is None and self.resize == "pad"

    def box_of(self, shape: Any, seed: tf.Tensor | None) -> Box:
        """What is kept of an image of `shape`."""
        assert self.size is not None
        if self.augment:
            assert seed is not None
            return random_box(shape, seed, self.crop_area, self.crop_aspect)
        if self.resize == "crop":
            return centre_box(shape[:2], self.size)
        return Box([0, 0], shape[:2])

    def _target(self, box: Box) -> Any:
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

    def _pad(self, pixels: tf.Tensor, target: Any) -> tf.Tensor:
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
                normalized(pixels, normalization)
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
    if "BMP" in formats:
        asked = 3 if channels == 3 else 0  # of a grey BMP the op refuses to be asked for one
        pixels = tf.io.decode_image(encoded, channels=asked, expand_animations=False)
        return tf.ensure_shape(pixels, (None, None, channels))
    # The op reads PNG and GIF too.
    return tf.io.decode_jpeg(encoded, channels=channels, dct_method=_EXACT)


def _resize(pixels: tf.Tensor, target: tuple[Any, Any], *, nearest: bool = False) -> tf.Tensor:
    """`tf.image.resize` without its many small ops. Float32, but for the nearest or what fits."""
    if isinstance(target, tuple) and pixels.shape[-3:-1].as_list() == list(target):
        return pixels
    resize = tf.raw_ops.ResizeNearestNeighbor if nearest else tf.raw_ops.ResizeBilinear
    is_one = pixels.shape.rank == 3
    images = pixels[tf.newaxis] if is_one else pixels
    resized = resize(images=images, size=target, half_pixel_centers=True)
    return resized[0] if is_one else resized


def _is_any_of(value: Any, *allowed: Any) -> bool:
    """Not by equality, in which True is 1."""
    return any(value is one for one in allowed)


def _is_pair(value: Any, kind: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) == 2
        and all(isinstance(n, kind) and not isinstance(n, bool) and n > 0 for n in value)
    )


def _is_range(value: Any) -> bool:
    return _is_pair(value, (int, float)) and value[0] <= value[1]
