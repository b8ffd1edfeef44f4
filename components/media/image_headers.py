"""What an image file's header says. No pixel is decoded.

image = open_image(data, max_pixels=89_478_485)
channels_of(data, image)      # 3, and why it must be converted, if so: what TensorFlow decodes to
"""

import io

from PIL import Image, TiffImagePlugin, WebPImagePlugin  # noqa: F401  the latter two register

from components.common.rejects import RejectedInputError
from components.media.image_structure import is_plain_bmp

__all__ = ["IMAGE_HEADS", "channels_of", "frames_of", "open_image"]

# Others stay unopened: EPS, for one, would run Ghostscript.
_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF")
_PNG_BIT_DEPTH, _BMP_BITS = 24, slice(28, 30)  # where they stand in the file
_SIXTEEN = 16
_CHANNELS = {"1": 1, "L": 1, "LA": 2, "P": 3, "RGB": 3, "RGBA": 4, "CMYK": 3, "YCbCr": 3}  # by mode
_REASONS = {"1": "BIT_DEPTH", "P": "PALETTE", "CMYK": "CMYK"}
IMAGE_HEADS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM", b"II*\0", b"MM\0*")
"""How files of images begin, but for WebP, which is in a RIFF as sounds are."""
_OURS = (*IMAGE_HEADS, b"RIFF")
_OTHERS = (
    *(b"P%d" % number for number in range(1, 8)),  # PNM
    b"8BPS",
    b"%!PS",
    b"%PDF",
    b"<svg",
    b"\0\0\0\x0cjP  ",
    b"\xff\x4f\xff\x51",
    b"\0\0\1\0",
    b"qoif",
)
_OTHERS_AT_4 = (b"ftypheic", b"ftypheix", b"ftypmif1", b"ftypavif", b"ftypmsf1")


def open_image(data: bytes, *, max_pixels: int) -> Image.Image:
    """Opens a file, and refuses what is none of ours or too large, before any pixel is decoded.

    Raises:
        RejectedInputError: NOT_AN_IMAGE, UNSUPPORTED_FORMAT, TRUNCATED_IMAGE, DAMAGED_IMAGE or
            TOO_MANY_PIXELS.
    """
    try:
        image = Image.open(io.BytesIO(data), formats=_FORMATS)
        frames = frames_of(image)
    except Image.DecompressionBombError as error:
        raise RejectedInputError("TOO_MANY_PIXELS", str(error)) from error
    except MemoryError:  # says nothing of the file
        raise
    except Exception as error:  # Pillow raises a dozen kinds on hostile headers
        raise _not_opened(data, error) from error
    width, height = image.size
    if width < 1 or height < 1:
        raise RejectedInputError("DAMAGED_IMAGE", f"expected some pixels, got {width} x {height}")
    if width * height * frames > max_pixels:
        of_frames = f" in {frames} frames" if frames > 1 else ""
        raise RejectedInputError(
            "TOO_MANY_PIXELS", f"expected at most {max_pixels}, got {width} x {height}{of_frames}"
        )
    return image


def frames_of(image: Image.Image) -> int:
    """How many frames or pages it has. Of what phones write as MPO only the first is a photo."""
    if image.format in ("JPEG", "MPO", "BMP"):
        return 1
    return int(getattr(image, "n_frames", 1))


def channels_of(data: bytes, image: Image.Image) -> tuple[int, str | None]:
    """What TensorFlow decodes a file to, and why it had better be converted, if so.

    Returns:
        Channels, and a fixed upper-case word or None.

    Raises:
        RejectedInputError: UNSUPPORTED_COLOUR.
    """
    kind, mode = image.format, image.mode
    if mode.startswith("I;16"):
        return 1, "SIXTEEN_BIT"
    if mode not in _CHANNELS:
        raise RejectedInputError(
            "UNSUPPORTED_COLOUR", f"expected grey, RGB or CMYK, got {kind} in {mode}"
        )
    channels = _CHANNELS[mode]
    if mode == "P" and "transparency" in image.info:
        channels = 4
    if kind == "GIF":  # TensorFlow gives colours
        return 3, None
    if kind in ("WEBP", "TIFF"):
        return channels, kind
    if kind == "PNG" and data[_PNG_BIT_DEPTH] == _SIXTEEN:
        return channels, "SIXTEEN_BIT"
    if kind == "BMP":
        if is_plain_bmp(data, image):
            return int.from_bytes(data[_BMP_BITS], "little") // 8, None
        return channels, "BMP_VARIANT"
    return channels, _REASONS.get(mode)


def _not_opened(data: bytes, error: Exception) -> RejectedInputError:
    head = data[:16].lstrip()
    if data.startswith(b"BM") and str(error).startswith("Unsupported BMP"):
        return RejectedInputError("UNSUPPORTED_FORMAT", str(error))
    if data.startswith(_OTHERS) or head.startswith(_OTHERS) or data[4:].startswith(_OTHERS_AT_4):
        return RejectedInputError(
            "UNSUPPORTED_FORMAT", f"expected {', '.join(_FORMATS)}, begins {data[:8]!r}"
        )
    if data.startswith(_OURS):
        return RejectedInputError("TRUNCATED_IMAGE", "the header is cut short or bad")
    return RejectedInputError("NOT_AN_IMAGE", f"no image format begins with {data[:8]!r}")
