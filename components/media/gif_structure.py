"""The blocks of a GIF file, walked to the last; no pixel is decoded.

    scan_gif(data)      # GifStructure(width=640, height=480, frames=1, is_variant=False, …)

Source: GIF89a, 17 to 27; how TensorFlow reads it, `tensorflow/core/lib/gif/gif_io.cc`.
"""

from typing import NamedTuple

from components.common.rejects import RejectedInputError

__all__ = ["GifStructure", "scan_gif"]

_EXTENSION, _IMAGE, _TRAILER = b"!"[0], b","[0], b";"[0]
_GRAPHIC_CONTROL = 0xF9


class GifStructure(NamedTuple):
    """What a GIF's blocks say.

    Args:
        width, height: of the logical screen, in pixels.
        frames: how many begin.
        is_variant: TensorFlow reads the first frame otherwise: it knows neither transparency nor
            a frame that is not the whole screen, wants a table of colours, and prints an error at
            each reading of a file without its trailer.
        doubt: what is odd; None where every decoder reads it.
    """

    width: int
    height: int
    frames: int
    is_variant: bool
    doubt: str | None


def scan_gif(data: bytes) -> GifStructure:
    """Walks from block to block until the trailer; what follows that is nobody's.

    Args:
        data: a file that begins as a GIF does.

    Raises:
        RejectedInputError: TRUNCATED_IMAGE: it ends before its first frame.
    """
    if len(data) < 13:
        raise RejectedInputError("TRUNCATED_IMAGE", "it ends in its header")
    screen = data[6:10]
    width, height = int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    has_colours = bool(data[10] & 0x80)
    position = 13 + (3 << (data[10] & 7) + 1 if has_colours else 0)
    frames, is_variant, doubt = 0, False, None
    while position < len(data) and data[position] != _TRAILER:
        if data[position] == _EXTENSION:
            if data[position + 1 : position + 2] == bytes([_GRAPHIC_CONTROL]) and not frames:
                is_variant |= int.from_bytes(data[position + 3 : position + 4], "big") & 1 == 1
            end = _after_blocks(data, position + 2)
            if end == position + 3:  # of which giflib takes the byte after it for a length
                doubt = "an extension without a block"
        elif data[position] == _IMAGE:
            frames += 1
            flags = data[position + 9] if position + 9 < len(data) else 0
            colours = 3 << (flags & 7) + 1 if flags & 0x80 else 0
            minimum = data[position + 10 + colours : position + 11 + colours]
            end = _after_blocks(data, position + 11 + colours)
            if frames == 1:
                is_whole_screen = data[position + 1 : position + 9] == bytes(4) + screen
                is_variant |= not is_whole_screen or not (has_colours or colours)
                if not b"\x02" <= minimum <= b"\x08":
                    doubt = "a wrong size of codes"
        else:
            doubt = f"a block of no kind (byte {position})"
            break
        if end is None:
            position = len(data)
            break
        position = end
    if not frames:
        raise RejectedInputError("TRUNCATED_IMAGE", "it ends before its first frame")
    is_variant |= data[position : position + 1] != b";"
    return GifStructure(width, height, frames, is_variant, doubt)


def _after_blocks(data: bytes, position: int) -> int | None:
    """Where the blocks that begin here end; None where the file ends before."""
    size = len(data)
    while position < size:
        length = data[position]
        if not length:
            return position + 1
        position += 1 + length
    return None
