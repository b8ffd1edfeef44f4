"""Whether an image file is whole and such as TensorFlow reads; no pixel is decoded.

    structure = scan_image(data)              # before any library sees the file
    check_agreement(structure, image)         # after Pillow has opened it

It takes 10 to 60 µs for a photo. Of JPEG, PNG and GIF the bytes are walked; what TIFF and WebP are
does not matter, since those are decoded in any case; of BMP Pillow's own header says enough.
"""

from typing import NamedTuple

from PIL import BmpImagePlugin, Image

from components.common.rejects import RejectedInputError
from components.media.gif_structure import scan_gif
from components.media.jpeg_structure import scan_jpeg
from components.media.png_structure import scan_png
from trainer_utils.format.media_formats import GIF, JPEG, PNG

__all__ = ["ImageStructure", "check_agreement", "is_plain_bmp", "scan_image"]

_BMP_RAW_MODES = {"L": 8, "BGR": 24, "BGRX": 32, "BGRA": 32}  # as TensorFlow takes all BMP


class ImageStructure(NamedTuple):
    """What the bytes of a file say.

    Args:
        format: `JPEG`, `PNG` or `GIF`; None of others.
        size: width and height in pixels, (0, 0) of others.
        channels: of a JPEG.
        frames: how many there are at least.
        is_variant: TensorFlow, or what else reads datasets, reads it otherwise than it is meant, or
            not at all.
        doubt: what is odd, of which only decoders know if it matters; None where nothing is.
        has_metadata: whether EXIF or XMP may turn it.
        metadata_is_late: whether Pillow knows that only once the pixels are read.
        can_be_scaled: whether a decoder may be asked for a smaller image.
        is_lossy: whether its pixels were quantized.
    """

    format: str | None = None
    size: tuple[int, int] = (0, 0)
    channels: int = 0
    frames: int = 1
    is_variant: bool = False
    doubt: str | None = None
    has_metadata: bool = True
    metadata_is_late: bool = False
    can_be_scaled: bool = False
    is_lossy: bool = False


def scan_image(data: bytes) -> ImageStructure:
    """Walks a JPEG, PNG or GIF from mark to mark; knows nothing of others.

    Raises:
        RejectedInputError: TRUNCATED_IMAGE, DAMAGED_IMAGE, UNSUPPORTED_FORMAT, UNSUPPORTED_COLOUR
            or TOO_MANY_PIXELS.
    """
    if data.startswith(JPEG):
        jpeg = scan_jpeg(data)
        return ImageStructure(
            format="JPEG",
            size=(jpeg.width, jpeg.height),
            channels=jpeg.components,
            is_variant=jpeg.is_variant,
            doubt=jpeg.doubt,
            has_metadata=jpeg.has_metadata,
            can_be_scaled=jpeg.can_be_scaled,
            is_lossy=not jpeg.is_lossless,
        )
    if data.startswith(PNG):
        png = scan_png(data)
        return ImageStructure(
            format="PNG",
            size=(png.width, png.height),
            doubt=png.doubt,
            has_metadata=png.has_metadata,
            metadata_is_late=png.metadata_is_late,
        )
    if data.startswith(GIF):
        gif = scan_gif(data)
        return ImageStructure(
            format="GIF",
            frames=gif.frames,
            is_variant=gif.is_variant,
            doubt=gif.doubt,
            has_metadata=False,
        )
    return ImageStructure(is_lossy=b"VP8 " in data[:64])


def check_agreement(structure: ImageStructure, image: Image.Image) -> None:
    """Refuses a file of which Pillow says something else than its marks do.

    It decodes into memory of the size that it found, libjpeg as much as it found itself.

    Raises:
        RejectedInputError: DAMAGED_IMAGE.
    """
    if structure.format not in ("JPEG", "PNG"):
        return
    kind = "JPEG" if image.format == "MPO" else image.format
    if (kind, image.size) != (structure.format, structure.size):
        raise RejectedInputError(
            "DAMAGED_IMAGE",
            f"expected one header, got {kind} of {image.size} and "
            f"{structure.format} of {structure.size}",
        )


def is_plain_bmp(data: bytes, image: Image.Image) -> bool:
    """Whether TensorFlow reads a BMP as Pillow does.

    It takes all for rows of grey, BGR or BGRA bytes from the given offset to the end of the file,
    whatever masks, compression, palette or profile there are.

    Source: `tensorflow/core/kernels/image/decode_image_op.cc`, DecodeBmpV2.
    """
    assert isinstance(image, BmpImagePlugin.BmpImageFile)
    tile = image.tile[0]
    if tile.codec_name != "raw" or not isinstance(tile.args, tuple):
        return False
    raw_mode, row_bytes, direction = tile.args
    bits, width = int.from_bytes(data[28:30], "little"), int.from_bytes(data[18:22], "little")
    height = int.from_bytes(data[22:26], "little", signed=True)
    return (
        data[14:18] != b"\x0c\0\0\0"  # OS/2's header is shorter
        and _BMP_RAW_MODES.get(raw_mode) == bits
        and (width, height) == (image.width, -image.height * direction)
        and tile.offset == int.from_bytes(data[10:14], "little")
        and len(data) == tile.offset + row_bytes * image.height
    )
