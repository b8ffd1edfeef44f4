"""Pixels as a PNG file, which loses nothing, by the standard library alone.

data = encode_png(np.zeros((32, 32, 3), np.uint8))

Source: PNG (ISO 15948), sections 5 and 11.2. Lines are filtered by the difference to the line
above, which numpy takes of a whole image at once.
"""

import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils.format.errors import DatasetError
from trainer_utils.format.media_formats import PNG

_COLOURS = {1: 0, 3: 2, 4: 6}  # colour type by channels: grey, RGB, RGBA
_UP = 2  # filter type
_LEVEL = 6


def encode_png(pixels: npt.NDArray[Any]) -> bytes:
    """A PNG file.

    Args:
        pixels: `(height, width)` or `(height, width, channels) uint8`, of 1, 3 or 4 channels.

    Raises:
        DatasetError: they have another shape or dtype.
    """
    shape = pixels.shape if pixels.ndim == 3 else (*pixels.shape, 1)
    if pixels.dtype != np.uint8 or len(shape) != 3 or shape[2] not in _COLOURS or 0 in shape:
        raise DatasetError(
            "pixels: expected (height, width) or (height, width, 1, 3 or 4) uint8, "
            f"got {pixels.shape} {pixels.dtype}"
        )
    height, width, channels = shape
    lines = np.zeros((height, 1 + width * channels), np.uint8)
    rows = pixels.reshape(height, width * channels)
    lines[:, 0] = _UP
    lines[:, 1:] = rows
    lines[1:, 1:] -= rows[:-1]
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOURS[channels], 0, 0, 0)
    data = zlib.compress(lines.tobytes(), _LEVEL)
    return PNG + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
