"""What the head of a JPEG says: its size, and where that stands.

    head = JpegHead.of(data)                    # height, width, …; None: not a plain JPEG
    data = head.cut_to(data, 100)               # its first 100 rows are all that is decoded

A JPEG is a row of segments, each a marker, two bytes of length and a body: SOI, tables, SOF (the
frame: size and components), SOS (a scan's head), then the coded blocks from the top to the bottom.
Source: ITU-T T.81, Annex B.
"""

from typing import NamedTuple

__all__ = ["JpegHead"]

_SOF_BASELINE, _SOF_PROGRESSIVE, _SOS = (0xC0, 0xC1), 0xC2, 0xDA
_NO_SOF = (0xC4, 0xC8, 0xCC)  # tables and a reserved marker, among the numbers of frames
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
        try:
            place = 2 if data[0] == 0xFF and data[1] == 0xD8 else len(data)
            while not 0xC0 <= data[place + 1] <= 0xCF or data[place + 1] in _NO_SOF:
                place = _next(data, place)
            kind, frame = data[place + 1], place
            if kind not in (*_SOF_BASELINE, _SOF_PROGRESSIVE) or data[frame + 4] != 8:
                return None
            while data[place + 1] != _SOS:
                place = _next(data, place)
            height, width = (data[frame + n] << 8 | data[frame + n + 1] for n in (5, 7))
            components = data[frame + 9]
            is_one_scan = kind in _SOF_BASELINE and data[place + 4] == components
        except (IndexError, ValueError):
            return None
        return cls(height, width, components, frame + 5, is_one_scan) if height and width else None

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


def _next(data: bytes, place: int) -> int:
    """Where the segment after that at `place` begins; raises ValueError where there is none."""
    if data[place] != 0xFF:
        raise ValueError
    if data[place + 1] == 0xFF:  # any number of fill bytes may come before a marker
        return place + 1
    return place + 2 + (data[place + 2] << 8 | data[place + 3])
