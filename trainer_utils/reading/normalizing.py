"""Pixel values as a model takes them: from 0 to 255 to what `normalize` says, in floats.

    imagenet = Normalization.of("imagenet", channels=3, dtype="bfloat16")
    imagenet.write(pixels, to=batch[0])

Means and standard deviations are those of values of 0 to 255.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils.format import ConfigError

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
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, given: Any, *, channels: int, dtype: str) -> "Normalization":
        """That of a name, or of `(mean, deviation)`.

        Raises:
            ConfigError: it has numbers for other channels, or there is no such type here.
        """
        pair: Any = NORMALIZATIONS[given] if isinstance(given, str) else given
        mean, deviation = (np.asarray(part, np.float64) for part in pair)
        if {mean.size, deviation.size} - {1, channels}:
            raise ConfigError.of("normalize", given, allowed=f"numbers for {channels} channels")
        return cls(mean.reshape(-1), deviation.reshape(-1), _dtype(dtype))

    def write(self, pixels: npt.NDArray[np.uint8], *, to: npt.NDArray[Any]) -> None:
        """Of `(height, width, channels) uint8` into an array of that shape and of `dtype`.

        There are 256 values, so it is a look-up in one pass; of channels that differ, in float32,
        OpenCV's own multiplication, in place, takes two thirds of its time (85 and 126 us of
        224 x 224).
        """
        import cv2

        table = self._table
        if table.shape[-1] == 1:  # all channels are alike, which takes less
            pixels, to = pixels.reshape(len(pixels), -1), to.reshape(len(to), -1)
        elif self.dtype == np.float32:
            np.copyto(to, pixels)
            cv2.transform(to, self._matrix, to)
            return
        cv2.LUT(pixels, table, to.view(table.dtype))

    @functools.cached_property
    def _matrix(self) -> npt.NDArray[np.float64]:
        """What makes a pixel of itself and a 1 after it: `(channels, channels + 1)`."""
        channels = max(self.mean.size, self.deviation.size)
        offsets = np.broadcast_to(-self.mean / self.deviation, channels)
        scales = np.broadcast_to(1 / self.deviation, channels)
        return np.column_stack([np.diag(scales), offsets])

    @functools.cached_property
    def _table(self) -> npt.NDArray[Any]:
        """What each value becomes: `(1, 256, 1 or channels)`.

        Floats of 16 bits as integers of the same bits, since OpenCV does not know them.
        """
        floats = ((np.arange(256)[:, np.newaxis] - self.mean) / self.deviation).astype(self.dtype)
        table = floats if floats.itemsize == 4 else floats.view(np.uint16)
        return np.ascontiguousarray(table[np.newaxis])


def _dtype(name: str) -> np.dtype[Any]:
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError as error:
        raise ConfigError.of(
            "dtype",
            name,
            allowed="float32 or float16 where ml_dtypes is not installed",
            advice="pip install ml_dtypes, which TensorFlow and jax bring",
        ) from error
    return np.dtype(ml_dtypes.bfloat16)


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
