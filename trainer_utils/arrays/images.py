"""Images to arrays of numpy, with the pixels of the turbo decoder; no TensorFlow.

    decoder = ImageDecoder(settings, channels=3)
    pixels = decoder.decode([b"\\xff\\xd8…", …])      # (batch, height, width, 3) uint8

Plain JPEGs are decoded by simplejpeg and resized by OpenCV, as `input_fn` does it; all else, and
all where these are not installed, by Pillow, whose pixels may differ by a level or two.
"""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils.format import ConfigError, DatasetError
from trainer_utils.reading.crops import CropBox, centre_box, inner_extent
from trainer_utils.reading.decoding_threads import run_in_threads
from trainer_utils.reading.image_plans import DecodePlan, Planner, decode_part
from trainer_utils.reading.image_settings import ImageSettings, is_turbo_installed

__all__ = ["ImageDecoder", "check_settings"]

_MODES = {1: "L", 3: "RGB"}
_GREY = np.array([0.2989, 0.5870, 0.1140], np.float32)  # as `tf.image.rgb_to_grayscale`

Pixels = npt.NDArray[Any]


def check_settings(settings: ImageSettings) -> None:
    """Refuses what only TensorFlow does.

    Raises:
        ConfigError: images are to be changed at random, or to become bfloat16.
    """
    if settings.is_random:
        raise ConfigError.of(
            "flip",
            True,
            allowed="None without TensorFlow, which draws what is random",
            advice="Change images in a pre_batching_callback, or read with input_fn",
        )
    if settings.normalize is not None and settings.dtype == "bfloat16":
        raise ConfigError.of(
            "image_dtype", settings.dtype, allowed="float32 or float16, as numpy has them"
        )


class ImageDecoder:
    """Decodes images as `settings` say, in threads.

    Args:
        settings: that `check_settings` accepts.
        channels: 1 or 3.
        label_map: they are maps of class ids: the nearest is taken, and values stay.
    """

    def __init__(self, settings: ImageSettings, *, channels: int, label_map: bool = False) -> None:
        self._settings, self._channels, self._label_map = settings, channels, label_map
        self._normalization = None if label_map else settings.normalization(channels)
        is_fast = is_turbo_installed() and not label_map
        self._planner = Planner(settings) if is_fast else None

    def decode(self, images: Sequence[bytes]) -> list[Pixels]:
        """`(height, width, channels)` of each, uint8 or, normalised, floats.

        Raises:
            DatasetError: one is no image that Pillow reads.
        """
        found: list[Pixels] = [np.zeros(0)] * len(images)
        plans: Sequence[DecodePlan | None] = [None] * len(images)
        if self._planner is not None:
            plans = self._planner.of(list(images), None)

        def work(index: int) -> None:
            found[index] = self._finish(self._decode(images[index], plans[index]))

        run_in_threads(lambda: work, len(images))
        return found

    def convert(self, pixels: Pixels) -> Pixels:
        """Brings pixels that need no decoding to the same form."""
        wanted = self._settings.channels
        if not self._label_map and wanted not in (None, pixels.shape[-1]):
            if wanted == 3:
                pixels = np.repeat(pixels, 3, axis=-1)
            else:
                grey = (pixels.astype(np.float32) @ _GREY)[..., np.newaxis]
                pixels = grey.astype(np.uint8)
        return self._finish(self._fit(pixels))

    def _decode(self, data: bytes, plan: DecodePlan | None) -> Pixels:
        if plan is not None:
            part = decode_part(data, plan, channels=self._channels)
            if part is not None:
                return self._resized(part, plan.target)
        return self._fit(self._by_pillow(data))

    def _by_pillow(self, data: bytes) -> Pixels:
        from PIL import Image

        try:
            with Image.open(io.BytesIO(data)) as image:
                if image.format == "JPEG" and self._channels == 1:
                    image.draft("L", image.size)  # its own luminance
                is_indexed = self._label_map and image.mode in ("L", "P")
                pixels = np.array(image if is_indexed else image.convert(_MODES[self._channels]))
        except (OSError, SyntaxError, ValueError) as error:
            raise DatasetError(f"image: expected one that can be decoded: {error}") from error
        return pixels.reshape(*pixels.shape[:2], -1)

    def _fit(self, pixels: Pixels) -> Pixels:
        """Cuts and resizes decoded pixels."""
        settings = self._settings
        if settings.size is None:
            return pixels
        extent = np.array(pixels.shape[:2], np.int32)
        box = CropBox(np.zeros(2, np.int32), extent)
        if settings.resize == "crop":
            box = centre_box(extent, settings.size)
        target = inner_extent(box.extent, settings.size) if settings.pads else settings.size
        (top, left), (height, width) = box.begin.tolist(), box.extent.tolist()
        part = pixels[top : top + height, left : left + width]
        return self._resized(part, (int(target[0]), int(target[1])))

    def _resized(self, pixels: Pixels, target: tuple[int, int]) -> Pixels:
        settings = self._settings
        if pixels.shape[:2] != tuple(target):
            pixels = _nearest(pixels, target) if self._label_map else _bilinear(pixels, target)
        if settings.size is None or not settings.pads:
            return pixels
        spare = np.subtract(settings.size, target)
        margins = [(n // 2, n - n // 2) for n in spare.tolist()]
        return np.pad(pixels, [*margins, (0, 0)])

    def _finish(self, pixels: Pixels) -> Pixels:
        if self._normalization is None:
            return pixels
        if is_turbo_installed():
            floats = np.empty(pixels.shape, self._settings.dtype)
            self._normalization.write(np.ascontiguousarray(pixels), to=floats)
            return floats
        mean, deviation = self._normalization.mean, self._normalization.deviation
        return ((pixels - mean) / deviation).astype(self._settings.dtype)


def _nearest(pixels: Pixels, target: tuple[int, int]) -> Pixels:
    """As `tf.image.resize(…, "nearest")`: of pixels whose centres lie at halves."""
    places = [
        np.minimum(((np.arange(new) + 0.5) * (old / new)).astype(np.int64), old - 1)
        for new, old in zip(target, pixels.shape, strict=False)
    ]
    found: Pixels = pixels[places[0]][:, places[1]]
    return found


def _bilinear(pixels: Pixels, target: tuple[int, int]) -> Pixels:
    height, width = target
    if is_turbo_installed():
        import cv2

        resized = cv2.resize(
            np.ascontiguousarray(pixels), (width, height), interpolation=cv2.INTER_LINEAR
        )
        found: Pixels = resized.reshape(height, width, -1)
        return found
    mixed: Pixels = pixels.astype(np.float32)
    for axis, new in enumerate(target):
        old = mixed.shape[axis]
        place = np.clip((np.arange(new) + 0.5) * (old / new) - 0.5, 0, old - 1)
        low = place.astype(np.int64)
        share = (place - low).astype(np.float32).reshape([-1 if n == axis else 1 for n in range(3)])
        high = np.minimum(low + 1, old - 1)
        mixed = mixed.take(low, axis) * (1 - share) + mixed.take(high, axis) * share
    rounded: Pixels = np.rint(mixed).astype(np.uint8)
    return rounded
