"""Pieces of tables, each small enough to be held and read without the others, and how.

A large file is cut where a row ends. In a CSV a line break may stand between quotes, so the cut
follows the quotes from the file's beginning, a block at a time.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, TypeVar

import numpy as np
import numpy.typing as npt

from trainer_utils.format.json_text import Json

PIECE_BYTES = 16 << 20  # 16 MiB: some hundred MB while it is worked on
MAX_ROW_BYTES = 64 << 20
MAX_COLUMNS = 50_000  # each is a feature of its own, with some ms of work
_BLOCK_BYTES = 4 << 20
_BLANK_BYTES = 64  # a line of more spaces than that is no blank one
_NEWLINE = b"\n"[0]

_Options = TypeVar("_Options")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How tables are read, by settings that an ExampleGen has checked."""

    # kinds by column, as the user sets them
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    column_names: Sequence[str] = ()  # of CSV and TSV without a header, or in place of its names
    # whether the first row of CSV and TSV has the names; None where that is recognised
    header: bool | None = None
    delimiter: str | None = None  # between the fields of CSV and TSV; None for the layout's own
    encoding: str = "utf-8"  # of the files, as Python names it

    @property
    def is_utf8(self) -> bool:
        """Whether files can be read as they are."""
        return self.encoding in ("utf-8", "utf-8-sig", "ascii")

    @property
    def ignored(self) -> frozenset[str]:
        """Columns that are ignored."""
        return frozenset(name for name, kind in self.columns.items() if kind == "ignore")


def select_settings(kind: type[_Options], settings: object) -> _Options:
    """Makes a dataclass of the settings of its fields' names; where there is none, its default."""
    names = [field.name for field in dataclasses.fields(kind) if hasattr(settings, field.name)]  # type: ignore[arg-type]
    values: dict[str, Any] = {name: getattr(settings, name) for name in names}
    return kind(**values)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Piece:
    """What one worker reads at a time."""

    path: str  # of the file, relative to the input base; of its UTF-8 copy where it needed one
    source: str  # the file as the user knows it
    layout: str  # how it is read
    split: str | None = None  # that all of its rows belong to, or None
    start: int = 0  # of its bytes; of a Parquet file of its row groups
    stop: int = 0
    too_long: bool = False  # whether it is one row, longer than may be held
    # what the layout needs beside, such as the names of the columns
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

    A text that begins with a quote which nobody doubled takes in the rows up to the next such one.
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
    """Cuts a file where rows end: the pieces' bytes, in order, and rows that are too long.

    Args:
        start: where the first row begins.
        delimiter: of a table whose fields may be quoted; None where a line is a row.
        piece_bytes: about how long a piece is.
        refuse_stray: whether quotes within texts behind fields of several lines are looked for.

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
    """Where each row that is not blank begins; takes what `cut` takes."""
    ends = row_ends(data, delimiter)
    starts = np.concatenate([[0], ends[:-1]])
    spaces = None if delimiter is None else b"\r\n"
    is_row = [
        stop - start > _BLANK_BYTES or bool(data[start:stop].strip(spaces))
        for start, stop in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    return starts[np.array(is_row, np.bool_)]
