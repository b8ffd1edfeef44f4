"""Encoded images to pixels: JPEGs by simplejpeg, PNGs by OpenCV, all else by Pillow.

Their pixels are those of `tf.io.decode_jpeg(dct_method="INTEGER_ACCURATE")` and `decode_png`; CMYK
and the like within a level. Tags of EXIF turn nothing: images are turned when they are written.
"""

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trainer_utils.format.media_formats import (
    BASELINE,
    EXTENDED,
    FRAMES,
    JPEG,
    PNG,
    SOS,
    frame_at,
    jpeg_segments,
)

if TYPE_CHECKING:
    from trainer_utils.reading.images import ImagePlan


_COLOURS = {1: "GRAY", 3: "RGB"}
_MODES = {1: "L", 3: "RGB"}
_COLOUR_SPACES = ("YCbCr", "Gray")  # in simplejpeg's words
_SMALLEST_SCALED = 16  # pixels; of less, simplejpeg's choice of a scale is not clear
_MARGIN = 2  # rows below a part that smoothing of colours looks at
_END = b"\xff\xd9"
_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF")  # of Pillow's; some others run programs

Pixels = npt.NDArray[np.uint8]
Data = bytes | memoryview


def plain_jpeg_size(data: Data) -> tuple[int, int] | None:
    """Height and width of a JPEG that simplejpeg reads as all decoders do."""
    import simplejpeg

    if data[: len(JPEG)] != JPEG:
        return None
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data)
    except (KeyError, ValueError):  # the former of samplings that it does not know, as 4:4:1
        return None
    return (height, width) if colours in _COLOUR_SPACES else None


def decode_jpeg_part(
    data: Data, size: tuple[int, int], plan: "ImagePlan", *, channels: int
) -> Pixels | None:
    """What is kept of a plain JPEG, at the scale that is enough; None: decode it otherwise."""
    import simplejpeg

    (height, width), ratio = size, plan.ratio
    if ratio > 1 and max(size) < _SMALLEST_SCALED:
        return None
    top, left, rows, columns = plan.scaled_box
    needed = (top + rows + _MARGIN) * ratio
    given = _cut_to(data, needed) if needed < height else data
    if given is not data:
        height = needed
    try:
        pixels: Pixels = simplejpeg.decode_jpeg(
            given,
            _COLOURS[channels],
            min_height=-(-height // ratio) if ratio > 1 else 0,
            min_width=-(-width // ratio) if ratio > 1 else 0,
            strict=given is data,
        )
    except ValueError:
        return None
    return pixels[top : top + rows, left : left + columns]


def _cut_to(data: Data, rows: int) -> Data | bytearray:
    """A JPEG less high, if that spares decoding its rest; else as it is.

    A scan's blocks come from the top of the image to the bottom, and a decoder stops after the last
    row and only warns of what follows. What is not known to be whole to its end is left as it is.
    """
    frame = None
    for start, marker, _ in jpeg_segments(data) if data[-2:] == _END else ():
        if marker in FRAMES and frame is None:
            frame = frame_at(data, start, marker)
        elif marker == SOS and frame is not None:
            has_all = data[start + 4 : start + 5] == bytes([frame.components])
            if has_all and frame.process in (BASELINE, EXTENDED):  # one scan, row by row
                cut = bytearray(data)
                cut[frame.height_offset : frame.height_offset + 2] = rows.to_bytes(2, "big")
                return cut
    return data


def image_size(data: Data) -> tuple[int, int]:
    """Height and width, which the head says; raises what Pillow raises."""
    if data[: len(PNG)] == PNG and len(data) >= 24:
        return int.from_bytes(data[20:24], "big"), int.from_bytes(data[16:20], "big")
    with _opened(data) as image:
        width, height = image.size
    return height, width


def decode_image(data: Data, *, channels: int, keeps_values: bool = False) -> Pixels:
    """An image of any format, `(height, width, channels)`; of a film, its first picture.

    With `keeps_values` a grey or indexed image's stay as they are, as in maps of class ids. Raises
    whatever its decoder does where it cannot be decoded, or its end is missing.
    """
    import cv2

    if data[: len(PNG)] == PNG and not keeps_values:
        kind = cv2.IMREAD_GRAYSCALE if channels == 1 else cv2.IMREAD_COLOR
        flags = kind | cv2.IMREAD_IGNORE_ORIENTATION
        found: Any = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        if found is None:  # which it says where memory ends, too
            with _opened(data) as image:
                image.load()
            raise ValueError("a PNG that is damaged or not whole")
        if channels == 3:
            cv2.cvtColor(found, cv2.COLOR_BGR2RGB, found)
        return np.asarray(found, np.uint8).reshape(*found.shape[:2], channels)
    with _opened(data) as image:
        if image.format == "JPEG" and channels == 1:
            image.draft("L", image.size)  # its own luminance
        if image.mode.startswith("I;16"):  # Pillow would cut off what is more than 255
            pixels = (np.asarray(image) >> 8).astype(np.uint8)
        elif keeps_values and image.mode in ("L", "P"):
            pixels = np.asarray(image)
        else:
            pixels = np.asarray(image.convert(_MODES[channels]))
    return pixels.reshape(*pixels.shape[:2], -1)


def _opened(data: Data) -> Any:
    from PIL import Image, UnidentifiedImageError

    try:
        return Image.open(io.BytesIO(data), formats=_FORMATS)
    except UnidentifiedImageError as error:  # whose text is the address of an object
        raise ValueError(f"{bytes(data[:8])!r}…, none of {', '.join(_FORMATS)}") from error
