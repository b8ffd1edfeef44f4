"""Tables as CSV and TSV, read by Arrow; every value is a text until all of them were seen.

A row with too few or too many fields, or with bytes that are no text, is rejected by itself. An
empty field is a missing value, a quoted empty one is an empty text.

Source: RFC 4180; quotes inside an unquoted field are characters of it, as Arrow reads them.
"""

import collections
import csv
import io
import itertools
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
    Piece,
    UnclosedQuote,
    cut,
    row_ends,
    row_starts,
)
from components.tables.rows import BadRow, Rows, checked_texts, lines_of, one_array
from trainer_utils.format import ConfigError, InputError

__all__ = ["find_pieces", "read"]

_BLOCK_BYTES = 1 << 20  # read in blocks of that size, Arrow keeps to the processor's cache
_HEAD_BYTES = 1 << 20  # that the header must fit into
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def find_pieces(
    inputs: LayoutInputs,
    path: str,
    *,
    source: str,
    layout: str,
    split: str | None,
    delimiter: str,
    options: TableOptions,
) -> Iterator[Piece]:
    """Cuts a file into pieces of whole rows.

    Raises:
        InputError: it has no rows, no header that can be believed, or a quote that is never closed.
    """
    with inputs.open(path) as stream:
        head = stream.read(_HEAD_BYTES)
        start = len(_BYTE_ORDER_MARK) if head.startswith(_BYTE_ORDER_MARK) else 0
        names, start, header = _names(head, start, delimiter, source, options)
        details = {
            "names": names,
            "header": header,
            "delimiter": delimiter,
            "lines_before": head[:start].count(b"\n"),
        }
        whole = Piece(path=path, source=source, layout=layout, split=split, details=details)
        try:
            parts = cut(stream, start=start, delimiter=delimiter.encode())
            # A header alone is a piece as well, so that it is compared with those of other files.
            for part in itertools.chain([next(parts, (start, start))], parts):
                yield whole.narrow(part)
        except UnclosedQuote as error:
            stream.seek(0)
            line = _count_lines(stream, error.offset) + 1
            raise InputError.at(
                source,
                expected="every quote to be closed",
                got=f"a row in which one is not (from line {line})",
                advice="Double the quotes inside of quoted fields.",
            ) from error


def _count_lines(stream: BinaryIO, stop: int) -> int:
    lines = 0
    while stop > 0 and (block := stream.read(min(stop, 16 << 20))):
        lines += block.count(b"\n")
        stop -= len(block)
    return lines


def _names(
    head: bytes, start: int, delimiter: str, source: str, options: TableOptions
) -> tuple[list[str], int, str]:
    """The names of the columns, where the first row begins, and how sure it is that they are names.

    That is `shown`, `likely`, or empty where the user says so.
    """
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
    if stop == len(head) and (stop == _HEAD_BYTES or _is_open(head[start:], delimiter)):
        raise InputError(
            f"{source!r}: expected a header of at most {_HEAD_BYTES} bytes whose quotes are closed "
            "(line 1). For a table without a header: column_names=['text', 'label'] "
            "(tfx-shards convert … --columns text,label)."
        )
    try:
        head[start:stop].decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source!r}: expected a header in UTF-8: {error} (line 1). If the file is in another "
            "encoding, say so: encoding='latin-1' (tfx-shards convert … --set encoding=latin-1).",
            path=source,
        ) from error
    if not any(fields):
        raise InputError(
            f"{source!r}: expected a header with the names of the columns, found none", path=source
        )
    return fields, stop


def _rows_below(body: bytes, delimiter: str) -> list[list[str]]:
    """Some whole rows after the header; their errors are reported when they are read."""
    text = body.decode("utf-8", "replace")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        return [row for row in itertools.islice(reader, ROWS) if row]
    except csv.Error:
        return []


def _is_open(row: bytes, delimiter: str) -> bool:
    """Whether a quote in it is not closed."""
    try:
        list(cut(io.BytesIO(row), delimiter=delimiter.encode()))
    except UnclosedQuote:
        return True
    return False


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
            column_names=list(names), block_size=block_bytes, use_threads=bad_rows is None
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
