"""Follows a large file of JSON from block to block, to find where each of its entries ends.

    entries = JsonEntries()
    entries.row_ends(b'{"1": {"text": "a, b"}, "2": {"te')     # (22, 22): behind the comma

Nothing is parsed: only quotes, brackets and the commas between the entries of the outermost object
or list are looked at, so that a file of any size is cut into pieces that are parsed by themselves.
"""

import numpy as np
import numpy.typing as npt

__all__ = ["JsonEntries"]

_QUOTE, _BACKSLASH, _COMMA = b'"'[0], b"\\"[0], b","[0]
_STEPS = np.zeros(256, np.int8)  # how much deeper a bracket leads
_STEPS[[*b"{["]] = 1
_STEPS[[*b"}]"]] = -1


class JsonEntries:
    """Where entries end, block by block; what lies outside of texts counts."""

    def __init__(self) -> None:
        self._inside = False  # of a text
        self._escapes = False  # the last block ended with a backslash that escapes what follows
        self._depth = 0

    @property
    def is_whole(self) -> bool:
        """Whether everything that was opened so far is closed."""
        return self._depth == 0 and not self._inside

    def row_ends(self, block: bytes) -> tuple[int, int]:
        """Where the first and the last entry that end in the next block do; (0, 0) if none does."""
        octets = np.frombuffer(block, np.uint8)
        quotes = self._quotes(octets)
        marks = np.flatnonzero((_STEPS[octets] != 0) | (octets == _COMMA))
        # A mark with an odd number of quotes before it, the first blocks' included, is in a text.
        marks = marks[(np.searchsorted(quotes, marks) + self._inside) % 2 == 0]
        self._inside ^= bool(len(quotes) % 2)
        depths = self._depth + np.cumsum(_STEPS[octets[marks]], dtype=np.int64)
        self._depth = int(depths[-1]) if len(depths) else self._depth
        ends = marks[(octets[marks] == _COMMA) & (depths == 1)]
        return (int(ends[0]) + 1, int(ends[-1]) + 1) if len(ends) else (0, 0)

    def _quotes(self, octets: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        """The quotes that open or close a text: those behind an even number of backslashes."""
        slashes = np.flatnonzero(octets == _BACKSLASH)
        # The first backslash of each run in a row, and whether the block before counts to it.
        starts = slashes[np.diff(slashes, prepend=-2) > 1]
        quotes = np.flatnonzero(octets == _QUOTE)
        is_last = len(slashes) > 0 and slashes[-1] == len(octets) - 1
        odd = self._escapes and (not len(starts) or starts[0] > 0)
        if odd and len(quotes) and quotes[0] == 0:
            quotes = quotes[1:]
        before = np.searchsorted(starts, quotes) - 1
        behind = np.isin(quotes - 1, slashes, assume_unique=True)
        lengths = np.where(behind, quotes - starts[before], 0) if len(starts) else quotes * 0
        first_is_run = bool(len(starts)) and starts[0] == 0
        if self._escapes and first_is_run:  # its first backslash is itself escaped
            lengths = np.where(behind & (before == 0), lengths - 1, lengths)
        run = len(octets) - int(starts[-1]) if is_last else 0
        if is_last and self._escapes and first_is_run and len(starts) == 1:
            run -= 1
        self._escapes = bool(run % 2)
        unescaped: npt.NDArray[np.int64] = quotes[lengths % 2 == 0]
        return unescaped
