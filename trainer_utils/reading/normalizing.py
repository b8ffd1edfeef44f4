"""Pixel values as a model takes them: from 0 to 255 to what `normalize` says, in floats.

    imagenet = Normalization.of("imagenet", channels=3, dtype="bfloat16")
    imagenet.convert(pixels)            # in a graph
    imagenet.write(pixels, to=batch[0]) # in place, outside of one

Means and standard deviations are those of values of 0 to 255.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trainer_utils.format import ConfigError

if TYPE_CHECKING:
    import tensorflow as tf

__all__ = ["DTYPES", "NORMALIZATIONS", "Normalization", "is_normalization"]

DTYPES = ("float32", "bfloat16", "float16")
# By name: mean and standard deviation, of all channels or of each.
NORMALIZATIONS: Mapping[str, tuple[Any, Any]] = {
    "unit": (0.0, 255.0),
    "symmetric": (127.5, 127.5),
    # Source: torchvision's constants for ImageNet, times 255.
    "imagenet": ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Normalization:
    """(value - mean) / deviation, each `(1,)` or `(channels,) float64`."""

    mean: npt.NDArray[np.float64]
    deviation: npt.NDArray[np.float64]
    dtype: str = "float32"

    @classmethod
    def of(cls, given: Any, *, channels: int, dtype: str) -> "Normalization":
        """That of a name, or of `(mean, deviation)`.

        Raises:
            ConfigError: it has numbers for other channels.
        """
        pair: Any = NORMALIZATIONS[given] if isinstance(given, str) else given
        mean, deviation = (np.asarray(part, np.float64) for part in pair)
        if {mean.size, deviation.size} - {1, channels}:
            raise ConfigError.of("normalize", given, allowed=f"numbers for {channels} channels")
        return cls(mean.reshape(-1), deviation.reshape(-1), dtype)

    def convert(self, pixels: "tf.Tensor") -> "tf.Tensor":
        """Of `(…, channels)` of any numbers."""
        import tensorflow as tf  # settings are checked without it

        scale = (1 / self.deviation).astype(np.float32)
        offset = (-self.mean / self.deviation).astype(np.float32)
        return tf.cast(tf.cast(pixels, tf.float32) * scale + offset, self.dtype)

    def write(self, pixels: npt.NDArray[np.uint8], *, to: npt.NDArray[np.generic]) -> None:
        """Of `(height, width, channels) uint8` into an array of that shape and of `dtype`.

        A photo of 224 x 224 takes 50 us with OpenCV, decoding it some 900.
        """
        import cv2

        if self.dtype != "float32":
            cv2.LUT(pixels, self._table(pixels.shape[-1]), to.view(np.uint16))
            return
        # One pass converts and subtracts, the other scales what is still in the cache. By a whole
        # row of factors, since numpy's loop over three channels would be a short one.
        mean = (*np.resize(self.mean, pixels.shape[-1]), 0, 0, 0)[:4]
        cv2.subtract(pixels, mean, to, dtype=cv2.CV_32F)
        rows = to.reshape(len(to), -1)
        np.multiply(rows, np.resize(self._scale, rows.shape[1]), out=rows)

    @functools.cached_property
    def _scale(self) -> npt.NDArray[np.float32]:
        return (1 / self.deviation).astype(np.float32)

    @functools.cache  # noqa: B019 of what lives as long as its dataset
    def _table(self, channels: int) -> npt.NDArray[np.uint16]:
        """What each value becomes: `(1, 256, channels)`, the floats' bits, as OpenCV knows them."""
        import tensorflow as tf  # for bfloat16

        values = (np.arange(256)[:, np.newaxis] - self.mean) / self.deviation
        floats = tf.as_dtype(self.dtype).as_numpy_dtype
        bits = values.astype(floats).view(np.uint16)
        return np.ascontiguousarray(np.broadcast_to(bits, (1, 256, channels)))


def is_normalization(value: object) -> bool:
    """Whether `Normalization.of` takes it."""
    if value is None or isinstance(value, str):
        return value is None or value in NORMALIZATIONS
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return False
    try:
        mean, deviation = (np.asarray(part, np.float64) for part in value)
    except (TypeError, ValueError):
        return False
    are_shaped = all(part.shape in ((), (1,), (3,)) for part in (mean, deviation))
    return are_shaped and bool(np.isfinite(mean).all() and (deviation > 0).all())
