"""What an image looks like, in a kilobyte: for finding its copies, and images that are odd.

    sketch = sketch_image(data)          # None where Pillow cannot read it
    sketch.thumbnail.shape               # (32, 32): grey levels, whatever the image's shape
    sketch.brightness, sketch.sharpness

A JPEG is decoded at an eighth of its size, without its colours, since that is all that is looked
at. All is done in integers, so that every machine finds the same.
"""

import dataclasses
import io

import numpy as np
import numpy.typing as npt
from PIL import Image

from trainer_utils.format.image_size import image_size

__all__ = ["THUMBNAIL_SIDE", "ImageSketch", "read_thumbnail", "sketch_image", "sketch_pixels"]

THUMBNAIL_SIDE = 32
_NOT_READ = (
    OSError,
    SyntaxError,
    ValueError,
    ArithmeticError,
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,  # where warnings are errors
)
Pixels = npt.NDArray[np.uint8]

_DECODED_SIDE = 64  # at the least, of what a JPEG is decoded to: twice the thumbnail's


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageSketch:
    """An image at a glance.

    Args:
        thumbnail: `(32, 32) uint8`, mean grey levels of equal parts of the image.
        height, width: of the image, in pixels.
        brightness: mean grey level, in [0, 255].
        contrast: standard deviation of the thumbnail's grey levels.
        sharpness: mean absolute Laplacian of the image at 64 x 64 pixels, in grey levels.
    """

    thumbnail: Pixels
    height: int
    width: int
    brightness: float
    contrast: float
    sharpness: float


def sketch_image(data: bytes) -> ImageSketch | None:
    """Looks at an encoded image; None where it is none that Pillow reads."""
    found = image_size(data)
    try:
        with Image.open(io.BytesIO(data)) as image:
            width, height = image.size if found is None else (found.width, found.height)
            return _sketch(_decoded(image), height, width)
    except _NOT_READ:
        return None


def read_thumbnail(data: bytes) -> Pixels | None:
    """The thumbnail alone, `(32, 32) uint8`; None where Pillow does not read the image."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            return _thumbnail(_small(_decoded(image)))
    except _NOT_READ:
        return None


def sketch_pixels(pixels: Pixels) -> ImageSketch:
    """The same of `(height, width, channels) uint8`, of 1, 3 or 4 channels."""
    height, width, channels = pixels.shape
    image = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
    return _sketch(image.convert("L"), height, width)


def _decoded(image: Image.Image) -> Image.Image:
    """The grey levels of an image that was opened."""
    image.draft("L", (_DECODED_SIDE, _DECODED_SIDE))
    return image.convert("L")


def _small(grey: Image.Image) -> npt.NDArray[np.int32]:
    small = grey.resize((_DECODED_SIDE, _DECODED_SIDE), Image.Resampling.BOX)
    return np.asarray(small, np.int32)


def _thumbnail(pixels: npt.NDArray[np.int32]) -> Pixels:
    quads = pixels.reshape(THUMBNAIL_SIDE, 2, THUMBNAIL_SIDE, 2).sum(axis=(1, 3))
    return np.asarray(quads // 4, np.uint8)


def _sketch(grey: Image.Image, height: int, width: int) -> ImageSketch:
    pixels = _small(grey)
    thumbnail = _thumbnail(pixels)
    around = pixels[:-2, 1:-1] + pixels[2:, 1:-1] + pixels[1:-1, :-2] + pixels[1:-1, 2:]
    edges = np.abs(4 * pixels[1:-1, 1:-1] - around)
    return ImageSketch(
        thumbnail=thumbnail,
        height=height,
        width=width,
        brightness=float(thumbnail.mean()),
        contrast=float(thumbnail.std()),
        sharpness=float(edges.mean()),
    )
