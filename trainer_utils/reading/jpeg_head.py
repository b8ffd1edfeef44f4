"""What the head of a JPEG says: its size, and where that stands.

    head = JpegHead.of(data)                    # height, width, …; None: not a plain JPEG
    data = head.cut_to(data, 100)               # its first 100 rows are all that is decoded

In a scan, the coded blocks come from the top of the image to the bottom.
Source: ITU-T T.81, Annex B.
"""

from typing import NamedTuple

from trainer_utils.format.jpeg import (
    BASELINE,
    EXTENDED,
    FRAMES,
    PROGRESSIVE,
    SOS,
    frame_at,
    jpeg_segments,
)
from trainer_utils.format.media_formats import JPEG

__all__ = ["JpegHead"]

_SEQUENTIAL = (BASELINE, EXTENDED)
_END = b"\xff\xd9"


class JpegHead(NamedTuple):
    """A frame of 8-bit samples, Huffman-coded.

    Attributes:
        height, width: in pixels.
        components: of a pixel.
        size_offset: where the height stands, in bytes.
        is_one_scan: all components' blocks come together, row by row.
    """

    height: int
    width: int
    components: int
    size_offset: int
    is_one_scan: bool

    @classmethod
    def of(cls, data: bytes) -> "JpegHead | None":
        """That of an encoded image; None where it is no JPEG, or not of this kind."""
        frame, first_scan = None, 0
        for start, marker, _ in jpeg_segments(data) if data.startswith(JPEG) else ():
            if marker in FRAMES and frame is None:
                frame = frame_at(data, start, marker)
            elif marker == SOS:
                first_scan = start
        if frame is None or not first_scan or not frame.height or not frame.width:
            return None
        if frame.process not in (*_SEQUENTIAL, PROGRESSIVE) or frame.precision != 8:
            return None
        has_all = data[first_scan + 4 : first_scan + 5] == bytes([frame.components])
        return cls(
            frame.height,
            frame.width,
            frame.components,
            frame.height_offset,
            is_one_scan=has_all and frame.process in _SEQUENTIAL,
        )

    def cut_to(self, data: bytes, rows: int) -> bytes | bytearray:
        """The same image less high, if that spares decoding its rest; else as it is.

        A decoder stops after the last row, and only warns of what follows: so this is for decoders
        that are told not to mind. What is not known to be whole to its end is left as it is.
        """
        if rows >= self.height or not self.is_one_scan or not data.endswith(_END):
            return data
        cut = bytearray(data)
        cut[self.size_offset : self.size_offset + 2] = rows.to_bytes(2, "big")
        return cut
