"""Pieces of the inputs, each small enough to be held and read without the others.

    whole = Piece(path="a.csv", source="a.csv", layout="csv")
    pieces = [whole.narrow(part) for part in cut(stream, delimiter=b",")]

A large file is cut where a row ends. In a CSV a line break may stand between quotes, so the cut
follows the quotes from the file's beginning, a block at a time: all of a block at once where its
quotes are as RFC 4180 has them, one by one where they are not.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from trainer_utils.format.json_text import Json

__all__ = [
    "MAX_COLUMNS",
    "MAX_ROW_BYTES",
    "PIECE_BYTES",
    "Piece",
    "RowEnds",
    "RowTooLong",
    "StrayQuote",
    "UnclosedQuote",
    "cut",
    "row_ends",
    "row_starts",
]

PIECE_BYTES = 16 << 20  # 16 MiB: some hundred MB while it is worked on
MAX_ROW_BYTES = 64 << 20
MAX_COLUMNS = 50_000  # each is a feature of its own, with some ms of work
_BLOCK_BYTES = 4 << 20
_BLANK_BYTES = 64  # a line of more spaces than that is no blank one
_QUOTE, _NEWLINE, _RETURN = b'"'[0], b"\n"[0], b"\r"[0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Piece:
    """What one worker reads at a time.

    Args:
        path: of the file, relative to the input base; of its UTF-8 copy where it needed one.
        source: the file as the user knows it.
        layout: how it is read.
        split: that all of its rows belong to, or None.
        start, stop: its bytes; of a Parquet file its row groups.
        too_long: whether it is one row, longer than may be held.
        details: what the layout needs beside, such as the names of the columns.
    """

    path: str
    source: str
    layout: str
    split: str | None = None
    start: int = 0
    stop: int = 0
    too_long: bool = False
    details: Mapping[str, Json] = dataclasses.field(default_factory=dict)

    @property
    def size(self) -> int:
        """About how many bytes are read."""
        return int(self.details.get("bytes", self.stop - self.start))

    def narrow(self, part: "tuple[int, int] | RowTooLong") -> "Piece":
        """The same of one part of the file, as `cut` gives it."""
        if isinstance(part, RowTooLong):
            return dataclasses.replace(self, start=part.start, stop=part.stop, too_long=True)
        return dataclasses.replace(self, start=part[0], stop=part[1])


class UnclosedQuote(Exception):
    """A quoted field does not end; `offset` is where it, or the row with it, begins."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"byte {offset}")
        self.offset = offset


class StrayQuote(Exception):
    """A quoted field of several lines ends within a text; `offset` is where its last quote is.

    So a text that begins with a quote which nobody doubled takes the rows after it in, up to the
    next quote of such a kind.
    """

    def __init__(self, offset: int) -> None:
        super().__init__(f"byte {offset}")
        self.offset = offset


@dataclasses.dataclass(frozen=True)
class RowTooLong:
    """A row that may not be held: its bytes."""

    start: int
    stop: int


class RowEnds(Protocol):
    """Tells where rows end, block by block."""

    def row_ends(self, block: bytes) -> tuple[int, int]:
        """Where the first and the last row that end in the next block do; (0, 0) if none does."""


def cut(
    stream: BinaryIO,
    *,
    start: int = 0,
    delimiter: bytes | None = None,
    rows: RowEnds | None = None,
    piece_bytes: int = PIECE_BYTES,
    max_row_bytes: int = MAX_ROW_BYTES,
    refuse_stray: bool = False,
) -> Iterator[tuple[int, int] | RowTooLong]:
    """Cuts a file where rows end.

    Args:
        stream: the file, read from `start`.
        start: where the first row begins.
        delimiter: of a table whose fields may be quoted; None where a line is a row.
        rows: that end in another way.
        piece_bytes: about how long a piece is.
        refuse_stray: whether quotes within texts behind fields of several lines are looked for.

    Yields:
        The pieces' bytes, in order, and rows that are too long by themselves.

    Raises:
        UnclosedQuote: the file ends between quotes.
        StrayQuote: a field of several lines ends within a text, and `refuse_stray`.
    """
    quotes = _Quotes(delimiter) if delimiter is not None else None
    piece_start = row_start = offset = start
    stream.seek(start)
    while block := stream.read(_BLOCK_BYTES):
        if rows is not None:
            first, last = rows.row_ends(block)
        else:
            toggles = quotes.follow(block) if quotes else None
            if quotes is not None and toggles is not None and refuse_stray:
                stray = quotes.find_stray(block, toggles)
                if stray is not None:
                    raise StrayQuote(offset + stray)
            first, last = _row_ends(block, toggles)
        if last:
            first, last = offset + first, offset + last
            if first - row_start > max_row_bytes:
                if row_start > piece_start:
                    yield piece_start, row_start
                yield RowTooLong(row_start, first)
                piece_start = first
            row_start = last
            if row_start - piece_start >= piece_bytes:
                yield piece_start, row_start
                piece_start = row_start
        offset += len(block)
    if quotes is not None and quotes.inside:
        raise UnclosedQuote(row_start)
    if offset - row_start > max_row_bytes:
        if row_start > piece_start:
            yield piece_start, row_start
        yield RowTooLong(row_start, offset)
    elif offset > piece_start:
        yield piece_start, offset


def row_ends(data: bytes, delimiter: bytes) -> npt.NDArray[np.int64]:
    """Where each row of a table ends, one without a line end at the end of `data` too."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE) + 1
    quotes_before = np.searchsorted(_Quotes(delimiter).follow(data)[1:], ends)
    ends = ends[quotes_before % 2 == 0]
    return ends if len(ends) and ends[-1] == len(data) else np.append(ends, len(data))


def row_starts(data: bytes, delimiter: bytes | None) -> npt.NDArray[np.int64]:
    """Where each row that is not blank begins.

    Args:
        data: whole rows.
        delimiter: of a table whose fields may be quoted; None where a line is a row.
    """
    if delimiter is not None:
        ends = row_ends(data, delimiter)
    else:
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE) + 1
        ends = np.append(ends, len(data))
    starts = np.concatenate([[0], ends[:-1]])
    blank = [
        not data[starts[row] : ends[row]].strip(b"\r\n" if delimiter else None)
        for row in np.flatnonzero(ends - starts <= _BLANK_BYTES).tolist()
    ]
    kept = np.ones(len(starts), np.bool_)
    kept[np.flatnonzero(ends - starts <= _BLANK_BYTES)] = ~np.array(blank, np.bool_)
    return starts[kept]


def _row_ends(block: bytes, toggles: npt.NDArray[np.int64] | None) -> tuple[int, int]:
    """Where the first and the last row that end in a block do; (0, 0) if none does."""
    if toggles is None:
        return block.find(b"\n") + 1, block.rfind(b"\n") + 1
    # Its first element says whether the block begins inside; then stretches alternate.
    bounds = np.append(toggles[1 if toggles[0] < 0 else 0 :], len(block))
    outside = bounds[: len(bounds) // 2 * 2].reshape(-1, 2)
    first = next((end for part in outside if (end := block.find(b"\n", *part) + 1)), 0)
    last = next((end for part in outside[::-1] if (end := block.rfind(b"\n", *part) + 1)), 0)
    return first, last


class _Quotes:
    """Follows quotes from block to block."""

    def __init__(self, delimiter: bytes) -> None:
        self.inside = False
        self._openers = np.zeros(256, np.bool_)  # what may stand before an opening quote
        self._openers[[_NEWLINE, _RETURN, delimiter[0]]] = True
        self._previous = _NEWLINE
        self._closed_last = False
        self._closed_before = False  # as `_closed_last`, of the block before
        self._has_lines = False  # whether the field that it ended in has a line break
        self._closers = self._openers.copy()  # what may stand behind a closing quote
        self._closers[[_QUOTE, *b" \t"]] = True

    def follow(self, block: bytes) -> npt.NDArray[np.int64]:
        """Where quotes open and close in the next block, after -1 if it begins inside, else 0."""
        octets = np.frombuffer(block, np.uint8)
        places = np.flatnonzero(octets == _QUOTE)
        inside = self.inside
        places = self._toggles(octets, places)
        if len(places) % 2:
            self.inside = not inside
        self._previous = int(octets[-1]) if len(octets) else self._previous
        self._closed_last = bool(len(places) and places[-1] == len(block) - 1 and not self.inside)
        return np.concatenate([[-1 if inside else 0], places])

    def find_stray(self, block: bytes, toggles: npt.NDArray[np.int64]) -> int | None:
        """A quote that closes a field of several lines, and stands within a text.

        Args:
            block: as `follow` got it; each block once, in order.
            toggles: what that gave.

        Returns:
            The place of the first of them in the block; -1 for the last byte of the block before.
        """
        if not block:
            return None
        octets = np.frombuffer(block, np.uint8)
        if self._closed_before and self._has_lines and not self._closers[octets[0]]:
            return -1
        begins_inside = toggles[0] < 0
        places = toggles if begins_inside else toggles[1:]  # opening and closing ones in turn
        goes_on = begins_inside or (self._closed_before and len(places) and places[0] == 0)
        lines_before = self._has_lines and goes_on

        def has_lines(opening: int, stop: int) -> bool:
            while opening and places[opening] == places[opening - 1] + 1:
                opening -= 2  # a doubled quote: the field begins before it
            start = max(int(places[opening]), 0)
            return (lines_before and not opening) or block.find(b"\n", start, stop) >= 0

        closing = places[1::2]
        closing = closing[closing < len(octets) - 1]
        for pair in np.flatnonzero(~self._closers[octets[closing + 1]]).tolist():
            if has_lines(2 * pair, int(closing[pair])):
                return int(closing[pair])
        self._closed_before = self._closed_last
        still_open = (len(places) - 1) // 2 * 2 if self.inside or self._closed_last else None
        self._has_lines = still_open is not None and has_lines(still_open, len(block))
        return None

    def _toggles(
        self, octets: npt.NDArray[np.uint8], places: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Those quotes that open or close. One inside an unquoted field is a character of it."""
        if not len(places):
            return places
        before = octets[places - 1]
        if places[0] == 0:
            before[0] = self._previous
        may_open = self._openers[before]
        may_open[1:] |= places[1:] == places[:-1] + 1  # a doubled quote: closed, opened again
        may_open[0] |= places[0] == 0 and self._closed_last
        if may_open[1 if self.inside else 0 :: 2].all():
            return places
        kept, inside, closed_at = [], self.inside, -1 if self._closed_last else -2
        for place, opens in zip(places.tolist(), self._openers[before].tolist(), strict=True):
            if inside or opens or place == closed_at + 1:
                inside = not inside
                closed_at = -2 if inside else place
                kept.append(place)
        return np.array(kept, np.int64)
