"""What an image file's header says. No pixel is decoded.

image = open_image(data, max_pixels=89_478_485)
channels_of(data, image)      # 3, and why it must be converted, if so: what TensorFlow decodes to
"""

from PIL import Image, TiffImagePlugin, UnidentifiedImageError, WebPImagePlugin  # noqa: F401  the latter two register

from components.common.rejects import RejectedInputError
from components.media.image_structure import is_plain_bmp
from components.media.pixels import ImageBytes
from trainer_utils.format.media_formats import FORMATS, RIFF, format_of, is_other_image, packing_of

__all__ = ["channels_of", "frames_of", "open_image"]

# Others stay unopened: EPS, for one, would run Ghostscript.
_FORMATS = tuple(known.name for known in FORMATS if known.kind == "image")
_PNG_BIT_DEPTH, _BMP_BITS = 24, slice(28, 30)  # where they stand in the file
_SIXTEEN = 16
_CHANNELS = {"1": 1, "L": 1, "LA": 2, "P": 3, "RGB": 3, "RGBA": 4, "CMYK": 3, "YCbCr": 3}  # by mode
_REASONS = {"1": "BIT_DEPTH", "P": "PALETTE", "CMYK": "CMYK"}


def open_image(data: bytes, *, max_pixels: int) -> Image.Image:
    """Opens a file, and refuses what is none of ours or too large, before any pixel is decoded.

    Raises:
        RejectedInputError: NOT_AN_IMAGE, UNSUPPORTED_FORMAT, TRUNCATED_IMAGE, DAMAGED_IMAGE or
            TOO_MANY_PIXELS.
    """
    try:
        image = Image.open(ImageBytes(data), formats=_FORMATS)
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
    known = format_of(data)
    if known is not None and known.name == "BMP" and _is_bmp_header_whole(data, error):
        return RejectedInputError("UNSUPPORTED_FORMAT", str(error))
    if known is not None and known.name == "TIFF" and (variant := _unknown_tiff(data)):
        return RejectedInputError("UNSUPPORTED_FORMAT", variant)
    if is_other_image(data):
        return RejectedInputError(
            "UNSUPPORTED_FORMAT", f"expected {', '.join(_FORMATS)}, begins {data[:8]!r}"
        )
    if known is not None or data.startswith(RIFF):
        return RejectedInputError("TRUNCATED_IMAGE", "the header is cut short or bad")
    if (packing := packing_of(data)) is not None:
        return RejectedInputError("UNSUPPORTED_FORMAT", f"{packing}. Unpack it first")
    return RejectedInputError("NOT_AN_IMAGE", f"no image format begins with {data[:8]!r}")


def _is_bmp_header_whole(data: bytes, error: Exception) -> bool:
    """Whether Pillow has read a BMP's header, and does not know what it says.

    It raises an OSError then as well as at the file's end; what is no BMP to it is another one.
    """
    size = int.from_bytes(data[14:18], "little")
    is_known = isinstance(error, OSError) and not isinstance(error, UnidentifiedImageError)
    return is_known and len(data) >= 14 + size


def _unknown_tiff(data: bytes) -> str | None:
    """What a TIFF is whose header is whole, but not known to Pillow; None of any other.

    Pillow looks up its compression and its samples in tables, and says only which key is missing.
    """
    try:
        TiffImagePlugin.TiffImageFile(ImageBytes(data))
    except SyntaxError as error:
        if not isinstance(error.__cause__, KeyError):
            return None
    except Exception:  # as above
        return None
    stream = ImageBytes(data)
    tags = TiffImagePlugin.ImageFileDirectory_v2(stream.read(16 if data[2:3] == b"+" else 8))
    stream.seek(tags.next)
    tags.load(stream)
    facts = {"bits a sample": 258, "compression": 259, "samples a pixel": 277, "sample format": 339}
    found = ", ".join(f"{name} {tags[tag]}" for name, tag in facts.items() if tag in tags)
    return f"a TIFF of a kind that Pillow does not read: {found}"
