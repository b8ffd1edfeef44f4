"""Pieces of the inputs, each small enough to be held and read without the others.

    whole = Piece(path="a.csv", source="a.csv", layout="csv")
    pieces = [whole.narrow(part) for part in cut(stream, delimiter=b",")]

A large file is cut where a row ends. In a CSV a line break may stand between quotes, so the cut
follows the quotes from the file's beginning, a block at a time.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from trainer_utils.format.json_text import Json

PIECE_BYTES = 16 << 20  # 16 MiB: some hundred MB while it is worked on
MAX_ROW_BYTES = 64 << 20
MAX_COLUMNS = 50_000  # each is a feature of its own, with some ms of work
_BLOCK_BYTES = 4 << 20
_BLANK_BYTES = 64  # a line of more spaces than that is no blank one
_NEWLINE = b"\n"[0]


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


class BadQuote(Exception):
    """A quote that cannot be meant; `offset` is where it stands, or its row begins."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"byte {offset}")
        self.offset = offset


class UnclosedQuote(BadQuote):
    """A quoted field does not end; `offset` is where the row with it begins."""


class StrayQuote(BadQuote):
    """A quoted field of several lines ends within a text; `offset` is where its last quote is.

    So a text that begins with a quote which nobody doubled takes the rows after it in, up to the
    next quote of such a kind.
    """


@dataclasses.dataclass(frozen=True)
class RowTooLong:
    """A row that may not be held: its bytes."""

    start: int
    stop: int


def cut(
    stream: BinaryIO,
    *,
    start: int = 0,
    delimiter: bytes | None = None,
    piece_bytes: int = PIECE_BYTES,
    max_row_bytes: int = MAX_ROW_BYTES,
    refuse_stray: bool = False,
) -> Iterator[tuple[int, int] | RowTooLong]:
    """Cuts a file where rows end.

    Args:
        stream: the file, read from `start`.
        start: where the first row begins.
        delimiter: of a table whose fields may be quoted; None where a line is a row.
        piece_bytes: about how long a piece is.
        refuse_stray: whether quotes within texts behind fields of several lines are looked for.

    Yields:
        The pieces' bytes, in order, and rows that are too long by themselves.

    Raises:
        UnclosedQuote: the file ends between quotes.
        StrayQuote: a field of several lines ends within a text, and `refuse_stray`.
    """
    piece_start = row_start = offset = start
    rest = b""  # of the last row; of a long one what says whether it is between quotes
    stream.seek(start)
    while block := stream.read(_BLOCK_BYTES):
        offset += len(block)
        rest += block
        begin = offset - len(rest)
        fields = _quoted(rest, delimiter)
        if refuse_stray and (stray := _stray(rest, fields, delimiter)) is not None:
            raise StrayQuote(begin + stray)
        ends = _ends_outside(rest, fields)
        if not len(ends):
            rest = _state(rest, delimiter)
            continue
        first, last = begin + int(ends[0]), begin + int(ends[-1])
        if first - row_start > max_row_bytes:
            if row_start > piece_start:
                yield piece_start, row_start
            yield RowTooLong(row_start, first)
            piece_start = first
        row_start = last
        if row_start - piece_start >= piece_bytes:
            yield piece_start, row_start
            piece_start = row_start
        rest = rest[int(ends[-1]) :]
    if is_open(rest, delimiter):
        raise UnclosedQuote(row_start)
    if offset - row_start > max_row_bytes:
        if row_start > piece_start:
            yield piece_start, row_start
        yield RowTooLong(row_start, offset)
    elif offset > piece_start:
        yield piece_start, offset


def row_ends(data: bytes, delimiter: bytes | None) -> npt.NDArray[np.int64]:
    """Where each row of a table ends, one without a line end at the end of `data` too."""
    ends = _ends_outside(data, _quoted(data, delimiter))
    return ends if len(ends) and ends[-1] == len(data) else np.append(ends, len(data))


def is_open(data: bytes, delimiter: bytes | None) -> bool:
    """Whether data that begins with a field ends within a quoted one."""
    return any(not field[1] for field in _quoted(data, delimiter)[-1:])


def _quoted(data: bytes, delimiter: bytes | None) -> list[re.Match[bytes]]:
    """The quoted fields of data that begins with a field; the last of them may not be closed."""
    if delimiter is None or b'"' not in data:
        return []
    # A quote opens where a field begins, and is a character anywhere else in an unquoted one.
    begins = rb"(?:\A|(?<=[\r\n%s]))" % re.escape(delimiter)
    return [*re.finditer(begins + rb'"[^"]*(?:""[^"]*)*("(?!")|\Z)', data)]


def _ends_outside(data: bytes, fields: list[re.Match[bytes]]) -> npt.NDArray[np.int64]:
    """Where rows end: behind line feeds that are in none of the quoted fields."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE) + 1
    if not fields:
        return ends
    spans = np.array([field.span() for field in fields])
    is_outside = np.searchsorted(spans[:, 0], ends) == np.searchsorted(spans[:, 1], ends)
    outside: npt.NDArray[np.int64] = ends[is_outside]
    return outside


def _stray(data: bytes, fields: list[re.Match[bytes]], delimiter: bytes | None) -> int | None:
    """The quote that closes the first field of several lines behind which its text goes on."""
    behind = (delimiter, b"\n", b"\r", b" ", b"\t", b"")
    several = (field for field in fields if field[1] and b"\n" in field[0])
    ends = (field.end() for field in several)
    return next((end - 1 for end in ends if data[end : end + 1] not in behind), None)


def _state(rest: bytes, delimiter: bytes | None) -> bytes:
    """A short beginning of a row, after which a longer one is read on as after all of it."""
    body = rest.rstrip(b'"')  # of quotes at the end the next block says what they are
    if not body:
        return rest
    fields = _quoted(body, delimiter)
    state = body[-1:]
    if fields and not fields[-1][1]:
        state = b'"\n' if b"\n" in fields[-1][0] else b'"'
    return state + rest[len(body) :]


def row_starts(data: bytes, delimiter: bytes | None) -> npt.NDArray[np.int64]:
    """Where each row that is not blank begins.

    Args:
        data: whole rows.
        delimiter: of a table whose fields may be quoted; None where a line is a row.
    """
    ends = row_ends(data, delimiter)
    starts = np.concatenate([[0], ends[:-1]])
    spaces = None if delimiter is None else b"\r\n"
    is_row = [
        stop - start > _BLANK_BYTES or bool(data[start:stop].strip(spaces))
        for start, stop in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    return starts[np.array(is_row, np.bool_)]
