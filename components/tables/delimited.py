"""Tables as CSV and TSV, read by Arrow; every value is a text until all of them were seen.

A row with too few or too many fields, or with bytes that are no text, is rejected by itself. An
empty field is a missing value, a quoted empty one is an empty text.

Source: RFC 4180; quotes inside an unquoted field are characters of it, as Arrow reads them.
"""

import codecs
import csv
import dataclasses
import io
import itertools
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv

from components.common.layout_inputs import LayoutInputs
from components.tables.headers import ROWS, find_header_doubt, is_evident_header, refuse_doubtful
from components.tables.pieces import (
    MAX_COLUMNS,
    BadQuote,
    Piece,
    StrayQuote,
    TableOptions,
    cut,
    is_open,
    row_ends,
    row_starts,
)
from components.tables.rows import BadRow, Rows, checked_texts, lines_of, name_encoding, one_array
from trainer_utils.format import ConfigError, InputError

_BLOCK_BYTES = 1 << 20  # read in blocks of that size, Arrow keeps to the processor's cache
_HEAD_BYTES = 1 << 20  # that the header must fit into
_DELIMITERS = ",;\t|"  # that tables are found with
_HINT = re.compile(rb'"?sep=([^\r\n"])"?[,;\t]*\r?\n', re.IGNORECASE)
_NAME = re.compile(r'"?[^\W\d]\w*"?')
_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_QUOTING = (
    "A text that begins with a quote is quoted as a whole, and its own quotes are doubled: "
    '"""Yes"", he said".'
)


def find_pieces(
    inputs: LayoutInputs, whole: Piece, *, delimiter: str, options: TableOptions
) -> Iterator[Piece]:
    """Cuts a file into pieces of whole rows.

    Raises:
        InputError: it has no rows, no header that can be believed, or a quote that is never closed.
    """
    source = whole.source
    with inputs.open(whole.path) as stream:
        head = _Head(stream.read(_HEAD_BYTES), delimiter, source)
        names, start, header = head.read(options)
        details = {
            "names": names,
            "header": header,
            "delimiter": delimiter,
            "lines_before": head.data[:start].count(b"\n"),
        }
        whole = dataclasses.replace(whole, details=details)
        try:
            parts = cut(stream, start=start, delimiter=delimiter.encode(), refuse_stray=True)
            # A header alone is a piece as well, so that it is compared with those of other files.
            for part in itertools.chain([next(parts, (start, start))], parts):
                yield whole.narrow(part)
        except BadQuote as error:
            line = _line_of(stream, error.offset)
            rule, got = "every quote to be closed", f"a row in which one is not (from line {line})"
            if isinstance(error, StrayQuote):
                rule = "a quoted field of several lines to end where a field does"
                got = f"a quote within a text behind it (line {line})"
            raise InputError.at(source, expected=rule, got=got, advice=_QUOTING) from error


def _line_of(stream: BinaryIO, offset: int) -> int:
    stream.seek(0)
    line = 1
    while offset > 0 and (block := stream.read(min(offset, 16 << 20))):
        line += block.count(b"\n")
        offset -= len(block)
    return line


class _Head:
    """The beginning of a file, with its header."""

    def __init__(self, data: bytes, delimiter: str, source: str) -> None:
        self.data, self._delimiter, self._source = data, delimiter, source

    def read(self, options: TableOptions) -> tuple[list[str], int, str]:
        """The columns' names, where the first row begins, and how sure it is that they are names.

        That is `shown`, `likely`, or empty where the user says so.
        """
        start = self._begin()
        self._check_line_ends(start)
        given = list(options.column_names)
        first, stop = self._first_row(start)
        if given and not options.header:
            return given, stop if first == given else start, ""  # one that says the same is no row
        self._check_header(first, start, stop)
        if given:
            if len(first) != len(given):
                rule = f"{len(first)} names as the header of {self._source!r} has"
                raise ConfigError.of("column_names", given, allowed=rule)
            return given, stop, ""
        if not options.header and first[0] not in options.columns:
            self._check_delimiter(first)
        rows = self._rows_below(stop)
        reason = find_header_doubt(first, rows, known=options.columns)
        if options.header and all(first) and len(set(first)) == len(first):
            reason = None
        if reason is not None:
            refuse_doubtful(self._source, first, rows, reason)
        if len(first) > MAX_COLUMNS:
            raise self._bad(f"at most {MAX_COLUMNS} columns", str(len(first)))
        sure = is_evident_header(first, rows, known=options.columns)
        return first, stop, "shown" if sure else "likely"

    def _bad(self, expected: str, got: str, advice: str = "") -> InputError:
        got = f"{got} (line 1)"
        return InputError.at(self._source, expected=expected, got=got, advice=advice)

    def _begin(self) -> int:
        """Where the header begins: behind a mark of UTF-8, and Excel's line `sep=;`."""
        start = len(codecs.BOM_UTF8) if self.data.startswith(codecs.BOM_UTF8) else 0
        hint = _HINT.match(self.data, start)
        if hint is None:
            return start
        named = hint[1].decode("latin-1")
        if named != self._delimiter:
            raise self._bad(
                f"fields divided by {self._delimiter!r}",
                repr(hint[0].decode("latin-1").strip()),
                f"Say so as well: delimiter={named!r} (tfx-shards convert … --delimiter "
                f"{shlex.quote(named)}), or remove that line.",
            )
        return hint.end()

    def _check_line_ends(self, start: int) -> None:
        """Refuses a table of which no row ends as here: all of it would be taken for the header.

        Every other byte of UTF-16 is a NUL, also in the header.
        """
        head = self.data[start:].lstrip(b"\r\n")
        row = head[: int(row_ends(head, self._delimiter.encode())[0])].rstrip(b"\r\n")
        if b"\0" in row:
            raise self._bad("text", "NUL bytes", f"{name_encoding('utf-16')}.")
        if b"\r" in b"".join(row.split(b'"')[::2]):  # each doubled quote ends and begins one
            rule = "rows that end in a line feed, alone or after a carriage return"
            cure = "Write it again with line feeds: tr '\\r' '\\n' < old.csv > new.csv."
            raise self._bad(rule, "carriage returns alone", cure)

    def _first_row(self, start: int) -> tuple[list[str], int]:
        """The fields of the first row without spaces round them, and where it ends."""
        while self.data[start : start + 1] in (b"\n", b"\r"):
            start += 1
        stop = start + int(row_ends(self.data[start:], self._delimiter.encode())[0])
        rows = self._parsed(self.data[start:stop])  # none, if it is longer than any name
        return [field.strip() for field in (rows or [[]])[0]], stop

    def _parsed(self, data: bytes) -> list[list[str]]:
        text = io.StringIO(data.decode("utf-8", "replace"), newline="")
        try:
            return [*itertools.islice(csv.reader(text, delimiter=self._delimiter), ROWS)]
        except csv.Error:
            return []

    def _rows_below(self, stop: int) -> list[list[str]]:
        """Some rows after the header; their errors are reported when they are read."""
        return [row for row in self._parsed(self.data[stop:]) if row]

    def _check_header(self, fields: Sequence[str], start: int, stop: int) -> None:
        is_cut = stop == _HEAD_BYTES or is_open(self.data[start:], self._delimiter.encode())
        if stop == len(self.data) and is_cut:
            rule = f"a header of at most {_HEAD_BYTES} bytes whose quotes are closed"
            cure = (
                "For a table without a header: column_names=['text', 'label'] "
                "(tfx-shards convert … --columns text,label)."
            )
            raise self._bad(rule, "another", cure)
        try:
            self.data[start:stop].decode("utf-8")
        except UnicodeDecodeError as error:
            likely = "utf-16" if self.data.startswith(_MARKS) else "latin-1"
            cure = f"{name_encoding(likely)}."
            raise self._bad("a header in UTF-8", str(error), cure) from error
        if not any(fields):
            rule = "a header with the names of the columns"
            raise InputError(f"{self._source!r}: expected {rule}, found none", path=self._source)

    def _check_delimiter(self, first: Sequence[str]) -> None:
        """Refuses a header of one name that is several, divided by another character."""
        for other in _DELIMITERS.replace(self._delimiter, "") if len(first) == 1 else "":
            names = first[0].split(other)
            if len(names) > 1 and all(map(_NAME.fullmatch, names)):
                raise self._bad(
                    f"names divided by {self._delimiter!r} in the first row",
                    repr(first[0]),
                    f"Name what divides them: delimiter={other!r} (tfx-shards convert … "
                    f"--delimiter {shlex.quote(other)}); if it is one name, say so: header=True "
                    "(tfx-shards convert … --header).",
                )


def read(data: bytes, piece: Piece) -> Rows:
    """The rows of a piece, all values as texts."""
    if not data:
        return Rows({}, found=0)
    names, delimiter = piece.details["names"], piece.details["delimiter"]
    if data.find(b"\0") < 0:
        try:
            table = _read(data, names, delimiter, block_bytes=_BLOCK_BYTES)
        except pa.ArrowInvalid:
            pass  # a row is bad, or longer than a block
        else:
            columns = {name: one_array(table[name]) for name in names}
            return Rows(columns, found=len(table), lines=data.count(b"\n"), texts=names)
    return _read_slowly(data, names, delimiter)


def _read(
    data: bytes, names: Sequence[str], delimiter: str, *, block_bytes: int, on_invalid: Any = None
) -> pa.Table:
    return pyarrow.csv.read_csv(
        pa.BufferReader(data),
        read_options=pyarrow.csv.ReadOptions(
            # Arrow's threads may outlive a read that failed, and then hang the process at its end;
            # they took a quarter more of the processor, and spared a tenth of the time.
            column_names=list(names),
            block_size=block_bytes,
            use_threads=False,
        ),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, invalid_row_handler=on_invalid
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )


def _read_slowly(data: bytes, names: Sequence[str], delimiter: str) -> Rows:
    """As `read`, with the bad rows found one by one."""
    invalid: list[pyarrow.csv.InvalidRow] = []

    def leave_out(row: pyarrow.csv.InvalidRow) -> str:
        invalid.append(row)
        return "skip"

    # Arrow hands a bad row on as a text, and gives up on the whole piece where it is none. As
    # Latin-1 all bytes are, and no other ones than before are quotes, delimiters or ends of rows.
    text = data.decode("latin-1").encode()
    table = _read(text, names, delimiter, block_bytes=len(text) + 1, on_invalid=leave_out)
    starts = row_starts(data, delimiter.encode()).tolist()
    lines = dict(enumerate(lines_of(starts, data)))
    bad = []
    for row in invalid:
        record, fields = row.number - 1, f"{row.expected_columns} fields ({','.join(names)})"
        detail = f"expected {fields}, got {row.actual_columns}"
        bad.append(BadRow(record, "WRONG_COLUMNS", detail, lines.get(record)))
    columns = {name: _from_latin_1(table[name]) for name in names}
    found, ends = len(table) + len(invalid), data.count(b"\n")
    return checked_texts(Rows(columns, found=found, bad=bad, lines=ends, texts=names), lines)


def _from_latin_1(column: pa.ChunkedArray) -> pa.Array:
    values = column.to_pylist()
    return pa.array([v if v is None else v.encode("latin-1") for v in values], pa.binary())
