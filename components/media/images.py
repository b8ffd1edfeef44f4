"""Store image files: keep a JPEG or PNG that every reader supports, and convert others.

`store_image` decides. Below it are the operations with Pillow: open, decode, rotate, encode.
"""

import io
import os
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from PIL import Image, TiffImagePlugin

from components.inputs.rejects import RejectedInputError
from components.media.image_opening import missing_reader, open_by_format
from components.media.image_structure import ImageStructure, scan_jpeg, scan_png
from components.media.options import ImageOptions
from trainer_utils.format.media_formats import (
    FORMATS,
    JPEG,
    PNG,
    RIFF,
    format_of,
    is_other_image,
    packing_of,
)
from trainer_utils.storage.host_errors import is_host_error

_FORMAT_OF = {ending: f.name for f in FORMATS if f.kind == "image" for ending in f.extensions}
_LARGEST = 1 << 31
UPRIGHT = 1

# Other formats are not opened: EPS, for example, would run Ghostscript.
_FORMATS = tuple(known.name for known in FORMATS if known.kind == "image")
_CHANNELS = {"1": 1, "L": 1, "LA": 2, "P": 3, "RGB": 3, "RGBA": 4, "CMYK": 3, "YCbCr": 3}  # by mode
_REASONS = {"1": "BIT_DEPTH", "P": "PALETTE", "CMYK": "CMYK"}
_ORIENTATION = 0x0112  # tag number in EXIF and TIFF
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
_QUARTERS = (5, 6, 7, 8)  # exchange height and width
_BACKWARDS = {6: 8, 8: 6}
_UNKNOWN = ImageStructure()
# Usually lossy in cameras and on the web; there is no cheap test for the rare lossless files.
_LOSSY_FORMATS = ("AVIF", "HEIF")
_BITS_PER_SAMPLE = 258  # TIFF tag


class StoredImage(NamedTuple):
    """An image, ready to be stored in an example."""

    data: bytes  # the original bytes if the file is kept
    format: str  # `JPEG`, `PNG` or `RAW`
    height: int  # pixels
    width: int
    channels: int  # as stored
    conversions: tuple[str, ...] = ()  # fixed upper-case words: the reasons for converting
    bits: int = 8  # per channel, as stored
    # The largest value of a 16-bit image that is scaled to 8 bits
    sixteen_bit_peak: int | None = None


def store_image(data: bytes, options: ImageOptions, *, filename: str) -> StoredImage:
    """Keep a plain JPEG or PNG byte for byte, and convert others, or all if an option requires it.

    Lossy sources become JPEG. Lossless ones, and those with an alpha channel, become PNG. The
    extension of `filename` may be wrong.

    Args:
        data: the content of the file.
        options: the image options.
        filename: the name of the file, to detect a wrong extension.

    Raises:
        RejectedInputError: EMPTY_FILE, NOT_AN_IMAGE, UNSUPPORTED_FORMAT, UNSUPPORTED_COLOUR,
            TRUNCATED_IMAGE, DAMAGED_IMAGE, TOO_MANY_PIXELS or ANIMATION.
    """
    structure = scan_image(data)
    if _is_kept_unopened(structure, options):
        width, height = structure.size
        words = _tolerated("JPEG", filename)
        return StoredImage(data, "JPEG", height, width, structure.channels, words)
    image = open_image(data, structure, max_pixels=options.max_pixels)
    kind = "JPEG" if image.format == "MPO" else str(image.format)
    is_applied = options.orientation == "apply"
    orientation = orientation_of(image, structure) if is_applied or kind == "TIFF" else UPRIGHT
    channels, reasons = _reasons(data, image, options)
    if is_applied and orientation != UPRIGHT:
        reasons.add("ORIENTATION")
    if not reasons and structure.doubt is not None:
        reasons.add(f"{kind}_VARIANT")
    words = _tolerated(kind, filename)
    if not reasons:
        if options.verify == "decode":
            load(image)
        width, height = image.size
        bits = 16 if _has_sixteen_bits(data, image) else 8
        return StoredImage(data, kind, height, width, channels, words, bits)
    conversions = tuple(sorted(reasons.union(words)))
    if options.sixteen_bit == "keep" and _has_sixteen_bits(data, image):
        return _converted_in_sixteen_bits(data, image, options, orientation, conversions)
    return _converted(image, structure, options, orientation, conversions)


def scan_image(data: bytes) -> ImageStructure:
    """Scan the structure of a JPEG or PNG without decoding it; others are decoded anyway."""
    if not data:
        raise RejectedInputError("EMPTY_FILE", "0 bytes")
    if data.startswith(JPEG):
        return scan_jpeg(data)
    if data.startswith(PNG):
        return scan_png(data)
    is_lossy = b"VP8 " in data[:64]
    if not is_lossy and (known := format_of(data)) is not None:
        is_lossy = known.name in _LOSSY_FORMATS
    return ImageStructure(is_lossy=is_lossy)


def _is_kept_unopened(structure: ImageStructure, options: ImageOptions) -> bool:
    """Return whether a JPEG is kept without opening it: no doubt, upright, no option applies.

    This holds for most photos. Pillow would take as long for the header as the scan for the file.
    """
    return (
        structure.format == "JPEG"
        and structure.can_be_scaled
        and structure.channels in (1, 3)
        and not (structure.has_metadata and options.orientation == "apply")
        and (options.encoding, options.verify) == ("file", "structure")
        and min(structure.size) <= (options.resize_shorter_side or _LARGEST)
        and structure.size[0] * structure.size[1] <= options.max_pixels
    )


def _tolerated(kind: str, filename: str) -> tuple[str, ...]:
    seeming = _FORMAT_OF.get(os.path.splitext(filename)[1].lower(), kind)
    return ("WRONG_EXTENSION",) if seeming != kind else ()


def _reasons(data: bytes, image: Image.Image, options: ImageOptions) -> tuple[int, set[str]]:
    """Return an image's channels, and the reasons to convert it as upper-case words."""
    kind, mode = image.format, image.mode
    if mode not in _CHANNELS and not mode.startswith("I;16"):
        detail = f"expected grey, RGB or CMYK, got {kind} in {mode}"
        raise RejectedInputError("UNSUPPORTED_COLOUR", detail)
    channels = 4 if mode == "P" and "transparency" in image.info else _CHANNELS.get(mode, 1)
    reason = _REASONS.get(mode)
    has_sixteen_bits = _has_sixteen_bits(data, image)
    if has_sixteen_bits and options.sixteen_bit == "keep":
        if kind == "TIFF" and not mode.startswith("I;16"):
            detail = (
                "a TIFF with 16 bits per colour, of which Pillow reads 8. Save it as "
                "a PNG, or set sixteen_bit='scale'"
            )
            raise RejectedInputError("UNSUPPORTED_COLOUR", detail)
        reason = None if kind == "PNG" else kind
    elif mode.startswith("I;16") or (kind == "PNG" and has_sixteen_bits):
        reason = "SIXTEEN_BIT"
    elif kind not in ("JPEG", "MPO", "PNG"):  # formats that readers of datasets do not support well
        reason = kind
    reasons = {reason} if reason else set()
    frames = frames_of(image)
    if frames > 1:
        if options.frames == "reject":
            raise RejectedInputError("ANIMATION", f"{frames} frames")
        reasons.add("ANIMATION")
    if options.encoding == "raw":
        reasons.add("RAW")
    elif options.resize_shorter_side is not None and min(image.size) > options.resize_shorter_side:
        reasons.add("RESIZED")
    return channels, reasons


def _has_sixteen_bits(data: bytes, image: Image.Image) -> bool:
    """Return whether an opened image has 16 bits per channel, though Pillow may read only 8."""
    if image.mode.startswith("I;16"):
        return True
    if image.format == "PNG":
        return data[24] == 16
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        return 16 in (image.tag_v2.get(_BITS_PER_SAMPLE) or ())
    return False


def read_frame(data: bytes, options: ImageOptions) -> tuple[tuple[int, int], int]:
    """Return the width and height of the stored pixels, and the orientation from EXIF or XMP."""
    structure = scan_image(data)
    if structure.format == "JPEG" and not structure.has_metadata:
        return structure.size, UPRIGHT
    image = open_image(data, structure, max_pixels=options.max_pixels)
    if image.format == "TIFF":  # Pillow reports the displayed size
        tags = cast(TiffImagePlugin.TiffImageFile, image).tag_v2
        return (int(tags[256]), int(tags[257])), orientation_of(image, structure)
    return image.size, orientation_of(image, structure)


def orientation_of_label_map(
    size: tuple[int, int], photo: bytes, options: ImageOptions, *, box_frame: str | None
) -> int:
    """Return the rotation that makes a label map of this size fit its photo as stored.

    Args:
        size: the width and height of the label map.
        photo: the content of the photo's file.
        options: the image options, which decide whether photos are rotated.
        box_frame: the setting: the frame to assume if the sizes do not decide it.

    Raises:
        RejectedInputError: BOX_FRAME: it is unknown which pixels the map refers to.
    """
    stored, orientation = read_frame(photo, options)
    if orientation == UPRIGHT:
        return UPRIGHT
    shown = stored[::-1] if orientation in _QUARTERS else stored
    fits_shown, fits_stored = size == shown, size == stored
    if fits_shown != fits_stored:
        is_shown = fits_shown
    elif not fits_stored:
        return UPRIGHT  # another size, which is rejected later
    elif box_frame is None:
        raise RejectedInputError(
            "BOX_FRAME",
            f"EXIF rotates the image (orientation {orientation}), and nothing says whether the map "
            "is of the displayed image, box_frame='displayed' (--box-frame displayed), or of the "
            "stored pixels, box_frame='stored' (--box-frame stored)",
        )
    else:
        is_shown = box_frame == "displayed"
    if is_shown == (options.orientation == "apply"):
        return UPRIGHT
    return orientation if not is_shown else _BACKWARDS.get(orientation, orientation)


def store_label_map(
    data: bytes, options: ImageOptions, *, turn: Callable[[tuple[int, int]], int] | None = None
) -> StoredImage:
    """Store a map of class ids, one per pixel, as an 8-bit grey PNG. Palettes keep their indices.

    Args:
        data: the content of the file.
        options: the image options.
        turn: returns the EXIF orientation that makes a map of a width and height fit its photo.

    Raises:
        RejectedInputError: any error of `store_image`, or NOT_A_LABEL_MAP: colours, or ids over
            255.
    """
    structure = scan_image(data)
    image = open_image(data, structure, max_pixels=options.max_pixels)
    if image.mode not in ("L", "P", "1") and not image.mode.startswith("I;16"):
        detail = f"expected ids in one channel, got {image.mode}"
        raise RejectedInputError("NOT_A_LABEL_MAP", detail)
    is_kept = image.format == "PNG" and image.mode == "L" and data[24] == 8
    conversions = set() if is_kept else {"PALETTE" if image.mode == "P" else "BIT_DEPTH"}
    side = options.resize_shorter_side
    if side is not None and (min(image.size) > side or options.encoding == "raw"):
        conversions.add("RESIZED")
    if not conversions and structure.doubt is not None:
        conversions.add("PNG_VARIANT")
    turned = UPRIGHT if turn is None else turn(image.size)
    if turned != UPRIGHT:
        conversions.add("ORIENTATION")
    if not conversions:
        if options.verify == "decode":
            load(image)
        return StoredImage(data, "PNG", image.height, image.width, 1)
    orientation = orientation_of(image, structure) if image.format == "TIFF" else UPRIGHT
    ids = np.asarray(_load_as_it_lies(image, orientation))
    if ids.size and ids.max() > 255:
        raise RejectedInputError("NOT_A_LABEL_MAP", f"expected ids up to 255, got {ids.max()}")
    grey = Image.fromarray(ids.astype(np.uint8))
    if turned != UPRIGHT:
        grey = grey.transpose(_WAYS[turned])
    if "RESIZED" in conversions:
        grey = _resized(grey, options, Image.Resampling.NEAREST)
    done = tuple(sorted(conversions))
    return StoredImage(encode_image(grey, "PNG"), "PNG", *grey.size[::-1], 1, done)


def _converted(
    image: Image.Image,
    structure: ImageStructure,
    options: ImageOptions,
    orientation: int,
    conversions: tuple[str, ...],
) -> StoredImage:
    """Decode an image and encode it again, with the conversions that it needs."""
    side = options.resize_shorter_side
    if side is not None and structure.can_be_scaled:
        scale = side / min(image.size)
        image.draft(None, (int(image.width * scale) + 1, int(image.height * scale) + 1))
    image = _load_as_it_lies(image, orientation)
    if "ORIENTATION" in conversions:
        image = image.transpose(_WAYS[orientation])
    peak = _sixteen_bit_peak(image) if "SIXTEEN_BIT" in conversions else None
    plain = in_plain_colours(image)
    if side is not None and (min(plain.size) > side or options.encoding == "raw"):
        plain = _resized(plain, options, Image.Resampling.LANCZOS)
    if options.encoding == "raw":
        plain = plain.convert("RGB")
        size = plain.size[::-1]
        return StoredImage(plain.tobytes(), "RAW", *size, 3, conversions, sixteen_bit_peak=peak)
    kind = "JPEG" if structure.is_lossy and plain.mode in ("L", "RGB") else "PNG"
    # No subsampling if only the format should change.
    more = {"quality": options.quality, "subsampling": -1 if "RESIZED" in conversions else 0}
    data = encode_image(plain, kind, **(more if kind == "JPEG" else {}))
    height, width, channels = *plain.size[::-1], len(plain.getbands())
    return StoredImage(data, kind, height, width, channels, conversions, sixteen_bit_peak=peak)


def _sixteen_bit_peak(image: Image.Image) -> int:
    """Return the largest value of a decoded 16-bit image; an upper bound if Pillow read 8 bits."""
    pixels = np.asarray(image)
    if image.mode in ("LA", "RGBA"):
        pixels = pixels[..., :-1]
    most = int(pixels.max(initial=0))
    return most if image.mode.startswith("I;16") else most << 8 | 0xFF


def _converted_in_sixteen_bits(
    data: bytes,
    image: Image.Image,
    options: ImageOptions,
    orientation: int,
    conversions: tuple[str, ...],
) -> StoredImage:
    """Return a 16-bit image as a 16-bit PNG, rotated and resized according to the options."""
    import cv2  # Pillow has no 16-bit colours

    if image.mode.startswith("I;16"):
        pixels: Any = np.asarray(_load_as_it_lies(image, orientation)).astype(np.uint16)
    else:
        load(image)  # reports damage as for other images
        flags = cv2.IMREAD_UNCHANGED | cv2.IMREAD_IGNORE_ORIENTATION
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        if pixels is None or pixels.dtype != np.uint16:
            raise RejectedInputError("DAMAGED_IMAGE", "OpenCV does not decode it as 16 bits")
    if "ORIENTATION" in conversions:
        pixels = _turned(pixels, orientation)
    side = options.resize_shorter_side
    height, width = pixels.shape[:2]
    if side is not None and min(height, width) > side:
        scale = side / min(height, width)
        size = (max(side, round(width * scale)), max(side, round(height * scale)))
        pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    is_written, encoded = cv2.imencode(".png", np.ascontiguousarray(pixels))
    assert is_written
    height, width = pixels.shape[:2]
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    return StoredImage(encoded.tobytes(), "PNG", height, width, channels, conversions, 16)


def _turned(pixels: npt.NDArray[Any], orientation: int) -> npt.NDArray[Any]:
    """Return `(height, width, …)` pixels upright, given an EXIF orientation from 2 to 8."""
    if orientation >= 5:  # exchange rows and columns
        pixels = np.swapaxes(pixels, 0, 1)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return pixels


def _resized(
    image: Image.Image, options: ImageOptions, resampling: Image.Resampling
) -> Image.Image:
    side = options.resize_shorter_side or min(image.size)
    scale = side / min(image.size)
    size = (max(side, round(image.width * scale)), max(side, round(image.height * scale)))
    resized = image.resize(size, resampling)
    if options.encoding != "raw":
        return resized
    left, top = (resized.width - side) // 2, (resized.height - side) // 2
    return resized.crop((left, top, left + side, top + side))


# By Pillow ----------------------------------------------------------------------------------------


class ImageBytes(io.BytesIO):
    """A file in memory that records whether a read went beyond its end.

    Pillow raises the same OSError for a file that ends too early and for one with bad codes.
    """

    is_exhausted = False

    def read(self, size: int | None = -1, /) -> bytes:
        """Read like any file."""
        data = super().read(size)
        self.is_exhausted |= not data
        return data


def open_image(
    data: bytes, structure: ImageStructure = _UNKNOWN, *, max_pixels: int
) -> Image.Image:
    """Open a file, and reject unsupported or too large images before any pixel is decoded.

    Pillow must agree with `structure`: it decodes into memory of the size that it found, while
    libjpeg writes the size that it found itself.

    Args:
        data: the content of the file.
        structure: the result of `scan_image`.
        max_pixels: the maximum number of pixels, in all frames together.

    Raises:
        RejectedInputError: the image cannot be opened, is too large or has contradictory headers.
    """
    try:
        image = open_by_format(ImageBytes(data), data[:64])
        frames = frames_of(image)
    except Exception as error:  # Pillow raises a dozen types for hostile headers
        if is_host_error(error):
            raise
        raise _not_opened(data) from error
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


def _not_opened(data: bytes) -> RejectedInputError:
    """Return the error for a file that Pillow cannot open, with a message that never varies."""
    known = format_of(data)
    if known is not None and known.name in ("BMP", "TIFF"):  # these have many variants
        detail = f"a {known.name} of a kind that Pillow does not read, or whose header is bad"
        return RejectedInputError("UNSUPPORTED_FORMAT", detail)
    if known is not None and (cure := missing_reader(known.name)) is not None:
        return RejectedInputError("UNSUPPORTED_FORMAT", cure)
    if is_other_image(data):
        detail = f"expected {', '.join(_FORMATS)}, begins {data[:8]!r}"
        return RejectedInputError("UNSUPPORTED_FORMAT", detail)
    if known is not None or data.startswith(RIFF):
        return RejectedInputError("TRUNCATED_IMAGE", "the header is cut short or bad")
    if (packing := packing_of(data)) is not None:
        return RejectedInputError("UNSUPPORTED_FORMAT", f"{packing}. Unpack it first")
    return RejectedInputError("NOT_AN_IMAGE", f"no image format begins with {data[:8]!r}")


def frames_of(image: Image.Image) -> int:
    """Return the number of frames or pages. In MPO and HEIC from phones only one is a photo."""
    is_photo = image.format in ("JPEG", "MPO", "HEIF")
    return 1 if is_photo else int(getattr(image, "n_frames", 1))


def load(image: Image.Image) -> None:
    """Decode the first frame of an `ImageBytes` image; raise if it is truncated or damaged."""
    file = getattr(image, "fp", None)  # Pillow drops it after reading
    # libtiff gets the whole file and reads beyond its end, regardless of the content.
    by_libtiff = any(tile[0] == "libtiff" for tile in getattr(image, "tile", ()))
    if isinstance(file, ImageBytes):
        file.is_exhausted = False  # the search for the last frame may have read beyond the end
    try:
        image.load()
    except Exception as error:  # Pillow raises a dozen types for damaged data
        if is_host_error(error):
            raise
        is_cut = isinstance(error, OSError) and not by_libtiff
        is_cut &= isinstance(file, ImageBytes) and file.is_exhausted
        code = "TRUNCATED_IMAGE" if is_cut else "DAMAGED_IMAGE"
        raise RejectedInputError(code, str(error) or type(error).__name__) from error


def _load_as_it_lies(image: Image.Image, orientation: int) -> Image.Image:
    """Decode the first frame as stored. Pillow itself rotates TIFF images, so undo that."""
    load(image)
    is_turned = image.format == "TIFF" and orientation != UPRIGHT
    return image.transpose(_WAYS_BACK[orientation]) if is_turned else image


def orientation_of(image: Image.Image, structure: ImageStructure) -> int:
    """Return the orientation, from EXIF or XMP, of an image that was just opened.

    It is 2 to 8 in EXIF's numbering, or `UPRIGHT`, which is also returned for damaged EXIF.
    """
    if not structure.has_metadata:
        return UPRIGHT
    if structure.metadata_is_late:
        load(image)
    try:
        if isinstance(image, TiffImagePlugin.TiffImageFile):
            orientation = image.tag_v2.get(_ORIENTATION)
        elif any(key in image.info for key in _METADATA):
            # Not the PNG class's own method, which decodes all pixels to search for more metadata.
            orientation = Image.Image.getexif(image).get(_ORIENTATION)
        else:
            return UPRIGHT
        return orientation if orientation in _WAYS else UPRIGHT
    except Exception as error:  # damaged EXIF raises a dozen types; the pixels may be good
        if is_host_error(error):
            raise
        return UPRIGHT


def in_plain_colours(image: Image.Image) -> Image.Image:
    """Convert to 8 bits per channel: grey or RGB, with an alpha channel if transparent."""
    is_transparent = "transparency" in image.info
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.format == "GIF" and is_transparent and image.mode == "L":
        return image.convert("LA")
    if image.mode in ("L", "LA", "RGB", "RGBA"):
        return image
    return image.convert("L" if image.mode == "1" else "RGBA" if is_transparent else "RGB")


def encode_image(image: Image.Image, kind: str, **options: int) -> bytes:
    """Encode an image as a JPEG or PNG file that has only its pixels."""
    stream = io.BytesIO()
    image.info.clear()  # otherwise Pillow would write comments, profiles and the orientation again
    image.save(stream, kind, **options)
    return stream.getvalue()
