"""Read CSV and TSV with Arrow. Every value stays a string until all values have been seen.

A row with too few or too many fields, or with bytes that are not UTF-8, is rejected by itself. An
empty field is a missing value. A quoted empty field is an empty string.

The first row is accepted as a header if every name is present, unique and not a value. Values are
numbers, dates and words for a missing value. In addition, there must be evidence for a header, or
no evidence against it. Evidence for it is a known name (`text`, `label`, `id`, …, or a name in a
setting), or a word above a column of numbers. Evidence against it is a name of more than two words,
a sentence, a file name, or a name that occurs again in its column. All tables of a run must agree.
In doubt the user is asked: a wrong guess would lose a row of each file, or read the names as a row.

Source: RFC 4180. Quotes inside an unquoted field are ordinary characters, as in Arrow.
"""

import codecs
import collections
import csv
import dataclasses
import io
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from components.inputs.advice import how_to_set
from components.inputs.arrow_columns import one_array, to_numpy
from components.tables.column_types import LABEL_NAMES, MISSING_WORDS
from components.tables.pieces import (
    MAX_COLUMNS,
    BadRow,
    Header,
    Piece,
    Rows,
    TableOptions,
    checked_texts,
    text_problem,
)
from components.tables.quotes import BadQuote
from components.tables.row_ends import first_row, lines_of, row_starts
from trainer_utils.core.errors import ConfigError, InputError
from trainer_utils.format.media_formats import EXTENSIONS

_BLOCK_BYTES = 1 << 20  # blocks of this size fit into the processor's cache
_HEAD_BYTES = 1 << 20  # maximum size of the header
_DELIMITERS = ",;\t|"  # delimiters that tables commonly have
_HINT = re.compile(rb'"?sep=([^\r\n"])"?[,;\t]*\r?\n', re.IGNORECASE)
_NAME = re.compile(r'"?[^\W\d][\w.]*"?')
_QUOTING = (
    "A field that begins with a quote is quoted as a whole, and its own quotes are doubled: "
    '"""Yes"", he said". '
    f"If quotes are ordinary characters: {how_to_set(quoting='none')}."
)
_BACKSLASHES = (
    "This file has a backslash before a quote, as MySQL and Spark write it; CSV doubles the quote. "
    "Write it again with pandas: pandas.read_csv('old.csv', escapechar='\\\\')"
    ".to_csv('new.csv', index=False), and with header=None and header=False if it has no header."
)
_NEAR_BYTES = 4  # distance of the text after a quote from a backslash before that quote
_ROWS = 50  # rows that are compared with the first row
_MAX_CELLS = 100_000  # maximum number of cells to compare; limits the rows of a wide table
_NAMES = frozenset(
    [
        *LABEL_NAMES,
        *("text", "sentence", "sentence1", "sentence2", "review", "content", "document", "body"),
        *("comment", "title", "name", "question", "answer", "target", "sentiment", "score"),
        *("rating", "id", "index", "key", "split", "set", "ml_use", "image", "image_uri", "audio"),
        *("audio_uri", "clip", "filename", "file_name", "file", "path", "uri", "url"),
    ]
)
_NO_NAME = re.compile(
    rf"{'|'.join(map(re.escape, MISSING_WORDS))}|(?i:nan|nil|null|none|true|false)"
)
_INDEX = "index"  # the name given to an unnamed first column
_MAX_WORDS, _MAX_CHARACTERS = 2, 40
_SENTENCE = re.compile(r"[.!?…\u3002\uff01\uff1f]$|[,;.!?] ")
_FILE = re.compile(
    rf"://|({'|'.join(re.escape(e) for known in EXTENSIONS.values() for e in known)})$",
    re.IGNORECASE,
)
_SHOWN_CELLS, _SHOWN_CHARACTERS = 6, 40


def read_header(stream: BinaryIO, whole: Piece, *, delimiter: str, options: TableOptions) -> Piece:
    """Return a table with its header, as a piece that begins and ends after it.

    Args:
        stream: the file.
        whole: the file as one piece.
        delimiter: the character between fields.
        options: the settings of tables.

    Raises:
        InputError: the header is missing or doubtful.
        ConfigError: `column_names` does not fit the header.
    """
    head = stream.read(_HEAD_BYTES)
    all_names, start, certainty = _read_header(head, delimiter, options, whole.source)
    names = all_names
    while names and not names[-1]:  # the header and every row end with delimiters
        names = names[:-1]
    header = Header(
        names=names,
        certainty=certainty,
        delimiter=delimiter,
        lines_before=head[:start].count(b"\n"),
        has_quotes=options.has_quotes,
        unnamed=len(all_names) - len(names),
    )
    return dataclasses.replace(whole, start=start, stop=start, header=header)


def quote_error(stream: BinaryIO, source: str, error: BadQuote) -> InputError:
    """Return the error that names the line of a bad quote.

    Args:
        stream: the file.
        source: its name.
        error: the bad quote.
    """
    line = _line_of(stream, error.offset)
    rule, got = "every quote to be closed", f"a row in which one is not (from line {line})"
    if error.is_stray:
        rule = "a quoted field to end at its closing quote"
        got = f"more text after that quote (line {line})"
        if _has_backslash_before_quote(stream, error.offset):
            return InputError.at(source, expected=rule, got=got, advice=_BACKSLASHES)
    return InputError.at(source, expected=rule, got=got, advice=_QUOTING)


def _has_backslash_before_quote(stream: BinaryIO, offset: int) -> bool:
    """Return whether a quote within a few bytes before or after an offset has a backslash."""
    stream.seek(max(0, offset - _NEAR_BYTES))
    return b'\\"' in stream.read(2 * _NEAR_BYTES)


def _quoting_delimiter(delimiter: str, has_quotes: bool) -> bytes | None:
    """Return the delimiter for `cut`, or None if quotes have no meaning and each line is a row."""
    return delimiter.encode() if has_quotes else None


def _line_of(stream: BinaryIO, offset: int) -> int:
    stream.seek(0)
    line = 1
    while offset > 0 and (block := stream.read(min(offset, 16 << 20))):
        line += block.count(b"\n")
        offset -= len(block)
    return line


def _read_header(
    data: bytes, delimiter: str, options: TableOptions, source: str
) -> tuple[list[str], int, str]:
    """Return the column names, the offset of the first row, and the certainty of the header.

    The certainty is `shown`, `likely`, or empty if the user gives the names. `data` is the
    beginning of a file.
    """
    start = _begin(data, delimiter, source)
    has_quotes = options.has_quotes
    length, is_open = first_row(data[start:], _quoting_delimiter(delimiter, has_quotes))
    stop = start + length
    # Nothing is parsed if csv fails, such as on a field of more than 131,072 characters.
    parsed = _parsed(data[start:stop], delimiter, has_quotes) or [[]]
    first = [field.strip() for field in parsed[0]]
    given = list(options.column_names)
    is_header = not given or bool(options.header)
    _check_row(data[start:stop].rstrip(b"\r\n"), is_header, source)
    if not is_header:
        return given, stop if first == given else start, ""  # a row equal to the names is a header
    if is_open or stop == len(data) == _HEAD_BYTES:
        rule = f"a header of at most {_HEAD_BYTES} bytes whose quotes are closed"
        cure = f"For a table without a header: {how_to_set(column_names=['text', 'label'])}."
        raise _bad(source, rule, "another", cure)
    if not any(first):
        rule = "a header with the names of the columns"
        raise InputError(f"{source!r}: expected {rule}, found none", path=source)
    if given:
        if len(first) != len(given):
            rule = f"{len(first)} names as the header of {source!r} has"
            raise ConfigError.of("column_names", given, allowed=rule)
        return given, stop, ""
    if not options.header and first[0] not in options.columns:
        _check_delimiter(first, delimiter, source)
    # Parse some rows after the header. Their errors are reported when the rows are read.
    rows = [row for row in _parsed(data[stop:], delimiter, has_quotes) if row]
    end = _end_of_names(first, rows)
    first, unnamed = first[:end], first[end:]
    rows = [row[:end] if len(row) == end + len(unnamed) else row for row in rows]
    doubt, is_shown = judge_header(first, rows, known=options.columns)
    if not first[0] and _INDEX not in first:  # pandas and R write a table's index without a name
        inner, _ = judge_header(first[1:], [row[1:] for row in rows], known=options.columns)
        if options.header or (is_shown and inner is None):
            first[0], doubt = _INDEX, inner
    if doubt and not (options.header and all(first) and len(set(first)) == len(first)):
        refuse_doubtful(source, first, rows, doubt)
    if len(first) > MAX_COLUMNS:
        raise _bad(source, f"at most {MAX_COLUMNS} columns", str(len(first)))
    return [*first, *unnamed], stop, "shown" if is_shown else "likely"


def _end_of_names(first: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Return the number of names without trailing empty names, if their columns are empty."""
    end = len(first)
    while end > 1 and not first[end - 1]:
        end -= 1
    whole = [row for row in rows if len(row) == len(first)]
    if not whole or any(field.strip() for row in whole for field in row[end:]):
        return len(first)
    return end


def _bad(source: str, expected: str, got: str, advice: str = "") -> InputError:
    return InputError.at(source, expected=expected, got=f"{got} (line 1)", advice=advice)


def _begin(data: bytes, delimiter: str, source: str) -> int:
    """Return the offset of the header, after a UTF-8 BOM, Excel's `sep=;` line and blank lines."""
    start = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    if hint := _HINT.match(data, start):
        start, named = hint.end(), hint[1].decode("latin-1")
        if named != delimiter:
            raise _bad(
                source,
                f"fields divided by {delimiter!r}",
                repr(hint[0].decode("latin-1").strip()),
                f"Pass the setting as well: {how_to_set(delimiter=named)}, or remove that line.",
            )
    return len(data) - len(data[start:].lstrip(b"\r\n"))


def _check_row(row: bytes, is_header: bool, source: str) -> None:
    """Raise an InputError if the first row is not UTF-8, or if its lines end in CR alone.

    Otherwise a whole table with CR line ends would be read as its header. Without a header, only
    NUL bytes are checked for here: they show UTF-16, where every other byte can be NUL.
    """
    if (problem := text_problem(row)) is not None and (is_header or b"\0" in row):
        rule, detail = "a header in UTF-8 (line 1)", problem[1]
        raise InputError(f"{source!r}: expected {rule}: {detail}.", path=source)
    if b"\r" in b"".join(row.split(b'"')[::2]):  # outside quotes; a doubled quote is two of them
        rule = "rows that end in a line feed, alone or after a carriage return"
        cure = "Write it again with line feeds: tr '\\r' '\\n' < old.csv > new.csv."
        raise _bad(source, rule, "carriage returns alone", cure)


def _parsed(data: bytes, delimiter: str, has_quotes: bool) -> list[list[str]]:
    text = io.StringIO(data.decode("utf-8", "replace"), newline="")
    reader = csv.reader(
        text, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if has_quotes else csv.QUOTE_NONE
    )
    try:
        return [*itertools.islice(reader, _ROWS)]
    except csv.Error:
        return []


def _check_delimiter(first: Sequence[str], delimiter: str, source: str) -> None:
    """Raise an InputError if the only name of a header is several, with another delimiter."""
    for other in _DELIMITERS.replace(delimiter, "") if len(first) == 1 else "":
        names = first[0].removeprefix(other).split(other)  # the index column may be unnamed
        if other in first[0] and all(map(_NAME.fullmatch, names)):
            raise _bad(
                source,
                f"names divided by {delimiter!r} in the first row",
                repr(first[0]),
                f"Name the delimiter: {how_to_set(delimiter=other)}; "
                f"if it is a single name: {how_to_set(header=True)}.",
            )


def read(data: bytes, piece: Piece) -> Rows:
    """Return the rows of a piece, with all values as strings."""
    if not data:
        return Rows({}, found=0)
    header = piece.header
    assert header is not None, "read_header was not called"
    names, has_quotes = header.names, header.has_quotes
    unnamed = [f"unnamed {number}" for number in range(header.unnamed)]
    unnamed = [next(n for n in _free_names(name) if n not in names) for name in unnamed]
    rows = _read_rows(data, [*names, *unnamed], header.delimiter, has_quotes)
    if not unnamed:
        return rows
    quoting = _quoting_delimiter(header.delimiter, has_quotes)
    return _without_unnamed(rows, unnamed, len(names), data, quoting)


def _free_names(name: str) -> Iterator[str]:
    return (name + "_" * number for number in itertools.count())


def _without_unnamed(
    rows: Rows, unnamed: Sequence[str], first: int, data: bytes, quoting: bytes | None
) -> Rows:
    """Remove the columns without a name, and reject the rows that have a value in one."""
    bad = []
    for place, name in enumerate(unnamed, first + 1):
        lengths = pc.utf8_length(pc.utf8_trim_whitespace(rows.columns[name]))
        for row in np.flatnonzero(to_numpy(lengths, null=0)).tolist():
            detail = f"field {place} has a value and no name in the header"
            record = int(rows.records[row])
            line = lines_of(row_starts(data, quoting, are_fields=True).tolist(), data)[record]
            bad.append(BadRow(record, "WRONG_COLUMNS", detail, line))
    rows.columns = {name: array for name, array in rows.columns.items() if name not in unnamed}
    rows.texts = [name for name in rows.texts if name not in unnamed]
    if bad:
        rows.keep(~np.isin(rows.records, [row.record for row in bad]))
        rows.bad = sorted([*rows.bad, *bad], key=lambda row: row.record)
    return rows


def _read_rows(data: bytes, names: Sequence[str], delimiter: str, has_quotes: bool) -> Rows:
    if data.find(b"\0") < 0:
        try:
            table = _read(data, names, delimiter, has_quotes, block_bytes=_BLOCK_BYTES)
        except pa.ArrowInvalid:
            pass  # a row is malformed, or longer than a block
        else:
            columns = {name: one_array(table[name]) for name in names}
            return Rows(columns, found=len(table), lines=data.count(b"\n"), texts=names)
    return _read_slowly(data, names, delimiter, has_quotes)


def _read(
    data: bytes,
    names: Sequence[str],
    delimiter: str,
    has_quotes: bool,
    *,
    block_bytes: int,
    on_invalid: Any = None,
) -> pa.Table:
    """Read lines with Arrow, with every field as a string; an empty one is null unless quoted."""
    return pyarrow.csv.read_csv(
        pa.BufferReader(data),
        read_options=pyarrow.csv.ReadOptions(
            # Arrow's threads may outlive a failed read, and then hang the process at exit. They
            # also took 25 % more CPU time, to save 10 % of the elapsed time.
            column_names=list(names),
            block_size=block_bytes,
            use_threads=False,
        ),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=delimiter,
            quote_char='"' if has_quotes else False,
            newlines_in_values=has_quotes,
            invalid_row_handler=on_invalid,
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )


def _read_slowly(data: bytes, names: Sequence[str], delimiter: str, has_quotes: bool) -> Rows:
    """Read rows like `read`, and find the bad rows one by one."""
    invalid: list[pyarrow.csv.InvalidRow] = []

    def leave_out(row: pyarrow.csv.InvalidRow) -> str:
        invalid.append(row)
        return "skip"

    # Arrow passes a bad row on as a string, and fails on the whole piece if it is not UTF-8. Every
    # byte is valid Latin-1, and quotes, delimiters and line ends stay the same bytes.
    text = data.decode("latin-1").encode()
    size = len(text) + 1
    table = _read(text, names, delimiter, has_quotes, block_bytes=size, on_invalid=leave_out)
    quoting = _quoting_delimiter(delimiter, has_quotes)
    starts = row_starts(data, quoting, are_fields=True).tolist()
    lines = dict(enumerate(lines_of(starts, data)))
    bad = []
    for row in invalid:
        record, fields = row.number - 1, f"{row.expected_columns} fields ({','.join(names)})"
        detail = f"expected {fields}, got {row.actual_columns}"
        bad.append(BadRow(record, "WRONG_COLUMNS", detail, lines.get(record)))
    columns = {}
    for name in names:
        values = (None if v is None else v.encode("latin-1") for v in table[name].to_pylist())
        columns[name] = pa.array(values, pa.binary())
    num_rows, ends = len(table) + len(invalid), data.count(b"\n")
    return checked_texts(Rows(columns, found=num_rows, bad=bad, lines=ends, texts=names), lines)


# Detection of headers -----------------------------------------------------------------------------


def judge_header(
    names: Sequence[str], rows: Sequence[Sequence[str]], *, known: Collection[str] = ()
) -> tuple[str | None, bool]:
    """Judge whether a first row is a header.

    Args:
        names: the fields of the first row.
        rows: some rows below it.
        known: column names that settings mention.

    Returns:
        The reason for doubt, or None if the row is accepted as a header. Then whether there is
        evidence for a header: a known name, or a name above a column of numbers.
    """
    below, counts = _below(rows, len(names)), collections.Counter(names)
    is_shown = any(
        name in known
        or (name.lower() in _NAMES and name not in values)
        or (bool(values) and all(map(_is_number, values)))
        for name, values in zip(names, below, strict=True)
    )
    for name in names:
        if not name:
            return "one column has no name", is_shown
        if counts[name] > 1:
            return f"{_short(name)} is a duplicate name", is_shown
        if _NO_NAME.fullmatch(name) or not any(map(str.isalpha, name)) or _is_number(name):
            return f"{_short(name)} is a value", is_shown
    doubts = [] if is_shown else map(_doubt, names, below)
    return next(filter(None, doubts), None), is_shown


def _below(rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """Return the non-empty values below each name, of fewer rows if the table is wide."""
    first_rows = rows[: max(2, min(_ROWS, _MAX_CELLS // max(1, width)))]
    whole = [row for row in first_rows if len(row) == width]
    return [[value for row in whole if (value := row[n].strip())] for n in range(width)]


def _doubt(name: str, below: Sequence[str]) -> str | None:
    """Return the evidence against a name, or None."""
    is_long = len(name.split()) > _MAX_WORDS or len(name) > _MAX_CHARACTERS or "\n" in name
    shapes = {_shape(value) for value in below}
    reasons = {
        "is too long for a name": is_long,
        "looks like a sentence": _SENTENCE.search(name),
        "is a file name": _FILE.search(name),
        "is also a value below it": name in below,
        "looks like the values below it": re.search("[0-9]", name) and shapes == {_shape(name)},
    }
    return next((f"{_short(name)} {reason}" for reason, is_so in reasons.items() if is_so), None)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _shape(text: str) -> str:
    """Replace letters by `a` and digits by `9`: `r17` becomes `a9`."""
    return re.sub(r"[0-9]+", "9", re.sub(r"[^\W\d]+", "a", text))


def refuse_doubtful(
    source: str, first: Sequence[str], rows: Sequence[Sequence[str]], reason: str
) -> NoReturn:
    """Raise an InputError that shows the first rows, with the settings for both interpretations.

    Args:
        source: the file.
        first: the fields of the first row.
        rows: some rows below it.
        reason: the reason for doubt.
    """
    below = f", above {_row(rows[0])}" if rows else ""
    numbered = names = [f"column_{number}" for number in range(1, len(first) + 1)]
    if len(first) == 1:
        names = ["text"]
    elif len(first) == 2:  # the second column is the text if it is far longer
        text, label = (sum(map(len, column)) for column in _below([first, *rows], 2))
        names = ["text", "label"] if 2 * text >= label else ["label", "text"]
    comments = ""
    if first[0].startswith("#") and any(not row[0].startswith("#") for row in rows):
        comments = "If lines that begin with # are comments: grep -v '^#' old.csv > new.csv. "
    more: dict[str, object] = {}
    stripped = {name.strip() for name in first}
    if "" in stripped or len(stripped) < len(first):  # they cannot be feature names
        more["column_names"] = numbered
    raise InputError(
        f"{source!r}: expected the columns' names in the first row, got {_row(first)}{below} "
        f"(line 1): {reason}. {comments}If there is no header, name the columns: "
        f"{how_to_set(column_names=names)}. If that row is a header: "
        f"{how_to_set(header=True, **more)}.",
        path=source,
    )


def check_agreement(headers: Mapping[str, Sequence[str]], *, shown: Collection[str]) -> None:
    """Raise an InputError if the headers of tables do not name the same columns.

    Their order may differ, and a table may lack some columns of the widest table.

    Args:
        headers: the column names of each table.
        shown: the tables with evidence for a header (see `judge_header`). These may have additional
            columns, but must share at least one.
    """
    widest = max(headers, key=lambda source: (source in shown, len(headers[source])), default="")
    for source, names in headers.items():
        strange = sorted(set(names) - set(headers[widest]))
        if strange and (source not in shown or len(strange) == len(names)):
            others = f"{_short(strange[0])} is not a name in {widest!r}, {_row(headers[widest])}"
            refuse_doubtful(source, names, [], others)


def _row(fields: Sequence[str]) -> str:
    shown = ", ".join(map(_short, fields[:_SHOWN_CELLS]))
    return shown + (f", … ({len(fields)} fields)" if len(fields) > _SHOWN_CELLS else "")


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…")
