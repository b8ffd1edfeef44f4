"""The segments of a JPEG, found as libjpeg finds them; nothing is decoded.

    for start, marker, length in jpeg_segments(data): …    # 2, 0xE0, 16: APP0; …
    read_jpeg_frame(data)                  # JpegFrame(process=0xC0, height=480, width=640, …)

A JPEG is a row of segments, each a marker (0xFF and a byte), two bytes of length, which counts
itself, and a body: tables, the frame (size and components), a scan's head; after a scan's head come
its coded blocks. Any number of 0xFF may stand before a marker, and decoders pass over what is none.

Source: ITU-T T.81, Annex B; `jdmarker.c` of libjpeg-turbo.
"""

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

BASELINE, EXTENDED, PROGRESSIVE, LOSSLESS = 0xC0, 0xC1, 0xC2, 0xC3  # kinds of frames
DHT, DAC, EOI, SOS, DQT, DNL, DRI = 0xC4, 0xCC, 0xD9, 0xDA, 0xDB, 0xDC, 0xDD
APP1, COM = 0xE1, 0xFE
FRAMES = frozenset(range(0xC0, 0xD0)) - {DHT, 0xC8, DAC}
ALONE = frozenset([0x01, *range(0xD0, 0xD8)])  # markers without a length

_MARKER = re.compile(rb"\xff[^\x00\xff]")
_SEGMENT = struct.Struct(">BBH")
_FRAME = struct.Struct(">BHHB")


class JpegFrame(NamedTuple):
    """What a frame's header says.

    Args:
        start: where its marker stands, in bytes.
        process: its marker, of `FRAMES`.
        precision: bits of a sample.
        height, width: in pixels.
        components: of a pixel.
    """

    start: int
    process: int
    precision: int
    height: int
    width: int
    components: int

    @property
    def height_offset(self) -> int:
        """Where the height stands, in bytes."""
        return self.start + _SEGMENT.size + 1


def find_segment(data: bytes | memoryview, position: int) -> tuple[int, int, int]:
    """The first segment from a position on.

    Returns:
        Where its marker stands, the marker, and the segment's length, without the marker; of a
        marker that stands alone two bytes of what follows. At the end all is 0 but the first.
    """
    if position + _SEGMENT.size <= len(data):
        first, marker, length = _SEGMENT.unpack_from(data, position)
        if first == 0xFF and marker not in (0, 0xFF):
            return position, marker, length
    match = _MARKER.search(data, position)
    if match is None:
        return len(data), 0, 0
    start = match.start()
    return start, data[start + 1], int.from_bytes(data[start + 2 : start + 4], "big")


def jpeg_segments(data: bytes | memoryview) -> Iterator[tuple[int, int, int]]:
    """The segments from the second on, as `find_segment` has them: until the first scan's head."""
    position = 2
    while True:
        start, marker, length = segment = find_segment(data, position)
        if not marker:
            return
        yield segment
        if marker == SOS:
            return
        position = start + 2 + (0 if marker in ALONE else length)


def read_jpeg_frame(data: bytes) -> JpegFrame | None:
    """The frame's header; None where there is none before the first scan."""
    for start, marker, _ in jpeg_segments(data):
        if marker in FRAMES:
            return frame_at(data, start, marker)
    return None


def frame_at(data: bytes | memoryview, start: int, marker: int) -> JpegFrame | None:
    """The header of the frame whose marker stands at `start`; None where the file ends in it."""
    if start + _SEGMENT.size + _FRAME.size > len(data):
        return None
    return JpegFrame(start, marker, *_FRAME.unpack_from(data, start + _SEGMENT.size))
