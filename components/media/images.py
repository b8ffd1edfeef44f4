"""What becomes of an image file: kept byte for byte where TensorFlow reads it, else converted.

store_image(data, ImageOptions(), filename="cat/1.jpg")
# StoredImage(data=…, format='JPEG', height=480, width=640, channels=3, conversions=())
"""

import dataclasses
import io
import os

import numpy as np
from PIL import Image, ImageOps

from components.common.checks import check_choice, check_number
from components.common.rejects import RejectedInputError
from components.media.image_headers import (
    MAX_PIXELS,
    channels_of,
    check_structure,
    frames_of,
    open_image,
)
from trainer_utils.format import ConfigError

__all__ = [
    "IMAGE_EXTENSIONS",
    "MAX_PIXELS",
    "ImageOptions",
    "StoredImage",
    "store_image",
    "store_label_map",
]

_ORIENTATION = 0x0112  # the EXIF tag; 1 is upright
_MOST_PIXELS = 2 * MAX_PIXELS  # beyond it Pillow refuses to open a file
_EXTENSIONS = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "PNG": (".png", ".apng"),
    "GIF": (".gif",),
    "BMP": (".bmp", ".dib"),
    "WEBP": (".webp",),
    "TIFF": (".tif", ".tiff"),
}
IMAGE_EXTENSIONS = frozenset(ending for endings in _EXTENSIONS.values() for ending in endings)
_FORMAT_OF = {ending: name for name, endings in _EXTENSIONS.items() for ending in endings}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """What is to become of images.

    Args:
        orientation: `apply` turns an image as its EXIF tag says, `keep` leaves it.
        frames: of an animation, `first` keeps the first, `reject` none.
        resize_shorter_side: in pixels, at least 1; smaller images stay as they are. None: all do.
        quality: of JPEGs that are encoded anew, from 1 to 100.
        encoding: `file`, or `raw`: `(side, side, 3) uint8`, row by row, cut from the middle of
            the resized image; a smaller one is enlarged, since all must have one size.
        verify: `structure` or `decode`.
        max_pixels: of an image, all its frames together.
    """

    orientation: str = "apply"
    frames: str = "first"
    resize_shorter_side: int | None = None
    quality: int = 95
    encoding: str = "file"
    verify: str = "structure"
    max_pixels: int = MAX_PIXELS

    def __post_init__(self) -> None:
        check_choice("orientation", self.orientation, ("apply", "keep"))
        check_choice("frames", self.frames, ("first", "reject"))
        check_choice("encoding", self.encoding, ("file", "raw"))
        check_choice("verify", self.verify, ("structure", "decode"))
        check_number("quality", self.quality, 1, 100)
        check_number("max_pixels", self.max_pixels, 1, _MOST_PIXELS)
        if self.resize_shorter_side is not None:
            check_number("resize_shorter_side", self.resize_shorter_side, 1)
        elif self.encoding == "raw":
            raise ConfigError(
                "resize_shorter_side: expected pixels for encoding='raw', whose images have all "
                "one size, got None"
            )


@dataclasses.dataclass(frozen=True, slots=True)
class StoredImage:
    """What goes into an example.

    Args:
        data: the given bytes themselves, where they are kept.
        format: `JPEG`, `PNG`, `GIF`, `BMP` or `RAW`.
        height, width: in pixels.
        channels: as stored.
        conversions: why it is not what it was, or not what it seemed: fixed upper-case words.
    """

    data: bytes
    format: str
    height: int
    width: int
    channels: int
    conversions: tuple[str, ...] = ()


def store_image(data: bytes, options: ImageOptions, *, filename: str) -> StoredImage:
    """Keeps an image, or converts it where TensorFlow would not read it or an option says so.

    Lossy sources become JPEG, others and those with an alpha channel PNG.

    Args:
        data: a whole file.
        options: of the component.
        filename: whose extension may be wrong.

    Raises:
        RejectedInputError: EMPTY_FILE, NOT_AN_IMAGE, UNSUPPORTED_FORMAT, UNSUPPORTED_COLOUR,
            TRUNCATED_IMAGE, DAMAGED_IMAGE, TOO_MANY_PIXELS or ANIMATION.
    """
    image = open_image(data, max_pixels=options.max_pixels)
    check_structure(data, image)
    channels, reason = channels_of(data, image)
    reasons = {reason} if reason else set()
    if frames_of(image) > 1:
        if options.frames == "reject":
            raise RejectedInputError("ANIMATION", f"{frames_of(image)} frames")
        reasons.add("ANIMATION")
    if options.orientation == "apply" and _is_turned(image):
        reasons.add("ORIENTATION")
    if options.encoding == "raw":
        reasons.add("RAW")
    elif options.resize_shorter_side is not None and min(image.size) > options.resize_shorter_side:
        reasons.add("RESIZED")
    kind = "JPEG" if image.format == "MPO" else str(image.format)
    seeming = _FORMAT_OF.get(os.path.splitext(filename)[1].lower(), kind)
    tolerated = {"WRONG_EXTENSION"} if seeming != kind else set()
    if not reasons:
        if options.verify == "decode":
            _load(image)
        width, height = image.size
        return StoredImage(data, kind, height, width, channels, tuple(sorted(tolerated)))
    return _convert(data, image, options, reasons, tolerated)


def store_label_map(data: bytes, options: ImageOptions) -> StoredImage:
    """Keeps a map of class ids, one a pixel: of a palette image the indices, not the colours.

    Returns:
        An 8-bit grey PNG.

    Raises:
        RejectedInputError: as `store_image`, or NOT_A_LABEL_MAP: colours, or ids over 255.
    """
    image = open_image(data, max_pixels=options.max_pixels)
    check_structure(data, image)
    if image.mode not in ("L", "P", "1") and not image.mode.startswith("I;16"):
        raise RejectedInputError(
            "NOT_A_LABEL_MAP", f"expected ids in one channel, got {image.mode}"
        )
    is_kept = image.format == "PNG" and image.mode == "L" and data[24] == 8
    conversions = set() if is_kept else {"PALETTE" if image.mode == "P" else "BIT_DEPTH"}
    side = options.resize_shorter_side
    if side is not None and (min(image.size) > side or options.encoding == "raw"):
        conversions.add("RESIZED")
    if not conversions:
        return StoredImage(data, "PNG", image.height, image.width, 1)
    _load(image)
    ids = np.asarray(image)
    if ids.size and ids.max() > 255:
        raise RejectedInputError("NOT_A_LABEL_MAP", f"expected ids up to 255, got {ids.max()}")
    grey = Image.fromarray(ids.astype(np.uint8))
    if "RESIZED" in conversions:
        grey = _resized(grey, options, Image.Resampling.NEAREST)
    return StoredImage(
        _encoded(grey, "PNG"), "PNG", grey.height, grey.width, 1, tuple(sorted(conversions))
    )


def _is_turned(image: Image.Image) -> bool:
    return "exif" in image.info and image.getexif().get(_ORIENTATION, 1) not in (0, 1)


def _convert(
    data: bytes, image: Image.Image, options: ImageOptions, reasons: set[str], tolerated: set[str]
) -> StoredImage:
    is_lossy = image.format in ("JPEG", "MPO") or b"VP8 " in data[:64]
    side = options.resize_shorter_side
    if side is not None and image.format == "JPEG":
        scale = side / min(image.size)
        image.draft(None, (int(image.width * scale) + 1, int(image.height * scale) + 1))
    _load(image)
    if "ORIENTATION" in reasons:
        image = ImageOps.exif_transpose(image)
    plain = _plain(image)
    if side is not None and (min(plain.size) > side or options.encoding == "raw"):
        plain = _resized(plain, options, Image.Resampling.LANCZOS)
    conversions = tuple(sorted(reasons | tolerated))
    if options.encoding == "raw":
        plain = plain.convert("RGB")
        return StoredImage(plain.tobytes(), "RAW", plain.height, plain.width, 3, conversions)
    kind = "JPEG" if is_lossy and plain.mode in ("L", "RGB") else "PNG"
    # Without subsampling where nothing but the form should change.
    more = {"quality": options.quality, "subsampling": -1 if "RESIZED" in reasons else 0}
    encoded = _encoded(plain, kind, **(more if kind == "JPEG" else {}))
    channels = len(plain.getbands())
    return StoredImage(encoded, kind, plain.height, plain.width, channels, conversions)


def _load(image: Image.Image) -> None:
    """Decodes every pixel of the first frame."""
    try:
        image.load()
    except Exception as error:  # Pillow raises a dozen kinds on damaged data
        code = "TRUNCATED_IMAGE" if "truncated" in str(error).lower() else "DAMAGED_IMAGE"
        raise RejectedInputError(code, f"{error}") from error


def _plain(image: Image.Image) -> Image.Image:
    """8 bits a channel: grey or RGB, with an alpha channel where there is transparency."""
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("L", "LA", "RGB", "RGBA"):
        return image
    if image.mode == "1":
        return image.convert("L")
    return image.convert("RGBA" if "transparency" in image.info else "RGB")


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


def _encoded(image: Image.Image, kind: str, **options: int) -> bytes:
    stream = io.BytesIO()
    image.info.clear()  # else Pillow would write comments, profiles and the orientation again
    image.save(stream, kind, **options)
    return stream.getvalue()
