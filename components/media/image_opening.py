"""Open an image file by its format, and name the package that a format needs.

    image = open_by_format(io.BytesIO(data), data[:64])
    missing_reader("HEIF")      # None, or a sentence that names the package to install

`PIL.Image.open` is not used: its bound on pixels is a global of the host program's, and it tries
every format that any package registered.
"""

import functools
import importlib
import struct
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np
from PIL import (
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    UnidentifiedImageError,
    WebPImagePlugin,
)

from trainer_utils.format.media_formats import format_of

_Factory = Callable[[Any, str], Image.Image]
_FACTORIES: dict[str, _Factory] = {
    "JPEG": JpegImagePlugin.jpeg_factory,
    "PNG": PngImagePlugin.PngImageFile,
    "GIF": GifImagePlugin.GifImageFile,
    "BMP": BmpImagePlugin.BmpImageFile,
    "TIFF": TiffImagePlugin.TiffImageFile,
    "WEBP": WebPImagePlugin.WebPImageFile,
}
_MISSING = {
    "AVIF": "an AVIF image, which this Pillow does not read: run pip install 'pillow>=11.3', whose "
    "wheels on PyPI do",
    "HEIF": "a HEIC image, as iPhones take them: run pip install 'tfx-shards[heif]' to read it",
}
# Errors that Pillow raises for a header of another format.
_NOT_OF_FORMAT = (SyntaxError, IndexError, TypeError, struct.error)


def open_by_format(stream: BinaryIO, head: bytes) -> Image.Image:
    """Open an image without decoding a pixel.

    Raises:
        UnidentifiedImageError: no supported format begins with `head`, the first 64 bytes, the
            header is not that format's, or the format's reader is not installed.
        Exception: any that Pillow raises on a hostile header.
    """
    known = format_of(head)
    factory = None if known is None else _factory(known.name)
    if factory is None:
        raise UnidentifiedImageError("no supported image format")
    try:
        return factory(stream, "")
    except _NOT_OF_FORMAT as error:
        raise UnidentifiedImageError(f"not a whole header: {error}") from error


def missing_reader(name: str) -> str | None:
    """Return the kind of image and how to install its reader; None if it can be read."""
    return None if name not in _MISSING or _factory(name) is not None else _MISSING[name]


def in_eight_bits(image: Image.Image) -> Image.Image:
    """Return an 8-bit image for viewing; 16-bit grey levels are scaled from the range in use."""
    if not image.mode.startswith("I;16"):
        return image
    pixels = np.asarray(image, np.uint32)
    return Image.fromarray((pixels * 255 // max(int(pixels.max(initial=0)), 1)).astype(np.uint8))


@functools.cache
def _factory(name: str) -> _Factory | None:
    try:
        if name == "AVIF":
            from PIL import AvifImagePlugin  # since Pillow 11.3

            return AvifImagePlugin.AvifImageFile if AvifImagePlugin.SUPPORTED else None
        if name == "HEIF":
            factory: _Factory = importlib.import_module("pillow_heif").HeifImageFile
            return factory
    except ImportError:
        return None
    return _FACTORIES.get(name)
