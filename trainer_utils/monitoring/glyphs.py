"""A font of 5 by 7 dots, to write labels into images without a drawing library.

draw_text(canvas, "CAT 3", ink=0)      # in place, from the upper left corner

Source: the 5 x 7 characters of common text displays, ASCII 32 to 95, five columns each, the lowest
bit uppermost.
"""

import unicodedata
from typing import Any

import numpy as np

__all__ = ["GLYPH_HEIGHT", "GLYPH_WIDTH", "draw_text"]

GLYPH_WIDTH, GLYPH_HEIGHT = 5, 7
_ADVANCE = GLYPH_WIDTH + 1
_FIRST, _UNKNOWN = " ", "?"
_COLUMNS = bytes.fromhex(
    "0000000000 00005f0000 0007000700 147f147f14 242a7f2a12 2313086462 3649562050 0008070300"
    "001c224100 0041221c00 2a1c7f1c2a 08083e0808 0050300000 0808080808 0000606000 2010080402"
    "3e5149453e 00427f4000 7249494946 2141494d33 1814127f10 2745454539 3c4a494931 4121110907"
    "3649494936 464949291e 0000140000 0040340000 0008142241 1414141414 0041221408 0201590906"
    "3e415d594e 7c1211127c 7f49494936 3e41414122 7f4141413e 7f49494941 7f09090901 3e41415173"
    "7f0808087f 00417f4100 2040413f01 7f08142241 7f40404040 7f021c027f 7f0408107f 3e4141413e"
    "7f09090906 3e4151215e 7f09192946 2649494932 03017f0103 3f4040403f 1f2040201f 3f4038403f"
    "6314081463 0304780403 6159494d43 007f414141 0204081020 004141417f 0402010204 4040404040"
)
_COUNT = len(_COLUMNS) // GLYPH_WIDTH


def draw_text(canvas: np.ndarray[Any, Any], text: str, *, ink: int) -> None:
    """Writes a line into a canvas, as far as there is room.

    Args:
        canvas: `(height, width, channels) uint8`, at least 7 high; changed in place.
        text: in capitals, without accents; what the font lacks becomes a question mark.
        ink: the value of the dots.
    """
    plain = unicodedata.normalize("NFKD", text).upper()
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    for place, letter in enumerate(plain):
        cell = canvas[:GLYPH_HEIGHT, place * _ADVANCE :][:, :GLYPH_WIDTH]
        if cell.shape[1] < GLYPH_WIDTH:
            return
        cell[_dots(letter)] = ink


def _dots(letter: str) -> np.ndarray[Any, Any]:
    index = ord(letter) - ord(_FIRST)
    if not 0 <= index < _COUNT:
        index = ord(_UNKNOWN) - ord(_FIRST)
    columns = np.frombuffer(_COLUMNS, np.uint8).reshape(_COUNT, GLYPH_WIDTH)[index]
    return np.asarray(columns >> np.arange(GLYPH_HEIGHT)[:, np.newaxis] & 1, bool)
