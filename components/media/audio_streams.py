"""Whether an MP3 or Ogg file is whole: decoders pass over frames and pages that are not.

libsndfile guesses the length of an MP3 that does not tell it from its size and the bitrate of its
first frame, and stops there.

Source: ISO/IEC 11172-3 and 13818-3, layer III; the `Xing` and `Info` tags as LAME writes them;
RFC 3533.
"""

import struct
import zlib
from typing import NamedTuple

from components.common.rejects import RejectedInputError
from trainer_utils.format.media_formats import ID3, OGG

_MPEG1 = 3  # of the version's two bits; 2 is MPEG 2, 0 is MPEG 2.5
_KBITS = {
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES = (44_100, 48_000, 32_000)
_RATE_SHIFT = {3: 0, 2: 1, 0: 2}
_AFTER = (b"TAG", b"APETAGEX", b"LYRICSBEGIN", ID3, b"\0")  # what may follow the last frame
_LAST = 4  # of an Ogg page's flags
_PAGE = struct.Struct("<4sBBqIIIB")
# Ogg's CRC takes the bits of each byte from the top, zlib's from the bottom.
_REVERSED = bytes(int(f"{octet:08b}"[::-1], 2) for octet in range(256))


class _Frame(NamedTuple):
    size: int  # in bytes
    tag: int  # where a tag would stand in it
    samples: int  # of each channel


def count_mpeg_frames(data: bytes) -> tuple[bytes, int | None]:
    """An MP3, made long enough to be heard to its end; checks the count of frames that it has.

    Returns the bytes, and the samples of each channel that they give; None where the file tells.

    Raises:
        RejectedInputError: TRUNCATED_AUDIO, or DAMAGED_AUDIO where something else is between.
    """
    start = position = _after_id3(data)
    first = _frame(data, start)
    if first is None:
        return data, None  # free format, or nothing that we know: libsndfile's to say
    expected = _count_in_tag(data, start + first.tag)
    number = -1 if expected is not None else 0  # the tag's own frame is none of sound
    while (frame := _frame(data, position)) is not None:
        if position + frame.size > len(data):
            detail = f"expected {frame.size} bytes in its last frame, got {len(data) - position}"
            raise RejectedInputError("TRUNCATED_AUDIO", detail)
        position += frame.size
        number += 1
    if expected is not None and number < expected:
        raise RejectedInputError("TRUNCATED_AUDIO", f"expected {expected} frames, got {number}")
    rest = data[position : position + 16]
    if rest and not rest.startswith(_AFTER):
        code = "TRUNCATED_AUDIO" if len(data) - position < 4 else "DAMAGED_AUDIO"
        raise RejectedInputError(code, f"expected a frame after {number}, got {rest[:4]!r}")
    if expected:
        return data, None
    return data.ljust(start + (number + 1) * first.size, b"\0"), number * first.samples


def _after_id3(data: bytes) -> int:
    position = 0
    while data.startswith(ID3, position) and len(data) >= position + 10:
        sizes = data[position + 6 : position + 10]
        size = sum((octet & 127) << 7 * (3 - place) for place, octet in enumerate(sizes))
        position += 10 + size + (10 if data[position + 5] & 16 else 0)  # a footer
    return position


def _frame(data: bytes, position: int) -> _Frame | None:
    """What the header at a position says; None where there is none."""
    if len(data) < position + 4 or data[position] != 0xFF or data[position + 1] & 0xE6 != 0xE2:
        return None
    version = data[position + 1] >> 3 & 3
    bitrate, rate = data[position + 2] >> 4, data[position + 2] >> 2 & 3
    if version == 1 or bitrate in (0, 15) or rate == 3:
        return None
    is_first = version == _MPEG1
    hertz = _RATES[rate] >> _RATE_SHIFT[version]
    padding = data[position + 2] >> 1 & 1
    size = (144 if is_first else 72) * _KBITS[is_first][bitrate] * 1000 // hertz + padding
    is_mono = data[position + 3] >> 6 == 3
    side_info = (17 if is_mono else 32) if is_first else (9 if is_mono else 17)
    return _Frame(size, 4 + side_info, 1152 if is_first else 576)


def _count_in_tag(data: bytes, place: int) -> int | None:
    if data[place : place + 4] not in (b"Xing", b"Info") or len(data) < place + 12:
        return None
    flags, frames = struct.unpack(">II", data[place + 4 : place + 12])
    return frames if flags & 1 else 0


def check_ogg_pages(data: bytes) -> None:
    """Refuses an Ogg file of which a page is cut, damaged or missing, or of several streams."""
    position, number, serial, flags = 0, 0, None, 0
    while data.startswith(OGG, position):
        body = position + _PAGE.size
        end = len(data) + 1
        if body <= len(data):
            _, _, flags, _, own, sequence, crc, segments = _PAGE.unpack_from(data, position)
            sizes = data[body : body + segments]
            end = body + segments + sum(sizes)
        if end > len(data):
            raise RejectedInputError("TRUNCATED_AUDIO", f"page {number} is cut short")
        if serial not in (None, own):
            raise RejectedInputError("UNSUPPORTED_FORMAT", "expected one stream, got several")
        if _crc(data[position : position + 22] + bytes(4) + data[position + 26 : end]) != crc:
            raise RejectedInputError("DAMAGED_AUDIO", f"page {number} has a wrong checksum")
        if sequence != number:
            raise RejectedInputError("DAMAGED_AUDIO", f"expected page {number}, got {sequence}")
        serial, position, number = own, end, number + 1
    if not flags & _LAST:
        raise RejectedInputError("TRUNCATED_AUDIO", f"expected a last page after {number}")


def _crc(data: bytes) -> int:
    reflected = zlib.crc32(data.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{reflected:032b}"[::-1], 2)
