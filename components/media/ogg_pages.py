"""Whether an Ogg file is whole: decoders pass over a page that is damaged or missing.

    check_pages(data)

Source: RFC 3533.
"""

import struct
import zlib

from components.common.rejects import RejectedInputError
from trainer_utils.format.media_formats import OGG

_LAST = 4  # of a page's flags
_HEADER = struct.Struct("<4sBBqIIIB")
# Ogg's CRC takes the bits of each byte from the top, zlib's from the bottom.
_REVERSED = bytes(int(f"{octet:08b}"[::-1], 2) for octet in range(256))


def check_pages(data: bytes) -> None:
    """Refuses an Ogg file of which a page is cut, damaged or missing.

    Raises:
        RejectedInputError: TRUNCATED_AUDIO, DAMAGED_AUDIO or, where another stream follows the
            first, UNSUPPORTED_FORMAT.
    """
    position, number, serial, flags = 0, 0, None, 0
    while data.startswith(OGG, position):
        if position + _HEADER.size > len(data):
            raise RejectedInputError("TRUNCATED_AUDIO", f"page {number} is cut short")
        _, _, flags, _, page_serial, sequence, crc, segments = _HEADER.unpack_from(data, position)
        body = position + _HEADER.size + segments
        end = body + sum(data[position + _HEADER.size : body])
        if body > len(data) or end > len(data):
            raise RejectedInputError("TRUNCATED_AUDIO", f"page {number} is cut short")
        if serial not in (None, page_serial):
            raise RejectedInputError("UNSUPPORTED_FORMAT", "expected one stream, got several")
        if _crc(data[position : position + 22] + bytes(4) + data[position + 26 : end]) != crc:
            raise RejectedInputError("DAMAGED_AUDIO", f"page {number} has a wrong checksum")
        if sequence != number:
            raise RejectedInputError("DAMAGED_AUDIO", f"expected page {number}, got {sequence}")
        serial, position, number = page_serial, end, number + 1
    if not flags & _LAST:
        raise RejectedInputError("TRUNCATED_AUDIO", f"expected a last page after {number}")


def _crc(data: bytes) -> int:
    reflected = zlib.crc32(data.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{reflected:032b}"[::-1], 2)
