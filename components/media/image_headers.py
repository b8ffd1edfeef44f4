"""Whether an image file is whole and such as every reader takes. No pixel is decoded.

    structure = scan_image(data)              # before any library sees the file
    image = open_image(data, structure, max_pixels=89_478_485)
    channels_of(data, image)      # 3, and why it must be converted, if so

It takes 10 to 60 µs for a photo. Of JPEG and PNG the bytes are walked; what others are does not
matter, since all of them are decoded.
"""

from PIL import Image, TiffImagePlugin, UnidentifiedImageError, WebPImagePlugin  # noqa: F401  the latter two register

from components.common.rejects import RejectedInputError
from components.media.jpeg_structure import scan_jpeg
from components.media.pixels import ImageBytes
from components.media.png_structure import scan_png
from components.media.structure import ImageStructure
from trainer_utils.format.media_formats import (
    FORMATS,
    JPEG,
    PNG,
    RIFF,
    format_of,
    is_other_image,
    packing_of,
)
from trainer_utils.storage.file_system import is_fault

# Others stay unopened: EPS, for one, would run Ghostscript.
_FORMATS = tuple(known.name for known in FORMATS if known.kind == "image")
_PNG_BIT_DEPTH = 24  # where it stands in the file
_SIXTEEN = 16
_CHANNELS = {"1": 1, "L": 1, "LA": 2, "P": 3, "RGB": 3, "RGBA": 4, "CMYK": 3, "YCbCr": 3}  # by mode
_REASONS = {"1": "BIT_DEPTH", "P": "PALETTE", "CMYK": "CMYK"}


def scan_image(data: bytes) -> ImageStructure:
    """Walks a JPEG or PNG from mark to mark; knows nothing of others.

    Raises:
        RejectedInputError: TRUNCATED_IMAGE, DAMAGED_IMAGE, UNSUPPORTED_FORMAT, UNSUPPORTED_COLOUR
            or TOO_MANY_PIXELS.
    """
    if data.startswith(JPEG):
        return scan_jpeg(data)
    return scan_png(data) if data.startswith(PNG) else ImageStructure(is_lossy=b"VP8 " in data[:64])


_UNKNOWN = ImageStructure()


def open_image(
    data: bytes, structure: ImageStructure = _UNKNOWN, *, max_pixels: int
) -> Image.Image:
    """Opens a file, and refuses what is none of ours or too large, before any pixel is decoded.

    Args:
        data: a whole file.
        structure: what its marks say. Pillow must read the same: it decodes into memory of the
            size that it found, libjpeg as much as it found itself.
        max_pixels: of all frames together.

    Raises:
        RejectedInputError: NOT_AN_IMAGE, UNSUPPORTED_FORMAT, TRUNCATED_IMAGE, DAMAGED_IMAGE or
            TOO_MANY_PIXELS.
    """
    try:
        image = Image.open(ImageBytes(data), formats=_FORMATS)
        frames = frames_of(image)
    except Image.DecompressionBombError as error:
        raise RejectedInputError("TOO_MANY_PIXELS", str(error)) from error
    except Exception as error:  # Pillow raises a dozen kinds on hostile headers
        if is_fault(error):
            raise
        raise _not_opened(data, error) from error
    width, height = image.size
    if width < 1 or height < 1:
        raise RejectedInputError("DAMAGED_IMAGE", f"expected some pixels, got {width} x {height}")
    if width * height * frames > max_pixels:
        of_frames = f" in {frames} frames" if frames > 1 else ""
        raise RejectedInputError(
            "TOO_MANY_PIXELS", f"expected at most {max_pixels}, got {width} x {height}{of_frames}"
        )
    kind = "JPEG" if image.format == "MPO" else image.format
    if structure.format is not None and (kind, image.size) != (structure.format, structure.size):
        raise RejectedInputError(
            "DAMAGED_IMAGE",
            f"expected one header, got {kind} of {image.size} and "
            f"{structure.format} of {structure.size}",
        )
    return image


def frames_of(image: Image.Image) -> int:
    """How many frames or pages it has. Of what phones write as MPO only the first is a photo."""
    if image.format in ("JPEG", "MPO"):
        return 1
    return int(getattr(image, "n_frames", 1))


def channels_of(data: bytes, image: Image.Image) -> tuple[int, str | None]:
    """The channels of a file, and why it must be converted, if so.

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
    if kind not in ("JPEG", "MPO", "PNG"):  # of which readers of datasets know too little
        return channels, kind
    if kind == "PNG" and data[_PNG_BIT_DEPTH] == _SIXTEEN:
        return channels, "SIXTEEN_BIT"
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
    except Exception as error:  # as above
        if is_fault(error):
            raise
        return None
    stream = ImageBytes(data)
    tags = TiffImagePlugin.ImageFileDirectory_v2(stream.read(16 if data[2:3] == b"+" else 8))
    stream.seek(tags.next)
    tags.load(stream)
    facts = {"bits a sample": 258, "compression": 259, "samples a pixel": 277, "sample format": 339}
    found = ", ".join(f"{name} {tags[tag]}" for name, tag in facts.items() if tag in tags)
    return f"a TIFF of a kind that Pillow does not read: {found}"
