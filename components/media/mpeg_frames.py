"""The frames of an MP3 file: how many there are, and whether the last of them is whole.

    count_frames(data)        # the file, and how many samples it gives at the least

libsndfile guesses the length of a file that does not tell it from its size and the bitrate of its
first frame, and stops there.

Source: ISO/IEC 11172-3 and 13818-3, layer III; the `Xing` and `Info` tags as LAME writes them.
"""

import struct
from typing import NamedTuple

from components.common.rejects import RejectedInputError
from trainer_utils.format.media_formats import ID3

_MPEG1 = 3  # of the version's two bits; 2 is MPEG 2, 0 is MPEG 2.5
_KBITS = {
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES = (44_100, 48_000, 32_000)
_RATE_SHIFT = {3: 0, 2: 1, 0: 2}
_AFTER = (b"TAG", b"APETAGEX", b"LYRICSBEGIN", ID3, b"\0")  # what may follow the last frame


class _Frame(NamedTuple):
    size: int  # in bytes
    tag: int  # where a tag would stand in it
    samples: int  # of each channel


def count_frames(data: bytes) -> tuple[bytes, int | None]:
    """The file, made long enough to be heard to its end; checks the count of frames that it has.

    Returns:
        The bytes, and the samples of each channel that they give; None where the file tells.

    Raises:
        RejectedInputError: TRUNCATED_AUDIO, or DAMAGED_AUDIO where something else is between.
    """
    start = position = _after_id3(data)
    first = _frame(data, start)
    if first is None:
        return data, None  # free format, or nothing that we know: libsndfile's to say
    expected = _count_in_tag(data, start, first)
    number = -1 if expected is not None else 0  # the tag's own frame is none of sound
    while (frame := _frame(data, position)) is not None:
        if position + frame.size > len(data):
            raise RejectedInputError(
                "TRUNCATED_AUDIO",
                f"expected {frame.size} bytes in its last frame, got {len(data) - position}",
            )
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


def _count_in_tag(data: bytes, start: int, first: _Frame) -> int | None:
    place = start + first.tag
    if data[place : place + 4] not in (b"Xing", b"Info") or len(data) < place + 12:
        return None
    flags, frames = struct.unpack(">II", data[place + 4 : place + 12])
    return frames if flags & 1 else 0
