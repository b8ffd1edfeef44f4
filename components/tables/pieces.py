"""Cut tables into pieces that fit into memory and can be read independently.

A large file is cut between rows. Since a line break in a CSV may be inside quotes, quotes are
tracked from the beginning of the file, one block at a time.
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

PIECE_BYTES = 16 << 20  # 16 MiB take a few hundred MB of memory during processing
PIECE_ROWS = 1 << 18  # limits pieces of short rows: each row takes about 400 bytes of memory
MAX_ROW_BYTES = 64 << 20
MAX_COLUMNS = 50_000  # each column is a separate feature that costs some ms
_BLOCK_BYTES = 4 << 20
_BLANK_BYTES = 64  # longer lines are not checked for being blank
_LIKELY_ENCODINGS = ("latin-1", "utf-16")
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_HEAD_BYTES = 1 << 12  # bytes that are searched for the NULs of UTF-16
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
    """Settings for reading tables, already validated by an ExampleGen."""

    # Kinds of columns, as set by the user.
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # Column names of CSV and TSV files without a header, or names to use instead of it.
    column_names: Sequence[str] = ()
    # Whether the first row of CSV and TSV files is a header; None: detect it.
    header: bool | None = None
    delimiter: str | None = None  # between the fields of CSV and TSV; None: the layout's default
    # Quoting of CSV and TSV: `csv` (RFC 4180), or `none` (quotes are ordinary characters).
    quoting: str = "csv"
    encoding: str = "utf-8"  # encoding of the files, by its Python name
    follow_links: bool = False  # whether links may point outside the input base
    tokenizer: str | None = None  # the tokenizer whose template renders chats

    @property
    def is_utf8(self) -> bool:
        """Whether files are UTF-8 and need no conversion."""
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
        """Columns to ignore."""
        return frozenset(name for name, kind in self.columns.items() if kind == "ignore")


def select_settings(kind: type[_Options], settings: object) -> _Options:
    """Create a dataclass from the settings with its fields' names; missing ones keep the default.

    Args:
        kind: the dataclass.
        settings: an object whose attributes are settings.
    """
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: getattr(settings, name) for name in names if hasattr(settings, name)})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Piece:
    """The part of a table that one worker reads at a time."""

    path: str  # path relative to the input base, or the path of the file's UTF-8 copy
    source: str  # the file that the user provided
    layout: str  # the format to read it in
    split: str | None = None  # the split of all of its rows, or None
    start: int = 0  # the first byte, or the first row group of a Parquet file
    stop: int = 0  # the end of the bytes or row groups (exclusive)
    too_long: bool = False  # whether it is a single row that exceeds the maximum size
    rows: int = 0  # approximate number of rows, including blank ones
    # Details that depend on the layout, such as the column names.
    details: Mapping[str, Json] = dataclasses.field(default_factory=dict)

    @property
    def size(self) -> int:
        """Approximate number of bytes to read."""
        return int(self.details.get("bytes", self.stop - self.start))


# Ends of rows -------------------------------------------------------------------------------------


class BadQuote(Exception):
    """A quote that breaks the rules of CSV.

    Either a quoted field is never closed; its row begins at `offset`. Or text follows a closing
    quote at `offset` (`is_stray`). Lenient CSV readers would drop such quotes, or read the rows up
    to the next quote as a part of the field.
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
    """Cut a file between rows. Each row that is too long becomes a separate piece.

    Args:
        stream: the file.
        whole: a piece with the file's fields; the cut begins at its `start`.
        delimiter: the delimiter of a table with quoted fields. None: each line is a row.
        piece_bytes: approximate size of a piece in bytes.
        piece_rows: maximum number of rows of a piece.
        max_row_bytes: size in bytes above which a row is too long.

    Raises:
        BadQuote: the file ends inside quotes, or text follows a closing quote.
    """

    def part(start: int, stop: int, rows: int, *, too_long: bool = False) -> Piece:
        return dataclasses.replace(whole, start=start, stop=stop, too_long=too_long, rows=rows)

    rows = 0  # rows of the piece that is not yielded yet
    piece_start = row_start = offset = whole.start
    # `rest` is the incomplete row. A long one is reduced to a part with the same state of quotes.
    rest, is_end = b"", False
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
    """Return the offset of the end of the first row, and whether the data ends inside quotes."""
    fields = _quoted(data, delimiter)
    ends = _ends_outside(data, fields)
    return (int(ends[0]), False) if len(ends) else (len(data), _is_open(fields))


def _is_open(fields: list[re.Match[bytes]]) -> bool:
    return bool(fields) and not fields[-1][1]


def _quoted(data: bytes, delimiter: bytes | None) -> list[re.Match[bytes]]:
    """Return the quoted fields of data that begins with a field; the last one may be unclosed."""
    if delimiter is None or b'"' not in data:
        return []
    # A quote opens a field only at its beginning; elsewhere in an unquoted field it is ordinary.
    begins = rb"(?:\A|(?<=[\r\n%s]))" % re.escape(delimiter)
    return [*re.finditer(begins + rb'"[^"]*(?:""[^"]*)*("(?!")|\Z)', data)]


def _ends_outside(data: bytes, fields: list[re.Match[bytes]]) -> npt.NDArray[np.int64]:
    """Return the offsets after line feeds outside quoted fields, which are the ends of rows."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
    if not fields:
        return ends
    spans = np.array([field.span() for field in fields])
    is_outside = np.searchsorted(spans[:, 0], ends) == np.searchsorted(spans[:, 1], ends)
    outside: npt.NDArray[np.int64] = ends[is_outside]
    return outside


def _stray(data: bytes, fields: list[re.Match[bytes]], delimiter: bytes | None) -> int | None:
    """Return the offset of the first closing quote that text follows, or None."""
    if not fields:
        return None
    # Spaces between the quote and the end of the field are common. They are kept.
    spaces = b" \t".replace(delimiter or b"\n", b"")
    goes_on = re.compile(rb"[%s]*[^%s\r\n%s]" % (spaces, spaces, re.escape(delimiter or b"")))
    ends = (field.end() for field in fields if field[1])
    return next((end - 1 for end in ends if goes_on.match(data, end)), None)


def _state(rest: bytes, delimiter: bytes | None) -> bytes:
    """Reduce the beginning of a long row to a short one with the same state of quotes."""
    body = rest.rstrip(b'" \t')  # the meaning of quotes at the end depends on the next block
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
    """Return the offset of each row that is not blank, as `(rows,) int64`.

    Args:
        data: the rows.
        delimiter: the delimiter of a table with quoted fields, as in `cut`.
        are_fields: whether rows have fields, so that spaces are a value. Default: whether there is
            a delimiter.
    """
    ends = _ends_outside(data, _quoted(data, delimiter))
    ends = np.union1d(ends, len(data))  # the last row may have no line end
    starts = np.concatenate([[0], ends[:-1]])
    are_fields = delimiter is not None if are_fields is None else are_fields
    spaces = b"\r\n" if are_fields else None
    is_row = [
        stop - start > _BLANK_BYTES or bool(data[start:stop].strip(spaces))
        for start, stop in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    return starts[np.array(is_row, np.bool_)]


def lines_of(starts: Sequence[int], data: bytes) -> list[int]:
    """Return the line number of each offset, counted from 0.

    Args:
        starts: offsets into the data.
        data: the data.
    """
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    return [int(line) for line in np.searchsorted(ends, starts)]


# Rows ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class BadRow:
    """A rejected row."""

    record: int  # number of the row in the piece
    code: str  # the code in `rejects.jsonl`
    detail: str  # the detail in `rejects.jsonl`
    line: int | None = None  # line number in the piece, from 0; None if the format has no lines


@dataclasses.dataclass
class Rows:
    """The rows of a piece."""

    columns: dict[str, pa.Array]  # Arrow arrays of the same length
    found: int  # number of rows in the piece
    # `(rows,) int64`, the numbers of the remaining rows. Default: all but the bad ones.
    records: npt.NDArray[np.int64] = None  # type: ignore[assignment]
    bad: list[BadRow] = dataclasses.field(default_factory=list)  # the rejected rows
    skipped: Sequence[int] = ()  # numbers of rows that are left out on purpose
    # The name of each of the `found` rows, if rows have names.
    names: Sequence[str] | None = None
    lines: int = 0  # number of line ends
    # Columns whose numbers and lists may be written as strings, as in a CSV.
    texts: Collection[str] = ()
    # as_json, chats: columns whose values are JSON, and those columns whose values are chats.
    as_json: Collection[str] = ()
    chats: Collection[str] = ()
    # Class names of columns with class numbers, if the file has them.
    class_names: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    # Checksums of the source: the first byte, the number of bytes, and their CRC-32C. For a piece
    # of several files: the CRC-32C of each, or None if it could not be read. Empty for Parquet.
    sums: list[Any] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        if self.records is None:
            self.records = np.delete(np.arange(self.found), [row.record for row in self.bad])

    def keep(self, mask: npt.NDArray[np.bool_]) -> None:
        """Keep only the rows that a boolean mask selects."""
        chosen = pa.array(mask)
        self.columns = {name: array.filter(chosen) for name, array in self.columns.items()}
        self.records = self.records[mask]


def checked_texts(
    rows: Rows, lines: Mapping[int, int] | None = None, *, names: Collection[str] | None = None
) -> Rows:
    """Convert binary columns to strings, and reject rows with NUL bytes or invalid UTF-8.

    Args:
        rows: the rows. They are changed in place.
        lines: the line number of each record that may be bad.
        names: the columns to convert. Default: all binary columns.

    Returns:
        The same rows.
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
    """Return the reject code and detail for bytes that are not text, or None."""
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
    """Return advice for bytes with NULs: to name the encoding if they look like UTF-16."""
    head = np.frombuffer(value[:_HEAD_BYTES], np.uint8) == 0
    shares = [float(head[start::2].mean()) if len(head) > start else 0.0 for start in (0, 1)]
    is_utf_16 = value.startswith(_UTF_16) or (max(shares) > 0.4 and min(shares) < 0.1)
    if is_utf_16:
        return _name_encoding(_LIKELY_ENCODINGS[1])
    return "Remove such bytes, as by tr -d '\\000' < old > new, or leave out what is no text"


def not_utf8(error: UnicodeDecodeError) -> tuple[str, str]:
    """Return the reject code and detail for a decoding error."""
    octets = error.object[error.start : error.start + 4]
    likely = _LIKELY_ENCODINGS[b"\0" in octets or octets.startswith(_UTF_16)]
    return "NOT_UTF8", f"expected UTF-8, got {octets!r}. {_name_encoding(likely)}"


def _name_encoding(likely: str) -> str:
    """Return advice for a file in another encoding."""
    return f"Save it as UTF-8, or name its encoding: {how_to_set(encoding=likely)}"


def advice_for_images(message: str) -> str:
    """Replace the setting `encoding` by `list_encoding`, its name for images, in a message."""
    for likely in _LIKELY_ENCODINGS:
        message = message.replace(how_to_set(encoding=likely), how_to_set(list_encoding=likely))
    return message
