"""What becomes of an image file: a JPEG or PNG that any reader takes is kept, others converted."""

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image

from components.common.rejects import RejectedInputError
from components.media.decoding import (
    UPRIGHT,
    channels_of,
    encode_image,
    frames_of,
    in_plain_colours,
    load,
    open_image,
    orientation_of,
    turn_back,
    turn_image,
)
from components.media.image_structure import ImageStructure, scan_png
from components.media.jpeg_structure import scan_jpeg
from components.media.options import ImageOptions
from trainer_utils.format.media_formats import FORMATS, JPEG, PNG

_FORMAT_OF = {ending: f.name for f in FORMATS if f.kind == "image" for ending in f.extensions}


_LARGEST = 1 << 31


class StoredImage(NamedTuple):
    """What goes into an example."""

    data: bytes  # the given bytes themselves, where they are kept
    format: str  # `JPEG`, `PNG` or `RAW`
    height: int  # in pixels
    width: int
    channels: int  # as stored
    conversions: tuple[str, ...] = ()  # fixed upper-case words: why it is another


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
        return StoredImage(data, "JPEG", height, width, structure.channels, tuple(words))
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
        return StoredImage(data, kind, height, width, channels, tuple(words))
    return _converted(image, structure, options, orientation, reasons, words)


def scan_image(data: bytes) -> ImageStructure:
    """Walks a JPEG or PNG from mark to mark, 10 to 60 µs for a photo; others are decoded anyway."""
    if not data:
        raise RejectedInputError("EMPTY_FILE", "0 bytes")
    if data.startswith(JPEG):
        return scan_jpeg(data)
    return scan_png(data) if data.startswith(PNG) else ImageStructure(is_lossy=b"VP8 " in data[:64])


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


def _tolerated(kind: str, filename: str) -> list[str]:
    seeming = _FORMAT_OF.get(os.path.splitext(filename)[1].lower(), kind)
    return ["WRONG_EXTENSION"] if seeming != kind else []


def _reasons(data: bytes, image: Image.Image, options: ImageOptions) -> tuple[int, set[str]]:
    """The channels of an image, and why it must be converted: upper-case words."""
    channels, reason = channels_of(data, image)
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


def store_label_map(data: bytes, options: ImageOptions) -> StoredImage:
    """Keeps a map of class ids, one a pixel, as an 8-bit grey PNG: of a palette image the indices.

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
    if not conversions:
        if options.verify == "decode":
            load(image)
        return StoredImage(data, "PNG", image.height, image.width, 1)
    orientation = orientation_of(image, structure) if image.format == "TIFF" else UPRIGHT
    load(image)
    image = turn_back(image, orientation)  # what Pillow has turned
    ids = np.asarray(image)
    if ids.size and ids.max() > 255:
        raise RejectedInputError("NOT_A_LABEL_MAP", f"expected ids up to 255, got {ids.max()}")
    grey = Image.fromarray(ids.astype(np.uint8))
    if "RESIZED" in conversions:
        grey = _resized(grey, options, Image.Resampling.NEAREST)
    done = tuple(sorted(conversions))
    return StoredImage(encode_image(grey, "PNG"), "PNG", *grey.size[::-1], 1, done)


def _converted(
    image: Image.Image,
    structure: ImageStructure,
    options: ImageOptions,
    orientation: int,
    reasons: set[str],
    tolerated: Sequence[str],
) -> StoredImage:
    side = options.resize_shorter_side
    if side is not None and structure.can_be_scaled:
        scale = side / min(image.size)
        image.draft(None, (int(image.width * scale) + 1, int(image.height * scale) + 1))
    load(image)
    if image.format == "TIFF":  # which Pillow has turned
        if options.orientation == "keep":
            image = turn_back(image, orientation)
    elif "ORIENTATION" in reasons:
        image = turn_image(image, orientation)
    plain = in_plain_colours(image)
    if side is not None and (min(plain.size) > side or options.encoding == "raw"):
        plain = _resized(plain, options, Image.Resampling.LANCZOS)
    conversions = tuple(sorted(reasons.union(tolerated)))
    if options.encoding == "raw":
        plain = plain.convert("RGB")
        return StoredImage(plain.tobytes(), "RAW", *plain.size[::-1], 3, conversions)
    kind = "JPEG" if structure.is_lossy and plain.mode in ("L", "RGB") else "PNG"
    # Without subsampling where nothing but the form should change.
    more = {"quality": options.quality, "subsampling": -1 if "RESIZED" in reasons else 0}
    data = encode_image(plain, kind, **(more if kind == "JPEG" else {}))
    return StoredImage(data, kind, *plain.size[::-1], len(plain.getbands()), conversions)


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
