"""Pieces of tables, which fit into memory and are read independently, and the rows in them."""

import codecs
import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.inputs.advice import how_to_set
from components.inputs.arrow_columns import bool_array
from components.tables.row_ends import LIMITS, RowSpan
from trainer_utils.format.media_formats import packing_of

PIECE_BYTES, PIECE_ROWS = LIMITS.piece_bytes, LIMITS.piece_rows
MAX_ROW_BYTES = LIMITS.max_row_bytes
MAX_COLUMNS = 50_000  # each column is a separate feature that costs some ms
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
class Header:
    """The columns of a CSV or TSV, and the form of its rows."""

    names: Sequence[str]
    certainty: str  # `shown` or `likely` to be a header; empty: the user names the columns
    delimiter: str  # the character between fields
    lines_before: int  # line ends before the first row
    has_quotes: bool = True  # whether fields may be quoted
    unnamed: int = 0  # number of empty fields at the end of each row, without a name


class TextFile(NamedTuple):
    """A file that is one row."""

    name: str  # its path relative to the input base
    size: int  # bytes
    label: str | None


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
    # Columns with one value for the whole table, from the names of its folders.
    partitions: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    header: Header | None = None  # of a CSV or TSV
    row_range: tuple[int, int] | None = None  # the rows of one Parquet row group; None: all
    unpacked_bytes: int | None = None  # unpacked size of Parquet, or size of `files`
    files: Sequence[TextFile] = ()  # the rows, if each is a file
    has_labels: bool = False  # whether the files have labels

    @property
    def size(self) -> int:
        """Approximate number of bytes to read."""
        return self.stop - self.start if self.unpacked_bytes is None else self.unpacked_bytes

    def part(self, span: RowSpan) -> "Piece":
        """Return a piece with some of the rows."""
        start, stop, rows, is_too_long = span
        return dataclasses.replace(self, start=start, stop=stop, rows=rows, too_long=is_too_long)


class TableOpener(Protocol):
    """The files that a table is one of."""

    def open(self, path: str) -> BinaryIO:
        """Open a file."""


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
        chosen = bool_array(mask)
        self.columns = {name: pc.filter(array, chosen) for name, array in self.columns.items()}
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
    rows.columns |= {name: pc.cast(rows.columns[name], pa.string()) for name in binary}
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
    return "Remove these bytes, as with tr -d '\\000' < old > new, or leave out the file"


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
