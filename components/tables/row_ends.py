"""Cut tables between rows: a whole file, or ranges of it that workers read in parallel.

A line feed may be inside quotes, so a worker does not know whether its range begins inside or
outside quotes. It cuts the range for both cases, and the wrong one soon ends at a quote that
cannot be. The launcher then takes the case that the range before it leads to:

    cuts = [cut_range(stream, start, stop, delimiter=b",") for start, stop in ranges]
    spans = [*join_cuts(cuts)]
"""

import dataclasses
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np

from components.tables.quotes import BadQuote, Block, Offsets, QuoteTracker, find_quotes

_BLOCK_BYTES = 4 << 20
_FIRST_BLOCK_BYTES = 1 << 16  # shows which state of quotes at the beginning is wrong
_SEARCH_BYTES = 1 << 16  # read at a time in search of a line feed
_MAX_SEARCHES = 1 << 12  # such reads; a row of 256 MiB ends the search
_BLANK_BYTES = 64  # longer lines are not checked for being blank


@dataclasses.dataclass(frozen=True, kw_only=True)
class CutLimits:
    """The sizes of pieces."""

    # Approximate size of a piece; 16 MiB take a few hundred MB of memory during processing.
    piece_bytes: int = 16 << 20
    # Maximum number of rows of a piece; each row takes about 400 bytes of memory.
    piece_rows: int = 1 << 18
    max_row_bytes: int = 64 << 20  # size above which a row is too long, and is cut out


LIMITS = CutLimits()


class RowSpan(NamedTuple):
    """Neighbouring rows of a file."""

    start: int  # offset of the first byte
    stop: int  # offset after the last byte
    rows: int  # maximum number of rows: line feeds inside quotes may count
    is_too_long: bool = False  # whether it is a single row that exceeds the maximum size


@dataclasses.dataclass
class RangeCut:
    """The rows of a range of a file, if it begins outside quotes, or inside."""

    spans: list[RowSpan]  # the rows that begin and end in the range
    row_start: int | None  # the row that does not end in the range; None: it began before
    first_end: int | None = None  # the end of the row that began before the range, if it ends
    is_inside: bool = False  # whether the range ends inside quotes
    bad_quote: int | None = None  # the offset of a closing quote that text follows


class _RangeCutter:
    """Cuts a range while its blocks are read, for one state of quotes at its beginning."""

    def __init__(self, start: int, quotes: QuoteTracker, limits: CutLimits) -> None:
        self._quotes, self._limits = quotes, limits
        self.result = RangeCut([], None if quotes.is_inside else start)
        self._span_start = start
        self._rows = 0  # from `_span_start` to the last row end

    def read(self, data: bytes, offset: int, quotes: Offsets | None) -> None:
        """Cut the next block, unless an earlier one has a bad quote."""
        if self.result.bad_quote is not None:
            return
        try:
            block = self._quotes.read(data, quotes)
        except BadQuote as error:
            self.result.bad_quote = error.offset
            return
        if (last := block.last_row_end()) is not None:
            self._cut(block, offset, last)

    def _cut(self, block: Block, offset: int, last: int) -> None:
        """Cut a block that has row ends; `last` is the last of them."""
        limits, result = self._limits, self.result
        row_start = result.row_start
        num_rows = int(np.count_nonzero(block.octets[:last] == ord("\n")))  # at most
        may_be_too_long = row_start is None or offset + last - row_start > limits.max_row_bytes
        if row_start is not None and self._rows + num_rows > limits.piece_rows:
            self._add_span(row_start)  # cheaper than to find the last row that fits
        if may_be_too_long or num_rows > limits.piece_rows:
            ends = block.row_ends() + offset
            if row_start is None:
                result.first_end = self._span_start = int(ends[0])
                ends = ends[1:]
            elif ends[0] - row_start > limits.max_row_bytes:
                self._add_long_row(row_start, int(ends[0]))
                ends = ends[1:]
            num_rows = self._cut_by_rows(ends, first=result.row_start or self._span_start)
        self._rows += num_rows
        result.row_start = offset + last
        if result.row_start - self._span_start >= limits.piece_bytes:
            self._add_span(result.row_start)

    def _cut_by_rows(self, ends: Offsets, *, first: int) -> int:
        """Add spans of the maximum number of rows, and return the number of rows after them.

        Args:
            ends: the row ends of the block.
            first: the row end before them.
        """
        while self._rows + len(ends) > self._limits.piece_rows:
            count = self._limits.piece_rows - self._rows
            stop = int(ends[count - 1]) if count else first
            self._rows, ends = self._limits.piece_rows, ends[count:]
            self._add_span(stop)
        return len(ends)

    def _add_span(self, stop: int) -> None:
        """Add the rows since the last span."""
        if stop > self._span_start:
            self.result.spans.append(RowSpan(self._span_start, stop, self._rows))
        self._span_start, self._rows = stop, 0

    def _add_long_row(self, start: int, stop: int) -> None:
        self._add_span(start)
        self.result.spans.append(RowSpan(start, stop, 1, is_too_long=True))
        self._span_start = self.result.row_start = stop

    def finish(self, stop: int, *, is_end: bool) -> RangeCut:
        """Return the result for a range that ends at `stop`; `is_end`: the file ends there."""
        result = self.result
        result.is_inside = self._quotes.is_inside
        if result.bad_quote is None and is_end and not result.is_inside:
            self._end_last_row(stop)
        if result.bad_quote is None and result.row_start is not None:
            self._add_span(result.row_start)
        return result

    def _end_last_row(self, stop: int) -> None:
        """End a row without a line feed at the end of the file."""
        result, limits = self.result, self._limits
        if result.row_start is None:
            result.first_end = result.row_start = self._span_start = stop
        elif stop - result.row_start > limits.max_row_bytes:
            self._add_long_row(result.row_start, stop)
        elif stop > result.row_start:
            if self._rows == limits.piece_rows:
                self._add_span(result.row_start)
            self._rows, result.row_start = self._rows + 1, stop


def cut_range(
    stream: BinaryIO,
    start: int,
    stop: int | None = None,
    *,
    delimiter: bytes | None,
    is_first: bool = False,
    limits: CutLimits | None = None,
) -> list[RangeCut] | None:
    """Cut a range of a file between rows.

    A range begins after the first line feed from `start - 1`, and ends where the range from `stop`
    begins. So neighbouring ranges share no byte, and none is missing.

    Args:
        stream: the file.
        start: the range begins at or after this offset.
        stop: the next range begins at or after this offset. None: the range ends with the file.
        delimiter: the delimiter of a table with quoted fields. None: each line is a row.
        is_first: whether a row begins exactly at `start`.
        limits: the sizes of pieces. Default: `LIMITS`.

    Returns:
        The rows if the range begins outside quotes; and if it begins inside, unless that cannot be.
        None: a row is so long that the beginning or end of the range was not found.
    """
    limits = limits or LIMITS
    size = stream.seek(0, io.SEEK_END)
    begin = start if is_first else _after_line_feed(stream, start - 1, size)
    end = size if stop is None or stop >= size else _after_line_feed(stream, stop - 1, size)
    if begin is None or end is None:
        return None
    states = [False] if is_first or delimiter is None else [False, True]
    cutters = [
        _RangeCutter(begin, QuoteTracker(delimiter, is_inside=state, start=begin), limits)
        for state in states
    ]
    stream.seek(begin)
    offset, block_bytes = begin, min(_FIRST_BLOCK_BYTES, _BLOCK_BYTES)
    while offset < end and (data := stream.read(min(block_bytes, end - offset))):
        quotes = None if delimiter is None else find_quotes(data)
        for cutter in cutters:
            cutter.read(data, offset, quotes)
        offset, block_bytes = offset + len(data), _BLOCK_BYTES
    return [cutter.finish(offset, is_end=end == size) for cutter in cutters]


def _after_line_feed(stream: BinaryIO, place: int, size: int) -> int | None:
    """Return the offset after the first line feed from a place; the size of the file without one.

    Return None if a long part of the file has no line feed.
    """
    stream.seek(place)
    for _ in range(_MAX_SEARCHES):
        data = stream.read(_SEARCH_BYTES)
        if not data:
            return size
        if (length := data.find(b"\n") + 1) > 0:
            return place + length
        place += len(data)
    return None


def join_cuts(
    cuts: Iterable[list[RangeCut]], *, limits: CutLimits | None = None
) -> Iterator[RowSpan]:
    """Yield the rows of a file, from the results of `cut_range` for all of its ranges in order.

    Raises:
        BadQuote: the file ends inside quotes, or text follows a closing quote.
    """
    limits = limits or LIMITS
    is_inside, row_start = False, 0
    for cases in cuts:
        cut = cases[int(is_inside)]
        if is_inside and cut.first_end is not None:
            is_too_long = cut.first_end - row_start > limits.max_row_bytes
            yield RowSpan(row_start, cut.first_end, 1, is_too_long)
        yield from cut.spans
        if cut.bad_quote is not None:
            raise BadQuote(cut.bad_quote, is_stray=True)
        if cut.row_start is not None:
            row_start = cut.row_start
        is_inside = cut.is_inside
    if is_inside:
        raise BadQuote(row_start, is_stray=False)


def cut(
    stream: BinaryIO,
    start: int = 0,
    *,
    delimiter: bytes | None = None,
    limits: CutLimits | None = None,
) -> Iterator[RowSpan]:
    """Yield all rows from an offset at which a row begins; see `cut_range` and `join_cuts`."""
    whole = cut_range(stream, start, delimiter=delimiter, is_first=True, limits=limits)
    assert whole is not None
    yield from join_cuts([whole], limits=limits)


def first_row(data: bytes, delimiter: bytes | None) -> tuple[int, bool]:
    """Return the offset of the end of the first row, and whether the data ends inside quotes."""
    quotes = QuoteTracker(delimiter, refuses_stray=False)
    ends = quotes.read(data).row_ends()
    return (int(ends[0]), False) if len(ends) else (len(data), quotes.is_inside)


def row_starts(data: bytes, delimiter: bytes | None, *, are_fields: bool | None = None) -> Offsets:
    """Return the offset of each row that is not blank, as `(rows,) int64`.

    Args:
        data: the rows.
        delimiter: the delimiter of a table with quoted fields, as in `cut_range`.
        are_fields: whether rows have fields, so that spaces are a value. Default: whether there is
            a delimiter.
    """
    block = QuoteTracker(delimiter, refuses_stray=False).read(data)
    ends = np.union1d(block.row_ends(), len(data))  # the last row may have no line end
    starts = np.concatenate([[0], ends[:-1]])
    are_fields = delimiter is not None if are_fields is None else are_fields
    spaces = b"\r\n" if are_fields else b" \t\n\r\x0b\f"
    is_row = starts < ends
    may_be_blank = np.isin(block.octets[starts[is_row]], np.frombuffer(spaces, np.uint8))
    for row in np.flatnonzero(is_row)[may_be_blank].tolist():
        is_row[row] = _has_other(data, spaces, int(starts[row]), int(ends[row]))
    return starts[is_row]


def lines_of(starts: Sequence[int], data: bytes) -> list[int]:
    """Return the line number of each offset, counted from 0.

    Args:
        starts: offsets into the data.
        data: the data.
    """
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    return [int(line) for line in np.searchsorted(ends, starts)]


def _has_other(data: bytes, spaces: bytes, start: int, stop: int) -> bool:
    """Return whether a part of the data has anything but spaces."""
    return stop - start > _BLANK_BYTES or bool(data[start:stop].strip(spaces))
