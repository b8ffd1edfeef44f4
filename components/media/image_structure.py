"""What the bytes of an image file say, and the chunks of a PNG; no pixel is decoded.

Source: PNG (ISO/IEC 15948), clauses 5 and 11; `png.c` and `pngrutil.c` of libpng.
"""

import zlib
from typing import NamedTuple

from components.common.rejects import RejectedInputError

_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_CRITICAL = (b"IHDR", b"PLTE", b"IDAT", b"IEND")
_TEXTS = (b"tEXt", b"zTXt", b"iTXt")
_KEYWORDS = (b"Raw profile type exif\0", b"XML:com.adobe.xmp\0")
_MOST_EDGE = 1_000_000  # libpng's PNG_USER_WIDTH_MAX
_MOST_CHUNK_BYTES = 8_000_000  # libpng's PNG_USER_CHUNK_MALLOC_MAX, for all but pixels
_MOST_CHUNKS_KEPT = 1000  # libpng's PNG_USER_CHUNK_CACHE_MAX


class ImageStructure(NamedTuple):
    """What a JPEG's or PNG's marks say; of other files nothing does, since all are decoded."""

    format: str | None = None  # `JPEG` or `PNG`; None of others
    size: tuple[int, int] = (0, 0)  # width and height in pixels, (0, 0) of others
    channels: int = 0  # of a JPEG
    # what is odd, of which only decoders know if it matters; None where nothing is
    doubt: str | None = None
    has_metadata: bool = True  # whether EXIF or XMP may turn it
    metadata_is_late: bool = False  # whether Pillow knows that only once the pixels are read
    can_be_scaled: bool = False  # whether a decoder may be asked for a smaller image
    is_lossy: bool = False  # whether its pixels were quantized


def damaged(detail: str) -> RejectedInputError:
    """What a file that no decoder reads is rejected with."""
    return RejectedInputError("DAMAGED_IMAGE", detail)


def scan_png(data: bytes) -> ImageStructure:
    """Walks from chunk to chunk until `IEND`, and checks the checksum of each; rejects damage."""
    width, height, colour, interlace = _header(data)
    doubt = "an unknown way to interlace" if interlace > 1 else None
    if max(width, height) > _MOST_EDGE:
        detail = f"expected edges of at most {_MOST_EDGE}, got {width} x {height}"
        raise RejectedInputError("TOO_MANY_PIXELS", detail)
    position, before, others = 8, b"", 0
    pixel_bytes, has_palette, metadata = 0, False, [False, False]
    view = memoryview(data)
    while True:
        length = int.from_bytes(data[position : position + 4], "big")
        name = data[position + 4 : position + 8]
        end = position + 12 + length
        if end > len(data):
            raise RejectedInputError("TRUNCATED_IMAGE", f"no whole chunk (byte {position})")
        if zlib.crc32(view[position + 4 : end - 4]) != int.from_bytes(data[end - 4 : end], "big"):
            raise damaged(f"a chunk {name!r} with a wrong sum (byte {position})")
        if name == b"IEND":
            break
        if name == b"IDAT":
            if not pixel_bytes:
                doubt = doubt or _stream_doubt(data[position + 8 : position + 10], length)
            elif before != name:
                doubt = doubt or "pixels in two places"
            pixel_bytes += length
        elif name in _CRITICAL:
            is_first = position == 8 if name == b"IHDR" else not pixel_bytes and not has_palette
            has_palette |= name == b"PLTE"
            if not is_first or (has_palette and (length % 3 or not 0 < length <= 768)):
                doubt = doubt or f"the chunk {name!r} out of place"
        else:
            others += 1
            if length > _MOST_CHUNK_BYTES or others > _MOST_CHUNKS_KEPT or not name[0] & 32:
                doubt = doubt or f"the chunk {name!r}, unknown or too large"
            is_keyed = data.startswith(_KEYWORDS, position + 8, position + 40)
            if name == b"eXIf" or (name in _TEXTS and is_keyed):
                metadata[pixel_bytes > 0] = True
        before, position = name, end
    if not pixel_bytes:
        raise RejectedInputError("TRUNCATED_IMAGE", "it ends before its pixels")
    if colour == 3 and not has_palette:
        raise damaged("it has no palette")
    return ImageStructure(
        format="PNG",
        size=(width, height),
        doubt=doubt,
        has_metadata=any(metadata),
        metadata_is_late=metadata[1],
    )


def _header(data: bytes) -> tuple[int, int, int, int]:
    """Width, height, kind of colour (0 grey, 2 RGB, 3 a palette, …) and way to interlace."""
    if len(data) < 33:
        raise RejectedInputError("TRUNCATED_IMAGE", "it ends in its header")
    if data[8:16] != b"\0\0\0\rIHDR":
        raise damaged(f"expected IHDR first, got {data[12:16]!r}")
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    bit_depth, colour, compression, filtering, interlace = data[24:29]
    if bit_depth not in _DEPTHS.get(colour, ()) or compression or filtering:
        raise damaged(f"a header that PNG has not: {data[24:29]!r}")
    if not width or not height:
        raise damaged(f"expected some pixels, got {width} x {height}")
    return width, height, colour, interlace


def _stream_doubt(head: bytes, length: int) -> str | None:
    """What is odd about the first bytes of the pixels, which are a zlib stream."""
    if length < 2:
        return None  # they go on in the next chunk
    is_good = head[0] & 15 == 8 and head[0] >> 4 <= 7 and int.from_bytes(head, "big") % 31 == 0
    return None if is_good and not head[1] & 32 else "pixels that are no zlib stream"
