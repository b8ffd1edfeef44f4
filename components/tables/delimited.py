"""Tables as CSV and TSV, read by Arrow; every value is a text until all of them were seen.

A row with too few or too many fields, or with bytes that are no text, is rejected by itself. An
empty field is a missing value, a quoted empty one is an empty text.

Source: RFC 4180; quotes inside an unquoted field are characters of it, as Arrow reads them.
"""

import codecs
import collections
import csv
import dataclasses
import io
import itertools
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv

from components.common.layout_inputs import LayoutInputs
from components.tables.headers import ROWS, find_header_doubt, is_evident_header, refuse_doubtful
from components.tables.options import TableOptions
from components.tables.pieces import (
    MAX_COLUMNS,
    BadQuote,
    Piece,
    StrayQuote,
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


def find_pieces(
    inputs: LayoutInputs, whole: Piece, *, delimiter: str, options: TableOptions
) -> Iterator[Piece]:
    """Cuts a file into pieces of whole rows.

    Raises:
        InputError: it has no rows, no header that can be believed, or a quote that is never closed.
    """
    source = whole.source
    with inputs.open(whole.path) as stream:
        head = stream.read(_HEAD_BYTES)
        start = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
        start += _hint_bytes(head[start:], delimiter, source)
        names, start, header = _names(head, start, delimiter, source, options)
        details = {
            "names": names,
            "header": header,
            "delimiter": delimiter,
            "lines_before": head[:start].count(b"\n"),
        }
        whole = dataclasses.replace(whole, details=details)
        try:
            parts = cut(stream, start=start, delimiter=delimiter.encode(), refuse_stray=True)
            # A header alone is a piece as well, so that it is compared with those of other files.
            for part in itertools.chain([next(parts, (start, start))], parts):
                yield whole.narrow(part)
        except BadQuote as error:
            line = _line_of(stream, error.offset)
            is_stray = isinstance(error, StrayQuote)
            raise InputError.at(
                source,
                expected="a quoted field of several lines to end where a field does"
                if is_stray
                else "every quote to be closed",
                got=f"a quote within a text behind it (line {line})"
                if is_stray
                else f"a row in which one is not (from line {line})",
                advice="A text that begins with a quote is quoted as a whole, and its own quotes "
                'are doubled: """Yes"", he said".',
            ) from error


def _hint_bytes(head: bytes, delimiter: str, source: str) -> int:
    """The length of the line by which Excel is told the delimiter, `sep=;`; 0 where there is none.

    Raises:
        InputError: it names another one.
    """
    hint = _HINT.match(head)
    if hint is None:
        return 0
    named = hint[1].decode("latin-1")
    if named != delimiter:
        raise InputError.at(
            source,
            expected=f"fields divided by {delimiter!r}",
            got=f"a first line that says {named!r}: {hint[0].decode('latin-1').strip()!r} (line 1)",
            advice=f"Say so as well: delimiter={named!r} (tfx-shards convert … --delimiter "
            f"{shlex.quote(named)}), or remove that line.",
        )
    return hint.end()


def _line_of(stream: BinaryIO, offset: int) -> int:
    stream.seek(0)
    line = 1
    while offset > 0 and (block := stream.read(min(offset, 16 << 20))):
        line += block.count(b"\n")
        offset -= len(block)
    return line


def _names(
    head: bytes, start: int, delimiter: str, source: str, options: TableOptions
) -> tuple[list[str], int, str]:
    """The names of the columns, where the first row begins, and how sure it is that they are names.

    That is `shown`, `likely`, or empty where the user says so.
    """
    _check_line_ends(head[start:], delimiter, source)
    given = list(options.column_names)
    if given and not options.header:
        # A header that says the same is no row.
        first, stop = _first_row(head, start, delimiter)
        return given, stop if first == given else start, ""
    first, stop = _checked_header(head, start, delimiter, source)
    if given:
        if len(first) != len(given):
            raise ConfigError(
                f"column_names: expected {len(first)} names as the header of {source!r} has, "
                f"got {len(given)}",
                setting="column_names",
            )
        return given, stop, ""
    if not options.header and first[0] not in options.columns:
        _check_delimiter(first, delimiter, source)
    reason = find_header_doubt(
        first, rows := _rows_below(head[stop:], delimiter), known=options.columns
    )
    if options.header:
        counts = collections.Counter(first)
        reason = None if all(first) and max(counts.values()) == 1 else reason
    if reason is not None:
        refuse_doubtful(source, first, rows, reason)
    if len(first) > MAX_COLUMNS:
        raise InputError.at(source, expected=f"at most {MAX_COLUMNS} columns", got=str(len(first)))
    sure = "shown" if is_evident_header(first, rows, known=options.columns) else "likely"
    return first, stop, sure


def _first_row(head: bytes, start: int, delimiter: str) -> tuple[list[str], int]:
    """The fields of the first row without spaces round them, and where it ends."""
    while head[start : start + 1] in (b"\n", b"\r"):
        start += 1
    stop = start + int(row_ends(head[start:], delimiter.encode())[0])
    text = head[start:stop].decode("utf-8", "replace")
    try:
        fields = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
    except csv.Error:  # longer than any name
        fields = []
    return [field.strip() for field in fields], stop


def _checked_header(head: bytes, start: int, delimiter: str, source: str) -> tuple[list[str], int]:
    fields, stop = _first_row(head, start, delimiter)
    if stop == len(head) and (stop == _HEAD_BYTES or is_open(head[start:], delimiter.encode())):
        raise InputError(
            f"{source!r}: expected a header of at most {_HEAD_BYTES} bytes whose quotes are closed "
            "(line 1). For a table without a header: column_names=['text', 'label'] "
            "(tfx-shards convert … --columns text,label)."
        )
    try:
        head[start:stop].decode("utf-8")
    except UnicodeDecodeError as error:
        marks = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        likely = "utf-16" if head.startswith(marks) else "latin-1"
        raise InputError(
            f"{source!r}: expected a header in UTF-8: {error} (line 1). {name_encoding(likely)}.",
            path=source,
        ) from error
    if not any(fields):
        raise InputError(
            f"{source!r}: expected a header with the names of the columns, found none", path=source
        )
    return fields, stop


def _check_line_ends(head: bytes, delimiter: str, source: str) -> None:
    """Refuses a table of which no row ends as here: all of it would be taken for the header.

    Every other byte of UTF-16 is a NUL, also in the header.
    """
    head = head.lstrip(b"\r\n")
    row = head[: int(row_ends(head, delimiter.encode())[0])].rstrip(b"\r\n")
    if b"\0" in row:
        raise InputError.at(
            source,
            expected="text",
            got="NUL bytes (line 1)",
            advice=f"{name_encoding('utf-16')}.",
        )
    unquoted = b"".join(row.split(b'"')[::2])  # each doubled quote ends and begins one
    if b"\r" in unquoted:
        raise InputError.at(
            source,
            expected="rows that end in a line feed, alone or after a carriage return",
            got="carriage returns alone (line 1)",
            advice="Write it again with line feeds: tr '\\r' '\\n' < old.csv > new.csv.",
        )


def _check_delimiter(first: Sequence[str], delimiter: str, source: str) -> None:
    """Refuses a header of one name that is several, divided by another character."""
    for other in _DELIMITERS.replace(delimiter, "") if len(first) == 1 else "":
        names = first[0].split(other)
        if len(names) > 1 and all(map(_NAME.fullmatch, names)):
            raise InputError.at(
                source,
                expected=f"names divided by {delimiter!r} in the first row",
                got=f"{first[0]!r} (line 1)",
                advice=f"Name what divides them: delimiter={other!r} (tfx-shards convert … "
                f"--delimiter {shlex.quote(other)}); if it is one name, say so: header=True "
                "(tfx-shards convert … --header).",
            )


def _rows_below(body: bytes, delimiter: str) -> list[list[str]]:
    """Some whole rows after the header; their errors are reported when they are read."""
    text = body.decode("utf-8", "replace")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        return [row for row in itertools.islice(reader, ROWS) if row]
    except csv.Error:
        return []


def read(data: bytes, piece: Piece) -> Rows:
    """The rows of a piece, all values as texts."""
    if not data:
        return Rows({}, found=0)
    names, delimiter = piece.details["names"], piece.details["delimiter"]
    if data.find(b"\0") < 0:
        try:
            table = _read(data, names, delimiter, pa.string(), block_bytes=_BLOCK_BYTES)
        except pa.ArrowInvalid:
            pass  # a row is bad, or longer than a block
        else:
            return Rows(
                {name: one_array(table[name]) for name in names},
                found=len(table),
                records=np.arange(len(table)),
                lines=data.count(b"\n"),
                texts=names,
            )
    return _read_slowly(data, names, delimiter)


def _read(
    data: bytes,
    names: Sequence[str],
    delimiter: str,
    kind: pa.DataType,
    *,
    block_bytes: int,
    bad_rows: list[pyarrow.csv.InvalidRow] | None = None,
) -> pa.Table:
    def leave_out(row: pyarrow.csv.InvalidRow) -> str:
        assert bad_rows is not None
        bad_rows.append(row)
        return "skip"

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
            delimiter=delimiter,
            newlines_in_values=True,
            invalid_row_handler=None if bad_rows is None else leave_out,
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, kind),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )


def _read_slowly(data: bytes, names: Sequence[str], delimiter: str) -> Rows:
    """As `read`, with the bad rows found one by one."""
    invalid: list[pyarrow.csv.InvalidRow] = []
    # Arrow hands a bad row on as a text, and gives up on the whole piece where it is none. As
    # Latin-1 all bytes are, and no other ones than before are quotes, delimiters or ends of rows.
    is_text = _is_utf8(data)
    text = data if is_text else data.decode("latin-1").encode()
    block_bytes = len(text) + 1
    table = _read(text, names, delimiter, pa.binary(), block_bytes=block_bytes, bad_rows=invalid)
    found = len(table) + len(invalid)
    starts = row_starts(data, delimiter.encode()).tolist()
    lines = dict(enumerate(lines_of(starts, data)))
    bad = [
        BadRow(
            row.number - 1,
            "WRONG_COLUMNS",
            f"expected {row.expected_columns} fields ({','.join(names)}), got {row.actual_columns}",
            lines.get(row.number - 1),
        )
        for row in invalid
    ]
    columns = {name: one_array(table[name]) for name in names}
    rows = Rows(
        columns if is_text else {name: _from_latin_1(column) for name, column in columns.items()},
        found=found,
        bad=bad,
        lines=data.count(b"\n"),
        texts=names,
    )
    return checked_texts(rows, lines)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _from_latin_1(column: pa.Array) -> pa.Array:
    """The bytes that were read as if they were Latin-1."""
    values = (None if value is None else value.decode() for value in column.to_pylist())
    return pa.array([v if v is None else v.encode("latin-1") for v in values], column.type)
