"""Read the structure of a JPEG (its markers) or a PNG (its chunks) without decoding pixels.

Both are read in the same way as libjpeg and libpng read them. A JPEG's frame header is checked
strictly, because Pillow reads it again and decodes into memory of the size that it found. Problems
in tables, scans or the end of a file are a `doubt` that decoders resolve: they tolerate many.

Source: ITU-T T.81, annex B; `jdmarker.c` and `jdhuff.c` of libjpeg-turbo; PNG (ISO/IEC 15948),
clauses 5 and 11; `png.c` and `pngrutil.c` of libpng.
"""

import functools
import operator
import re
import struct
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from components.inputs.rejects import RejectedInputError
from trainer_utils.format.media_formats import (
    ALONE,
    APP1,
    BASELINE,
    COM,
    DAC,
    DHT,
    DNL,
    DQT,
    DRI,
    EOI,
    EXTENDED,
    FRAMES,
    LOSSLESS,
    PROGRESSIVE,
    SOS,
    find_segment,
)

_BASELINE_TO_PROGRESSIVE = (BASELINE, EXTENDED, PROGRESSIVE)
_PROGRESSIVE = (PROGRESSIVE, 0xCA)
_UNREAD = (0xC5, 0xC6, 0xC7, 0xCB, 0xCD, 0xCE, 0xCF)  # hierarchical, and lossless arithmetic
_ARITHMETIC = (0xC9, 0xCA)
_SEGMENT = struct.Struct(">BBH")
_TABLES = frozenset([DQT, DHT])
_SKIPPED = frozenset([DNL, DRI, COM, *range(0xE0, 0xF0)])
_WEIGHTS = tuple(1 << 16 - bits for bits in range(1, 17))  # weight of a Huffman code, by bits
_CONDITIONING = 0x200  # entry for arithmetic coding in the tables
_AFTER_SCAN = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_EXIF = b"Exif\0\0"
_METADATA = (_EXIF, b"http://ns.adobe.com/xap/1.0/\0")
_UPRIGHT = (  # the tag's number, and its whole entry: one short of value 1
    (b"\x01\x12", b"\x01\x12\0\x03\0\0\0\x01\0\x01"),
    (b"\x12\x01", b"\x12\x01\x03\0\x01\0\0\0\x01\0"),
)
_MAX_SEARCHED_BYTES = 16 << 10  # beyond this, Pillow is as fast
_MAX_SCANS = 500  # limit of libjpeg-turbo's own tests; each scan is a pass over all pixels
_MAX_EDGE = 65_500  # JPEG_MAX_DIMENSION
_USUAL_SAMPLING = frozenset(
    (luma, chroma) for luma in (0x11, 0x21, 0x12, 0x22, 0x41, 0x42) for chroma in (0x11,)
) | {(0x22, 0x21), (0x22, 0x12), (0x21, 0x21), (0x12, 0x12)}
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_CRITICAL = (b"IHDR", b"PLTE", b"IDAT", b"IEND")
_TEXTS = (b"tEXt", b"zTXt", b"iTXt")
_KEYWORDS = (b"Raw profile type exif\0", b"XML:com.adobe.xmp\0")
_MAX_PNG_EDGE = 1_000_000  # libpng's PNG_USER_WIDTH_MAX
_MAX_CHUNK_BYTES = 8_000_000  # libpng's PNG_USER_CHUNK_MALLOC_MAX, except for pixels
_MAX_CHUNKS_KEPT = 1000  # libpng's PNG_USER_CHUNK_CACHE_MAX


class ImageStructure(NamedTuple):
    """The structure of a JPEG or PNG. Other formats have none, since all are decoded."""

    format: str | None = None  # `JPEG` or `PNG`; None for others
    size: tuple[int, int] = (0, 0)  # width and height in pixels, (0, 0) for others
    channels: int = 0  # only for JPEG
    # a problem whose effect only decoders know, or None
    doubt: str | None = None
    has_metadata: bool = True  # EXIF or XMP may rotate the image
    metadata_is_late: bool = False  # Pillow finds the metadata only after the pixels
    can_be_scaled: bool = False  # a decoder can be asked for a smaller image
    is_lossy: bool = False  # pixels were quantized


def damaged(detail: str) -> RejectedInputError:
    """Return the error for a file that no decoder reads."""
    return RejectedInputError("DAMAGED_IMAGE", detail)


class _Frame(NamedTuple):
    process: int
    width: int
    height: int
    sampling: Mapping[int, int]  # by component id
    quantizers: tuple[int, ...]  # numbered as in `tables`
    doubt: str | None


def scan_jpeg(data: bytes) -> ImageStructure:
    """Walk from marker to marker until the end of the image.

    Raises:
        RejectedInputError: TRUNCATED_IMAGE, DAMAGED_IMAGE or UNSUPPORTED_FORMAT: no decoder would
            read it, or not according to its header.
    """
    frame: _Frame | None = None
    # Huffman tables by class and number, quantizers from 0x100, and _CONDITIONING.
    tables: set[int] = set()
    doubts: list[str | None] = []
    has_metadata = has_exif = False
    is_complete = False  # the last scan had all components
    scans, position = 0, 2
    while True:
        start, marker = position, 0
        if position + 4 <= len(data):
            first, marker, length = _SEGMENT.unpack_from(data, position)
        if marker in (0, 0xFF) or first != 0xFF:
            start, marker, length = find_segment(data, position)
        if marker == EOI and scans:
            break
        if marker in ALONE:
            position = start + 2
            continue
        position = start + 2 + length
        segment = data[start + 4 : position]
        if length < 2 or len(segment) != length - 2:
            doubts.append("no end-of-image marker")
            if scans:
                break
            detail = f"it ends before its pixels, in a segment (byte {start})"
            raise RejectedInputError("TRUNCATED_IMAGE", detail)
        if marker in _TABLES:
            numbers, doubt = (_codes if marker == DHT else _quantizers)(segment)
            tables.update(numbers)
            doubts.append(doubt)
        elif marker in _SKIPPED:
            if marker == APP1 and segment.startswith(_METADATA):
                # Pillow joins several EXIF segments, so a single one is not conclusive.
                is_second = has_exif and segment.startswith(_EXIF)
                has_exif |= segment.startswith(_EXIF)
                has_metadata |= is_second or not _is_surely_upright(segment)
        elif marker == DAC:
            tables.add(_CONDITIONING)
        elif marker in FRAMES and frame is None:
            frame = _frame(marker, segment)
        elif marker == SOS and frame is not None:
            scans += 1
            if scans > _MAX_SCANS:
                raise damaged(f"expected at most {_MAX_SCANS} scans, got more")
            if is_complete:
                doubts.append("a second scan after one of all components")
            doubts.append(_scan_doubt(segment, frame, tables))
            has_all = segment[:1] == bytes([len(frame.sampling)])
            is_complete = has_all and frame.process not in _PROGRESSIVE
            position = _after_scan(data, position)
        elif scans:
            doubts.append(f"the marker {marker:#04x} between its scans")
            break
        else:
            raise damaged(f"the marker {marker:#04x} out of place (byte {start})")
    assert frame is not None
    # If the frame's coding differs from that of its tables, libjpeg decodes noise. It only warns,
    # and neither Pillow nor TensorFlow reports the warning.
    is_arithmetic = frame.process in _ARITHMETIC
    if _CONDITIONING in tables if not is_arithmetic else min(tables, default=0x100) < 0x100:
        codings = ("arithmetic", "Huffman") if is_arithmetic else ("Huffman", "arithmetic")
        raise damaged("its header says {} coding, its tables are of {} coding".format(*codings))
    doubt = next(filter(None, doubts), None) or frame.doubt
    return ImageStructure(
        format="JPEG",
        size=(frame.width, frame.height),
        channels=len(frame.sampling),
        doubt=doubt,
        has_metadata=has_metadata,
        # For a lossless one, a decoder asked for a smaller image writes too much.
        can_be_scaled=frame.process in _BASELINE_TO_PROGRESSIVE and doubt is None,
        is_lossy=frame.process != LOSSLESS,
    )


def _after_scan(data: bytes, position: int) -> int:
    """Return the position of the next marker after a scan, except restart markers; or the end."""
    match = _AFTER_SCAN.search(data, position)
    return len(data) if match is None else match.start()


def _is_surely_upright(segment: bytes) -> bool:
    """Return whether EXIF or XMP cannot rotate the image, regardless of the reader.

    In EXIF this holds if every occurrence of the tag's number is part of a whole entry for value 1.
    """
    if not segment.startswith(_EXIF):
        return b"Orientation" not in segment
    return len(segment) <= _MAX_SEARCHED_BYTES and all(
        segment.count(tag) == segment.count(entry) for tag, entry in _UPRIGHT
    )


def _frame(process: int, segment: bytes) -> _Frame:
    """Parse the frame header; raise RejectedInputError if no decoder here reads it."""
    if process in _UNREAD:
        raise RejectedInputError(
            "UNSUPPORTED_FORMAT", f"expected sequential or progressive JPEG, got {process:#04x}"
        )
    if len(segment) < 6 or len(segment) != 6 + 3 * segment[5]:
        raise damaged("the frame's header has a wrong length")
    height, width = int.from_bytes(segment[1:3], "big"), int.from_bytes(segment[3:5], "big")
    if segment[0] != 8:
        raise RejectedInputError("UNSUPPORTED_COLOUR", f"expected 8 bits, got {segment[0]}")
    if segment[5] not in (1, 3, 4):
        raise RejectedInputError("UNSUPPORTED_COLOUR", f"expected 1, 3 or 4, got {segment[5]}")
    if not 0 < width <= _MAX_EDGE or not 0 < height <= _MAX_EDGE:
        raise damaged(f"expected 1 to {_MAX_EDGE} pixels, got {width} x {height}")
    sampling, quantizers, doubt = _components(segment[6:])
    if process not in _BASELINE_TO_PROGRESSIVE:
        doubt = "lossless" if process == LOSSLESS else "arithmetic coding"
    return _Frame(process, width, height, sampling, quantizers, doubt)


@functools.lru_cache(maxsize=256)  # photos use only a few
def _components(data: bytes) -> tuple[Mapping[int, int], tuple[int, ...], str | None]:
    """Return sampling by id, quantizers, and a problem with a frame's components, if any."""
    sampling = dict(zip(data[::3], data[1::3], strict=True))
    factors = [part for factor in sampling.values() for part in (factor >> 4, factor & 15)]
    if 3 * len(sampling) != len(data) or not 1 <= min(factors) <= max(factors) <= 4:
        raise damaged("its components contradict each other")
    by_component = tuple(sampling.values())
    doubt = None
    if len(by_component) > 1:
        usual = len(set(by_component[1:])) == 1 and by_component[:2] in _USUAL_SAMPLING
        doubt = None if usual or len(by_component) == 4 else f"the sampling {by_component}"
    return sampling, tuple(0x100 + number for number in data[2::3]), doubt


@functools.lru_cache(maxsize=256)  # most encoders use few tables
def _quantizers(segment: bytes) -> tuple[frozenset[int], str | None]:
    """Return the numbers of a segment's quantization tables, and a problem with them, if any."""
    numbers, position = set(), 0
    while position < len(segment):
        numbers.add(0x100 + (segment[position] & 15))
        position += 129 if segment[position] >> 4 else 65
    is_whole = position == len(segment)
    return frozenset(numbers), None if is_whole else "a damaged quantization table"


@functools.lru_cache(maxsize=256)  # most encoders use the standard's tables
def _codes(segment: bytes) -> tuple[frozenset[int], str | None]:
    """Return the numbers of a segment's Huffman tables, and a problem with them, if any."""
    numbers, position = set[int](), 0
    doubt = None
    while position + 17 <= len(segment) and doubt is None:
        number, counts = segment[position], segment[position + 1 : position + 17]
        start, position = position + 17, position + 17 + sum(counts)
        # Kraft's sum of 16-bit codes that begin with one of the table's. Using all of them would
        # include the code of only ones, which is not allowed.
        if sum(map(operator.mul, counts, _WEIGHTS)) >= 1 << 16:
            doubt = "a Huffman table with too many codes"
        elif number & 0xEF > 3 or position - start > 256 or position > len(segment):
            doubt = "a damaged Huffman table"
        elif not number & 0x10 and max(segment[start:position], default=0) > 15:
            doubt = "a Huffman table with a wrong symbol"
        else:
            numbers.add(number)
    if doubt is None and position != len(segment):
        doubt = "a damaged Huffman table"
    return frozenset(numbers), doubt


def _scan_doubt(segment: bytes, frame: _Frame, tables: set[int]) -> str | None:
    """Return a problem with a scan's header, given the earlier tables, if any."""
    number = segment[0] if segment else 0
    if not 1 <= number <= len(frame.sampling) or len(segment) != 4 + 2 * number:
        return "a damaged scan header"
    ids, selectors = segment[1 : 1 + 2 * number : 2], segment[2 : 2 + 2 * number : 2]
    if len(set(ids)) != number or not frame.sampling.keys() >= set(ids):
        return "a scan of components that the frame does not have"
    first, last, approximation = segment[-3:]
    if frame.process in _PROGRESSIVE:
        needs_dc, needs_ac = first == 0 and approximation >> 4 == 0, first > 0
        low, high = approximation & 15, approximation >> 4
        is_good = (last == 0) if first == 0 else (first <= last <= 63 and number == 1)
        if not is_good or low > 13 or (high and high != low + 1):
            return "a scan of wrong parameters"
    else:
        needs_dc = needs_ac = True
        if (first, last, approximation) != (0, 63, 0):
            return "a scan of wrong parameters"
    for selector in selectors:
        if needs_dc and selector >> 4 not in tables:
            return "a Huffman table is missing"
        if needs_ac and 0x10 | selector & 15 not in tables:
            return "a Huffman table is missing"
    if not tables.issuperset(frame.quantizers):
        return "a quantization table is missing"
    return None


# PNG ----------------------------------------------------------------------------------------------


def scan_png(data: bytes) -> ImageStructure:
    """Walk from chunk to chunk until `IEND`, checking each checksum; raise if damaged."""
    width, height, colour, interlace = _png_header(data)
    doubt = "an unknown way to interlace" if interlace > 1 else None
    if max(width, height) > _MAX_PNG_EDGE:
        detail = f"expected edges of at most {_MAX_PNG_EDGE}, got {width} x {height}"
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
            if not pixel_bytes and length > 1:  # start of a zlib stream; else in the next chunk
                first, second = data[position + 8 : position + 10]
                is_good = first & 15 == 8 and first >> 4 <= 7 and (first << 8 | second) % 31 == 0
                if not is_good or second & 32:
                    doubt = doubt or "pixels that are not a zlib stream"
            elif pixel_bytes and before != name:
                doubt = doubt or "pixels in two places"
            pixel_bytes += length
        elif name in _CRITICAL:
            is_first = position == 8 if name == b"IHDR" else not pixel_bytes and not has_palette
            has_palette |= name == b"PLTE"
            if not is_first or (has_palette and (length % 3 or not 0 < length <= 768)):
                doubt = doubt or f"the chunk {name!r} out of place"
        else:
            others += 1
            if length > _MAX_CHUNK_BYTES or others > _MAX_CHUNKS_KEPT or not name[0] & 32:
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


def _png_header(data: bytes) -> tuple[int, int, int, int]:
    """Return width, height, colour type (0 grey, 2 RGB, 3 palette, …) and interlace method."""
    if len(data) < 33:
        raise RejectedInputError("TRUNCATED_IMAGE", "it ends in its header")
    if data[8:16] != b"\0\0\0\rIHDR":
        raise damaged(f"expected IHDR first, got {data[12:16]!r}")
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    bit_depth, colour, compression, filtering, interlace = data[24:29]
    if bit_depth not in _DEPTHS.get(colour, ()) or compression or filtering:
        raise damaged(f"a header that PNG does not allow: {data[24:29]!r}")
    if not width or not height:
        raise damaged(f"expected some pixels, got {width} x {height}")
    return width, height, colour, interlace
