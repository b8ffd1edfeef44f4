"""What becomes of an image file: a JPEG or PNG that any reader takes is kept, others converted.

`store_image` decides; below it is what Pillow does: open, decode, turn upright, encode anew.
"""

import io
import os
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from PIL import Image, TiffImagePlugin

from components.common.rejects import RejectedInputError
from components.image_opening import missing_reader, open_by_format
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
from trainer_utils.storage.file_system import is_fault

_FORMAT_OF = {ending: f.name for f in FORMATS if f.kind == "image" for ending in f.extensions}
_LARGEST = 1 << 31
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
_QUARTERS = (5, 6, 7, 8)  # that exchange height and width
_BACKWARDS = {6: 8, 8: 6}
_UNKNOWN = ImageStructure()
# Cameras and the web use these with losses; nothing cheap tells the rare ones without.
_LOSSY_FORMATS = ("AVIF", "HEIF")
_BITS_PER_SAMPLE = 258  # a tag of TIFF


class StoredImage(NamedTuple):
    """What goes into an example."""

    data: bytes  # the given bytes themselves, where they are kept
    format: str  # `JPEG`, `PNG` or `RAW`
    height: int  # in pixels
    width: int
    channels: int  # as stored
    conversions: tuple[str, ...] = ()  # fixed upper-case words: why it is another
    bits: int = 8  # of a channel, as stored
    # The largest value of an image of 16 bits that is scaled to 8
    sixteen_bit_peak: int | None = None


def store_image(data: bytes, options: ImageOptions, *, filename: str) -> StoredImage:
    """Keeps a plain JPEG or PNG byte for byte, and converts what is not or where an option says so.

    Lossy sources become JPEG, others and those with an alpha channel PNG. The extension of
    `filename` may be wrong.

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
    """Walks a JPEG or PNG from mark to mark, 10 to 60 µs for a photo; others are decoded anyway."""
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
    """Whether nothing more need be known: a JPEG without a doubt, upright, and no option's matter.

    Most photos are; Pillow would take as long for its header as the scan for all of the file.
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
    """The channels of an image, and why it must be converted: upper-case words."""
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
                "a TIFF with 16 bits for each of its colours, of which Pillow reads 8. Save it as "
                "a PNG, or set sixteen_bit='scale'"
            )
            raise RejectedInputError("UNSUPPORTED_COLOUR", detail)
        reason = None if kind == "PNG" else kind
    elif mode.startswith("I;16") or (kind == "PNG" and has_sixteen_bits):
        reason = "SIXTEEN_BIT"
    elif kind not in ("JPEG", "MPO", "PNG"):  # of which readers of datasets know too little
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
    """Return whether an opened image has 16 bits a channel, though Pillow may read 8 of them."""
    if image.mode.startswith("I;16"):
        return True
    if image.format == "PNG":
        return data[24] == 16
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        return 16 in (image.tag_v2.get(_BITS_PER_SAMPLE) or ())
    return False


def read_frame(data: bytes, options: ImageOptions) -> tuple[tuple[int, int], int]:
    """Return the width and height of the stored pixels, and how EXIF or XMP rotates them."""
    structure = scan_image(data)
    if structure.format == "JPEG" and not structure.has_metadata:
        return structure.size, UPRIGHT
    image = open_image(data, structure, max_pixels=options.max_pixels)
    if image.format == "TIFF":  # whose size Pillow gives as it is displayed
        tags = cast(TiffImagePlugin.TiffImageFile, image).tag_v2
        return (int(tags[256]), int(tags[257])), orientation_of(image, structure)
    return image.size, orientation_of(image, structure)


def orientation_of_label_map(
    size: tuple[int, int], photo: bytes, options: ImageOptions, *, box_frame: str | None
) -> int:
    """Return how a label map of this size is rotated, so that it fits its photo as that is stored.

    Raises:
        RejectedInputError: BOX_FRAME: nothing says which pixels it refers to.
    """
    stored, orientation = read_frame(photo, options)
    if orientation == UPRIGHT:
        return UPRIGHT
    shown = stored[::-1] if orientation in _QUARTERS else stored
    if size == shown != stored:
        is_shown = True
    elif size == stored != shown:
        is_shown = False
    elif size != stored:
        return UPRIGHT  # of another size, which is refused
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
    """Keep a map of class ids, one a pixel, as an 8-bit grey PNG: of a palette image the indices.

    Args:
        data: the file.
        options: what is to become of images.
        turn: gives how a map of a width and height is rotated to fit its photo, as EXIF counts.

    Raises:
        RejectedInputError: as `store_image`, or NOT_A_LABEL_MAP: colours, or ids over 255.
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
    # Without subsampling where nothing but the form should change.
    more = {"quality": options.quality, "subsampling": -1 if "RESIZED" in conversions else 0}
    data = encode_image(plain, kind, **(more if kind == "JPEG" else {}))
    height, width, channels = *plain.size[::-1], len(plain.getbands())
    return StoredImage(data, kind, height, width, channels, conversions, sixteen_bit_peak=peak)


def _sixteen_bit_peak(image: Image.Image) -> int:
    """Return the largest value of a decoded image of 16 bits; a bound if Pillow has 8 of them."""
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
    """Return an image of 16 bits a channel as a 16-bit PNG, turned and resized as options say."""
    import cv2  # Pillow has no colours of 16 bits

    if image.mode.startswith("I;16"):
        pixels: Any = np.asarray(_load_as_it_lies(image, orientation)).astype(np.uint16)
    else:
        load(image)  # so that damage is reported as of any other
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
    """Return `(height, width, …)` pixels upright, as EXIF's orientation 2 to 8 says."""
    if orientation >= 5:  # rows and columns change places
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
    """Opens a file, and rejects what is none of ours or too large, before any pixel is decoded.

    Pillow must read what `structure` says: it decodes into memory of the size that it found,
    libjpeg as much as it found itself. `max_pixels` are of all frames together.
    """
    try:
        image = open_by_format(ImageBytes(data), data[:64])
        frames = frames_of(image)
    except Exception as error:  # Pillow raises a dozen kinds on hostile headers
        if is_fault(error):
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
    """Why a file that Pillow does not open is rejected, in words that are the same at every run."""
    known = format_of(data)
    if known is not None and known.name in ("BMP", "TIFF"):  # of which there are many kinds
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
    """How many frames or pages it has. Of what phones write as MPO and HEIC only one is a photo."""
    is_photo = image.format in ("JPEG", "MPO", "HEIF")
    return 1 if is_photo else int(getattr(image, "n_frames", 1))


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


def _load_as_it_lies(image: Image.Image, orientation: int) -> Image.Image:
    """Decodes the first frame; what Pillow turns of itself, a TIFF, is turned back."""
    load(image)
    is_turned = image.format == "TIFF" and orientation != UPRIGHT
    return image.transpose(_WAYS_BACK[orientation]) if is_turned else image


def orientation_of(image: Image.Image, structure: ImageStructure) -> int:
    """How a camera was held, by EXIF or XMP, of an image that was just opened.

    2 to 8 as EXIF counts them, or `UPRIGHT`, also where EXIF is damaged.
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
