"""What an image file's header says, and whether its structure is whole. No pixel is decoded.

inspect_image(data)    # ImageHeader(format='JPEG', height=480, width=640, channels=3)
"""

import dataclasses
import io

from PIL import Image

from components.common.rejects import RejectedInputError

__all__ = ["MAX_PIXELS", "ImageHeader", "inspect_image"]

MAX_PIXELS = 89_478_485  # Pillow's own bound against decompression bombs: 1 GiB as RGB, a third
_JPEG_START, _JPEG_END = b"\xff\xd8\xff", b"\xff\xd9"
_PNG_START, _PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"
_CHANNELS = {
    "JPEG": {"L": 1, "RGB": 3},
    "MPO": {"L": 1, "RGB": 3},  # as phones write: a JPEG with others behind it
    "PNG": {"1": 1, "L": 1, "LA": 2, "P": 3, "RGB": 3, "RGBA": 4, "I": 1, "I;16": 1},
}


@dataclasses.dataclass(frozen=True)
class ImageHeader:
    """An image's `format` (JPEG or PNG), `height` and `width` in pixels, and stored `channels`."""

    format: str
    height: int
    width: int
    channels: int


def inspect_image(data: bytes) -> ImageHeader:
    """Reads an image's header and checks that the file has its end.

    Args:
        data: a whole file.

    Returns:
        Its header. `tf.io.decode_image` reads every file that gets this far, unless bytes in the
        middle of a JPEG's scan are damaged: that only a full decode can tell.

    Raises:
        RejectedInputError: EMPTY_FILE, NOT_AN_IMAGE, UNSUPPORTED_FORMAT, UNSUPPORTED_COLOUR,
            TRUNCATED_IMAGE, DAMAGED_IMAGE or TOO_MANY_PIXELS.
    """
    if not data:
        raise RejectedInputError("EMPTY_FILE", "0 bytes")
    image = _open(data)
    channels_by_mode = _CHANNELS.get(image.format or "")
    if channels_by_mode is None:
        raise RejectedInputError(
            "UNSUPPORTED_FORMAT", f"expected JPEG or PNG, got {image.format or 'another format'}"
        )
    if image.mode not in channels_by_mode:
        raise RejectedInputError(
            "UNSUPPORTED_COLOUR", f"expected grey or RGB, got {image.format} in {image.mode}"
        )
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise RejectedInputError(
            "TOO_MANY_PIXELS", f"expected at most {MAX_PIXELS}, got {width} x {height}"
        )
    _check_end(data, image)
    channels = channels_by_mode[image.mode]
    if image.mode == "P" and "transparency" in image.info:
        channels = 4  # TensorFlow decodes such a palette to RGBA
    return ImageHeader(image.format or "", height, width, channels)


def _open(data: bytes) -> Image.Image:
    try:
        return Image.open(io.BytesIO(data))
    except Image.DecompressionBombError as error:
        raise RejectedInputError("TOO_MANY_PIXELS", str(error)) from error
    except Exception as error:  # Pillow raises a dozen kinds on hostile headers
        if data.startswith((_JPEG_START, _PNG_START)):
            raise RejectedInputError("TRUNCATED_IMAGE", "the header is cut short or bad") from error
        raise RejectedInputError(
            "NOT_AN_IMAGE", f"no image format begins with {data[:8]!r}"
        ) from error


def _bytes_read(image: Image.Image) -> int:
    """How far Pillow read to open it: for a JPEG, up to its scan."""
    stream = getattr(image, "fp", None)
    return stream.tell() if stream is not None else 0


def _check_end(data: bytes, image: Image.Image) -> None:
    if image.format in ("JPEG", "MPO"):
        # From the scan on: a thumbnail in the header has an end marker of its own.
        if data.rfind(_JPEG_END, _bytes_read(image)) < 0:
            raise RejectedInputError("TRUNCATED_IMAGE", "no end-of-image marker")
    elif data.rfind(_PNG_END) < 0:
        raise RejectedInputError("TRUNCATED_IMAGE", "no IEND chunk")
    else:
        try:
            image.verify()  # the checksum of every chunk
        except Exception as error:
            raise RejectedInputError("DAMAGED_IMAGE", f"{error}") from error


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageOptions:
    orientation: str = "apply"
    frames: str = "first"
    resize_shorter_side: int | None = None
    quality: int = 95
    encoding: str = "file"
    verify: str = "structure"
    max_pixels: int = MAX_PIXELS


@dataclasses.dataclass(frozen=True, slots=True)
class StoredImage:
    data: bytes
    format: str
    height: int
    width: int
    channels: int
    conversions: tuple[str, ...] = ()


def store_image(data: bytes, options: ImageOptions, *, filename: str) -> StoredImage:
    header = inspect_image(data)
    kind = "JPEG" if header.format == "MPO" else header.format
    return StoredImage(data, kind, header.height, header.width, header.channels)


def store_label_map(data: bytes, options: ImageOptions) -> StoredImage:
    return store_image(data, options, filename="")
