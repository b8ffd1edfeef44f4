"""Images as TFRecorder keeps them: pixels in URL-safe base64, and three integers for their size.

    is_base64_of(b"AAAA", (1, 1, 3))          # True
    decode_base64_pixels(b"AAAA")             # b"\\0\\0\\0", of which rows come first, then columns

Source: `tfrecorder/beam_image.py` of tfrecorder 2.0, which encodes `PIL.Image.tobytes()`, of mode L
or RGB, with the alphabet of RFC 4648, section 5.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["BASE64", "BASE64_SIZES", "base64_size", "decode_base64_pixels", "is_base64_of"]

BASE64 = "base64"
"""This encoding, as `Feature.extra` has it."""

BASE64_SIZES = ("_height", "_width", "_channels")
"""What comes after an image's name in those of the integers that say its size."""

_TEXT = re.compile(rb"[A-Za-z0-9_-]*={0,2}")


def base64_size(name: str, values: Mapping[str, Sequence[Any]]) -> tuple[int, int, int] | None:
    """The size that the integers beside a feature say: height, width, channels; None: they do not.

    Args:
        name: of the feature.
        values: of an example's features by name.
    """
    sizes = [values.get(name + part, ()) for part in BASE64_SIZES]
    if not all(len(size) == 1 and isinstance(size[0], int) and size[0] > 0 for size in sizes):
        return None
    height, width, channels = (size[0] for size in sizes)
    return (height, width, channels) if channels in (1, 3) else None


def is_base64_of(value: bytes, size: tuple[int, int, int]) -> bool:
    """Whether a value is base64 of as many pixels as a size says."""
    height, width, channels = size
    num_bytes = len(value) // 4 * 3 - value.count(b"=", max(len(value) - 2, 0))
    is_whole = len(value) % 4 == 0 and num_bytes == height * width * channels
    return is_whole and _TEXT.fullmatch(value) is not None


def decode_base64_pixels(value: bytes) -> bytes:
    """The pixels, uint8.

    Raises:
        ValueError: it is no base64.
    """
    return base64.b64decode(value, altchars=b"-_", validate=True)
