"""Pieces of tables, each small enough to be held and read without the others, and their rows.

A large file is cut where a row ends. In a CSV a line break may stand between quotes, so the cut
follows the quotes from the file's beginning, a block at a time.
"""

import codecs
import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from components.common.advice import how_to_set
from trainer_utils.format.json_text import Json
from trainer_utils.format.media_formats import packing_of

PIECE_BYTES = 16 << 20  # 16 MiB: some hundred MB while it is worked on
PIECE_ROWS = 1 << 18  # of short rows, each of which takes some 400 bytes while it is worked on
MAX_ROW_BYTES = 64 << 20
MAX_COLUMNS = 50_000  # each is a feature of its own, with some ms of work
_BLOCK_BYTES = 4 << 20
_BLANK_BYTES = 64  # a line of more spaces than that is no blank one
_LIKELY_ENCODINGS = ("latin-1", "utf-16")
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_HEAD_BYTES = 1 << 12  # that are looked at
_PARQUET = "a Parquet file"
_BINARY_FORMATS = {
    b"PAR1": _PARQUET,
    b"ARROW1": "an Arrow file",
    b"\x93NUMPY": "an array of NumPy",
    b"\x89HDF": "an HDF5 file",
    b"SQLite format 3": "a database of SQLite",
    b"%PDF-": "a PDF document",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"RIFF": "a WAV or WebP file",
    b"\xd0\xcf\x11\xe0": "a document of Microsoft Office",
    b"OggS": "an Ogg file",
    b"fLaC": "a FLAC file",
    b"ID3": "an MP3 file",
}

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
    # of CSV and TSV: `csv` (RFC 4180), or `none`: quotes are characters like any other
    quoting: str = "csv"
    encoding: str = "utf-8"  # of the files, as Python names it
    follow_links: bool = False  # whether links may lead out of the input base
    tokenizer: str | None = None  # whose template makes texts of chats

    @property
    def is_utf8(self) -> bool:
        """Whether files can be read as they are."""
        return self.encoding in ("utf-8", "utf-8-sig", "ascii")

    @property
    def has_quotes(self) -> bool:
        """Whether fields of CSV and TSV may be quoted."""
        return self.quoting == "csv"

    @property
    def as_json(self) -> frozenset[str]:
        """Columns whose values are kept as JSON."""
        return frozenset(name for name, kind in self.columns.items() if kind == "json")

    @property
    def ignored(self) -> frozenset[str]:
        """Columns that are ignored."""
        return frozenset(name for name, kind in self.columns.items() if kind == "ignore")


def select_settings(kind: type[_Options], settings: object) -> _Options:
    """Makes a dataclass of the settings of its fields' names; where there is none, its default."""
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: getattr(settings, name) for name in names if hasattr(settings, name)})


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
    rows: int = 0  # about how many rows there are, blank ones among them
    # what the layout needs beside, such as the names of the columns
    details: Mapping[str, Json] = dataclasses.field(default_factory=dict)

    @property
    def size(self) -> int:
        """About how many bytes are read."""
        return int(self.details.get("bytes", self.stop - self.start))


# Where rows end -----------------------------------------------------------------------------------


class BadQuote(Exception):
    """A quote that cannot be meant.

    A quoted field does not end, and `offset` is where the row with it begins. Or one goes on after
    its closing quote (`is_stray`), which is at `offset`: readers of CSV would drop both quotes, or
    take the rows up to the next quote for a part of the field.
    """

    def __init__(self, offset: int, *, is_stray: bool) -> None:
        super().__init__(f"byte {offset}")
        self.offset, self.is_stray = offset, is_stray


def cut(
    stream: BinaryIO,
    whole: Piece,
    *,
    delimiter: bytes | None = None,
    piece_bytes: int = PIECE_BYTES,
    piece_rows: int = PIECE_ROWS,
    max_row_bytes: int = MAX_ROW_BYTES,
) -> Iterator[Piece]:
    """Cuts a file where rows end, from where it is said to start; rows that are too long alone.

    Args:
        delimiter: of a table whose fields may be quoted; None where a line is a row.
        piece_bytes: about how long a piece is.
        piece_rows: the most rows of a piece.

    Raises:
        BadQuote: the file ends between quotes, or a field goes on after its closing quote.
    """

    def part(start: int, stop: int, rows: int, *, too_long: bool = False) -> Piece:
        return dataclasses.replace(whole, start=start, stop=stop, too_long=too_long, rows=rows)

    rows = 0  # of the piece that is not yielded yet
    piece_start = row_start = offset = whole.start
    rest, is_end = b"", False  # of the last row; of a long one what says if it is between quotes
    stream.seek(offset)
    while not is_end:
        block = stream.read(_BLOCK_BYTES)
        is_end = not block
        offset += len(block)
        rest += block
        begin = offset - len(rest)
        fields = _quoted(rest, delimiter)
        if (stray := _stray(rest, fields, delimiter)) is not None:
            raise BadQuote(begin + stray, is_stray=True)
        if is_end and _is_open(fields):
            raise BadQuote(row_start, is_stray=False)
        ends = [len(rest)] if is_end else _ends_outside(rest, fields)
        if not len(ends):
            rest = _state(rest, delimiter)
            continue
        rest_start = int(ends[-1])
        first, last = begin + int(ends[0]), begin + rest_start
        if first - row_start > max_row_bytes:
            if row_start > piece_start:
                yield part(piece_start, row_start, rows)
            yield part(row_start, first, 1, too_long=True)
            piece_start, rows, ends = first, 0, ends[1:]
        rows += len(ends)
        while rows > piece_rows:
            place = len(ends) - (rows - piece_rows)
            stop = begin + int(ends[place - 1]) if place else max(row_start, piece_start)
            yield part(piece_start, stop, piece_rows)
            piece_start, rows, ends = stop, rows - piece_rows, ends[place:]
        if last - piece_start >= (1 if is_end else piece_bytes):
            yield part(piece_start, last, rows)
            piece_start, rows = last, 0
        row_start, rest = last, rest[rest_start:]


def first_row(data: bytes, delimiter: bytes | None) -> tuple[int, bool]:
    """Return where the first row ends, and whether the data ends before, between quotes."""
    fields = _quoted(data, delimiter)
    ends = _ends_outside(data, fields)
    return (int(ends[0]), False) if len(ends) else (len(data), _is_open(fields))


def _is_open(fields: list[re.Match[bytes]]) -> bool:
    return bool(fields) and not fields[-1][1]


def _quoted(data: bytes, delimiter: bytes | None) -> list[re.Match[bytes]]:
    """The quoted fields of data that begins with a field; the last of them may not be closed."""
    if delimiter is None or b'"' not in data:
        return []
    # A quote opens where a field begins, and is a character anywhere else in an unquoted one.
    begins = rb"(?:\A|(?<=[\r\n%s]))" % re.escape(delimiter)
    return [*re.finditer(begins + rb'"[^"]*(?:""[^"]*)*("(?!")|\Z)', data)]


def _ends_outside(data: bytes, fields: list[re.Match[bytes]]) -> npt.NDArray[np.int64]:
    """Where rows end: behind line feeds that are in none of the quoted fields."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
    if not fields:
        return ends
    spans = np.array([field.span() for field in fields])
    is_outside = np.searchsorted(spans[:, 0], ends) == np.searchsorted(spans[:, 1], ends)
    outside: npt.NDArray[np.int64] = ends[is_outside]
    return outside


def _stray(data: bytes, fields: list[re.Match[bytes]], delimiter: bytes | None) -> int | None:
    """Return the offset of the first closing quote after which the field goes on."""
    if not fields:
        return None
    # Spaces between the quote and the end of the field are common, and are kept.
    spaces = b" \t".replace(delimiter or b"\n", b"")
    goes_on = re.compile(rb"[%s]*[^%s\r\n%s]" % (spaces, spaces, re.escape(delimiter or b"")))
    ends = (field.end() for field in fields if field[1])
    return next((end - 1 for end in ends if goes_on.match(data, end)), None)


def _state(rest: bytes, delimiter: bytes | None) -> bytes:
    """A short beginning of a row, after which a longer one is read on as after all of it."""
    body = rest.rstrip(b'" \t')  # the next block says what quotes at the end are
    if not body:
        return rest
    fields = _quoted(body, delimiter)
    state = body[-1:]
    if _is_open(fields):
        state = b'"\n' if b"\n" in fields[-1][0] else b'"'
    return state + rest[len(body) :]


def row_starts(
    data: bytes, delimiter: bytes | None, *, are_fields: bool | None = None
) -> npt.NDArray[np.int64]:
    """Return where each row that is not blank begins.

    Args:
        data: the rows.
        delimiter: as `cut` takes it.
        are_fields: whether rows have fields, so that spaces are a value. Default: whether there is
            a delimiter.
    """
    ends = _ends_outside(data, _quoted(data, delimiter))
    ends = np.union1d(ends, len(data))  # the last one may be without a line end
    starts = np.concatenate([[0], ends[:-1]])
    are_fields = delimiter is not None if are_fields is None else are_fields
    spaces = b"\r\n" if are_fields else None
    is_row = [
        stop - start > _BLANK_BYTES or bool(data[start:stop].strip(spaces))
        for start, stop in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    return starts[np.array(is_row, np.bool_)]


def lines_of(starts: Sequence[int], data: bytes) -> list[int]:
    """The line, from 0, in which each of some ascending offsets lies."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    return [int(line) for line in np.searchsorted(ends, starts)]


# Rows ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class BadRow:
    """A row that is rejected."""

    record: int  # its number in the piece
    code: str  # as in `rejects.jsonl`, as the detail is
    detail: str
    line: int | None = None  # its number in the piece, from 0; None where there are no lines


@dataclasses.dataclass
class Rows:
    """What was read of a piece."""

    columns: dict[str, pa.Array]  # Arrow arrays of one length
    found: int  # how many rows there were
    # `(rows,) int64`, the number of each that is left; by default all but the bad
    records: npt.NDArray[np.int64] = None  # type: ignore[assignment]
    bad: list[BadRow] = dataclasses.field(default_factory=list)  # the others
    skipped: Sequence[int] = ()  # numbers of those left out on purpose
    # what each of all `found` is called, where it has a name of its own
    names: Sequence[str] | None = None
    lines: int = 0  # how many line ends there are
    # columns in which numbers and lists may stand as texts, as in a CSV
    texts: Collection[str] = ()
    # as_json, chats: columns whose values are JSON, and those of them whose values are chats
    as_json: Collection[str] = ()
    chats: Collection[str] = ()
    # Names of the classes that numbers of a column stand for, where the file has them
    class_names: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    # what was read of the source: first byte, number of bytes, and their CRC-32C; of several files
    # the checksum of each, None where it could not be read; of Parquet none
    sums: list[Any] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        if self.records is None:
            self.records = np.delete(np.arange(self.found), [row.record for row in self.bad])

    def keep(self, mask: npt.NDArray[np.bool_]) -> None:
        """Leaves out rows."""
        chosen = pa.array(mask)
        self.columns = {name: array.filter(chosen) for name, array in self.columns.items()}
        self.records = self.records[mask]


def checked_texts(
    rows: Rows, lines: Mapping[int, int] | None = None, *, names: Collection[str] | None = None
) -> Rows:
    """Binary columns as texts; rows with bytes that are not UTF-8, or are NUL, are rejected.

    `lines` says where records begin, of those that may be bad; `names`, which columns are texts.
    """
    bad: dict[int, BadRow] = {}
    binary = [
        name
        for name, array in rows.columns.items()
        if pa.types.is_binary(array.type) and (names is None or name in names)
    ]
    for name in binary:
        for row, value in enumerate(rows.columns[name].to_pylist()):
            if (problem := text_problem(value)) is not None:
                record = int(rows.records[row])
                code, detail = problem
                line = (lines or {}).get(record)
                bad.setdefault(record, BadRow(record, code, f"column {name!r}: {detail}", line))
    if bad:
        rows.keep(~np.isin(rows.records, list(bad)))
        rows.bad = sorted([*rows.bad, *bad.values()], key=lambda row: row.record)
    rows.columns |= {name: rows.columns[name].cast(pa.string()) for name in binary}
    return rows


def text_problem(value: bytes | None) -> tuple[str, str] | None:
    """The code and detail of bytes that are no text."""
    problem = None
    try:
        (value or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        problem = not_utf8(error)
    if value and b"\0" in value:
        problem = "NUL_BYTE", f"expected text, got a NUL byte. {_cure_of_nul(value)}"
    if value and problem and (packing := packing_of(value)) is not None:
        problem = "UNSUPPORTED_FORMAT", f"expected text, got {packing}. Unpack it first"
    if value and problem and (other := _binary_format(value)) is not None:
        cure = f"Read it as one: {how_to_set(layout='parquet')}"
        if other != _PARQUET:
            cure = "Convert it to text, or leave the file out by its name (`ignore`, `--ignore`)"
        problem = "UNSUPPORTED_FORMAT", f"expected text, got {other}. {cure}"
    return problem


def _binary_format(value: bytes) -> str | None:
    return next((name for sign, name in _BINARY_FORMATS.items() if value.startswith(sign)), None)


def _cure_of_nul(value: bytes) -> str:
    """Return the advice for bytes with NULs: an encoding if they are like UTF-16, else none."""
    head = np.frombuffer(value[:_HEAD_BYTES], np.uint8) == 0
    shares = [float(head[start::2].mean()) if len(head) > start else 0.0 for start in (0, 1)]
    is_utf_16 = value.startswith(_UTF_16) or (max(shares) > 0.4 and min(shares) < 0.1)
    if is_utf_16:
        return _name_encoding(_LIKELY_ENCODINGS[1])
    return "Remove such bytes, as by tr -d '\\000' < old > new, or leave out what is no text"


def not_utf8(error: UnicodeDecodeError) -> tuple[str, str]:
    """The code and detail of a failure to decode."""
    octets = error.object[error.start : error.start + 4]
    likely = _LIKELY_ENCODINGS[b"\0" in octets or octets.startswith(_UTF_16)]
    return "NOT_UTF8", f"expected UTF-8, got {octets!r}. {_name_encoding(likely)}"


def _name_encoding(likely: str) -> str:
    """What to do about a file in another encoding, of which lists of files have none."""
    return f"Save it as UTF-8, or name its encoding: {how_to_set(encoding=likely)}"


def advice_for_images(message: str) -> str:
    """Return a message about a table with `list_encoding`, as images have it, for `encoding`."""
    for likely in _LIKELY_ENCODINGS:
        message = message.replace(how_to_set(encoding=likely), how_to_set(list_encoding=likely))
    return message
