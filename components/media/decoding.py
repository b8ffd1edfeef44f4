"""What Pillow makes of an image file: opened, decoded, turned upright, encoded anew."""

import io

import numpy as np
from PIL import Image, TiffImagePlugin, UnidentifiedImageError, WebPImagePlugin  # noqa: F401  the latter two register

from components.common.rejects import RejectedInputError
from components.media.image_structure import ImageStructure
from trainer_utils.format.media_formats import FORMATS, RIFF, format_of, is_other_image, packing_of
from trainer_utils.storage.faults import is_fault

UPRIGHT = 1

# Others stay unopened: EPS, for one, would run Ghostscript.
_FORMATS = tuple(known.name for known in FORMATS if known.kind == "image")
_CHANNELS = {"1": 1, "L": 1, "LA": 2, "P": 3, "RGB": 3, "RGBA": 4, "CMYK": 3, "YCbCr": 3}  # by mode
_REASONS = {"1": "BIT_DEPTH", "P": "PALETTE", "CMYK": "CMYK"}
_ORIENTATION = 0x0112  # the tag of EXIF, and of TIFF
_METADATA = ("exif", "xmp", "XML:com.adobe.xmp", "Raw profile type exif")
_WAYS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_WAYS_BACK = _WAYS | {6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}
_UNKNOWN = ImageStructure()


class ImageBytes(io.BytesIO):
    """A file in memory that knows whether more was read than there is.

    Pillow raises the same OSError for a file that ends too early and for one with bad codes.
    """

    is_exhausted = False

    def read(self, size: int | None = -1, /) -> bytes:
        """As any file's."""
        data = super().read(size)
        self.is_exhausted |= not data
        return data


def open_image(
    data: bytes, structure: ImageStructure = _UNKNOWN, *, max_pixels: int
) -> Image.Image:
    """Opens a file, and refuses what is none of ours or too large, before any pixel is decoded.

    Args:
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
        got = f"{width} x {height}" + (f" in {frames} frames" if frames > 1 else "")
        raise RejectedInputError("TOO_MANY_PIXELS", f"expected at most {max_pixels}, got {got}")
    kind = "JPEG" if image.format == "MPO" else image.format
    if structure.format is not None and (kind, image.size) != (structure.format, structure.size):
        raise RejectedInputError(
            "DAMAGED_IMAGE",
            f"expected one header, got {kind} of {image.size} and "
            f"{structure.format} of {structure.size}",
        )
    return image


def _not_opened(data: bytes, error: Exception) -> RejectedInputError:
    known = format_of(data)
    if known is not None and (
        (known.name == "BMP" and _is_unknown_bmp(data, error))
        or (known.name == "TIFF" and _is_unknown_tiff(data))
    ):
        detail = f"a {known.name} of a kind that Pillow does not read: {error}"
        return RejectedInputError("UNSUPPORTED_FORMAT", detail)
    if is_other_image(data):
        detail = f"expected {', '.join(_FORMATS)}, begins {data[:8]!r}"
        return RejectedInputError("UNSUPPORTED_FORMAT", detail)
    if known is not None or data.startswith(RIFF):
        return RejectedInputError("TRUNCATED_IMAGE", "the header is cut short or bad")
    if (packing := packing_of(data)) is not None:
        return RejectedInputError("UNSUPPORTED_FORMAT", f"{packing}. Unpack it first")
    return RejectedInputError("NOT_AN_IMAGE", f"no image format begins with {data[:8]!r}")


def _is_unknown_bmp(data: bytes, error: Exception) -> bool:
    """Whether a BMP's header is whole; at the file's end Pillow raises an OSError as well."""
    is_read = isinstance(error, OSError) and not isinstance(error, UnidentifiedImageError)
    return is_read and len(data) >= 14 + int.from_bytes(data[14:18], "little")


def _is_unknown_tiff(data: bytes) -> bool:
    """Whether a TIFF's header is whole: Pillow finds no way to decode such in its tables."""
    try:
        TiffImagePlugin.TiffImageFile(ImageBytes(data))
    except Exception as error:  # as above
        if is_fault(error):
            raise
        return isinstance(error.__cause__, KeyError)
    return False


def frames_of(image: Image.Image) -> int:
    """How many frames or pages it has. Of what phones write as MPO only the first is a photo."""
    return 1 if image.format in ("JPEG", "MPO") else int(getattr(image, "n_frames", 1))


def channels_of(data: bytes, image: Image.Image) -> tuple[int, str | None]:
    """The channels of a file, and why it must be converted, if so: an upper-case word."""
    kind, mode = image.format, image.mode
    if mode.startswith("I;16"):
        return 1, "SIXTEEN_BIT"
    if mode not in _CHANNELS:
        raise RejectedInputError(
            "UNSUPPORTED_COLOUR", f"expected grey, RGB or CMYK, got {kind} in {mode}"
        )
    channels = 4 if mode == "P" and "transparency" in image.info else _CHANNELS[mode]
    if kind not in ("JPEG", "MPO", "PNG"):  # of which readers of datasets know too little
        return channels, kind
    if kind == "PNG" and data[24] == 16:  # bits
        return channels, "SIXTEEN_BIT"
    return channels, _REASONS.get(mode)


def load(image: Image.Image) -> None:
    """Decodes the first frame of an image of `ImageBytes`, or says whether it is cut or damaged."""
    file = getattr(image, "fp", None)  # which Pillow forgets when it has read it
    # libtiff is given all of the file, and then what is behind its end, whatever is in it.
    by_libtiff = any(tile[0] == "libtiff" for tile in getattr(image, "tile", ()))
    if isinstance(file, ImageBytes):
        file.is_exhausted = False  # the search for the last frame may have gone behind the end
    try:
        image.load()
    except Exception as error:  # Pillow raises a dozen kinds on damaged data
        if is_fault(error):
            raise
        is_cut = isinstance(error, OSError) and not by_libtiff
        is_cut &= isinstance(file, ImageBytes) and file.is_exhausted
        code = "TRUNCATED_IMAGE" if is_cut else "DAMAGED_IMAGE"
        raise RejectedInputError(code, str(error) or type(error).__name__) from error


def orientation_of(image: Image.Image, structure: ImageStructure) -> int:
    """How a camera was held, by EXIF, in its own chunk or in a PNG's text, or else by XMP.

    Of an image that was just opened: Pillow turns a TIFF while it is loaded. Returns 2 to 8 as EXIF
    counts them, or `UPRIGHT`, also where EXIF is damaged; rejects one whose EXIF comes after pixels
    that are damaged.
    """
    if not structure.has_metadata:
        return UPRIGHT
    if structure.metadata_is_late:
        load(image)
    try:
        if isinstance(image, TiffImagePlugin.TiffImageFile):
            orientation = image.tag_v2.get(_ORIENTATION)
        elif any(key in image.info for key in _METADATA):
            # Not a PNG's own method, which decodes all pixels to look for what is known to be none.
            orientation = Image.Image.getexif(image).get(_ORIENTATION)
        else:
            return UPRIGHT
        return orientation if orientation in _WAYS else UPRIGHT
    except Exception as error:  # of damaged EXIF a dozen kinds; pixels may be good
        if is_fault(error):
            raise
        return UPRIGHT


def turn_image(image: Image.Image, orientation: int) -> Image.Image:
    """An image as it was seen."""
    return image.transpose(_WAYS[orientation]) if orientation in _WAYS else image


def turn_back(image: Image.Image, orientation: int) -> Image.Image:
    """An image as it was before `turn_image`."""
    return image.transpose(_WAYS_BACK[orientation]) if orientation in _WAYS else image


def in_plain_colours(image: Image.Image) -> Image.Image:
    """8 bits a channel: grey or RGB, with an alpha channel where there is transparency."""
    is_transparent = "transparency" in image.info
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.format == "GIF" and is_transparent and image.mode == "L":
        return image.convert("LA")
    if image.mode in ("L", "LA", "RGB", "RGBA"):
        return image
    return image.convert("L" if image.mode == "1" else "RGBA" if is_transparent else "RGB")


def encode_image(image: Image.Image, kind: str, **options: int) -> bytes:
    """An image as a JPEG or PNG file, its pixels alone."""
    stream = io.BytesIO()
    image.info.clear()  # else Pillow would write comments, profiles and the orientation again
    image.save(stream, kind, **options)
    return stream.getvalue()
