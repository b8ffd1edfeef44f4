"""Read a list of files as a table, like any other table.

A CSV without a header whose first row names a file has the columns of AutoML Vision. A row that
cannot be read ends the run, since the files that a damaged list means are unknown.
"""

import codecs
import csv
import dataclasses
import io
import json
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from absl import logging

from components.inputs.advice import how_to_set
from components.inputs.arrow_columns import string_array, string_scalar, to_numpy
from components.inputs.fingerprint import sum_facts
from components.inputs.input_table import Column, Scalar, Value
from components.inputs.listing import LayoutInputs, decode_text
from components.layouts.boxes import BOX_COLUMNS, box_values
from components.layouts.file_kinds import kind_of_name
from components.layouts.names import WORDS
from components.tables.column_roles import is_split_word
from components.tables.column_types import cast_column, column_facts, decide_column
from components.tables.cutting import pieces_of
from components.tables.delimited import refuse_doubtful
from components.tables.json_values import flatten_object
from components.tables.parquet import open_file, read_columns
from components.tables.pieces import (
    Piece,
    Rows,
    TableOptions,
    advice_for_images,
    select_settings,
)
from components.tables.reading import DELIMITERS, PieceReader, kind_of_table
from components.tables.row_ends import lines_of, row_starts
from trainer_utils.core.errors import InputError
from trainer_utils.storage import is_host_error

_HEADS, _VALUE_BYTES, _BUFFER_BYTES = 8, 512, 1 << 16
_LINE_BYTES = 1 << 16
_ROWS_LOOKED_AT = 100
_RETINANET = ["image", "xmin", "ymin", "xmax", "ymax", "label"]
_BOX_FIELDS = 11  # set, path, label, four corners
_DECIMAL_COMMA = r"^\s*-?[0-9]+,[0-9]+\s*$"
_BYTES_FIELD, _PATH_FIELD = "bytes", "path"  # fields of Hugging Face's struct for an image

_Part = tuple[pa.Array, bool]
_Row = tuple[int, list[str]]  # the last line of the row, and its fields


def plain_name(name: str) -> str:
    """Return a column's name in lower case, reduced to ASCII letters and digits."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


@dataclasses.dataclass(frozen=True)
class Embedded:
    """A column of images or audio clips inside a Parquet file. The bytes are not read here."""

    bytes_column: str  # the column, or a field of a struct after a dot
    bytes_per_row: int  # approximate number of bytes of a row
    paths: list[str | None]  # the original path of each row, if the file has it
    heads: tuple[bytes, ...] = ()  # the beginning of the first values


@dataclasses.dataclass(frozen=True)
class ListTable:
    """The rows of a list."""

    path: str
    # The consecutive arrays of each column, each with whether its strings may be numbers.
    columns: Mapping[str, Sequence[_Part]]
    # The line where each row begins, or its number from 0 for Parquet.
    positions: tuple[int, ...]
    unit: str = "line"  # the unit of positions: `line` or `row`
    # Images and audio clips inside the file, by column.
    embedded: Mapping[str, Embedded] = dataclasses.field(default_factory=dict)
    # Columns with a fixed type, which does not depend on their values.
    known: Mapping[str, Column] = dataclasses.field(default_factory=dict)
    # Class names by column, if the file has them.
    class_names: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns."""
        return (*self.columns, *self.embedded)

    def place(self, position: int) -> str:
        """Return the place of a row for messages, such as `line 2`."""
        return f"{self.unit} {position}"

    def values(self, name: str) -> list[Any]:
        """Return the values of a column, one per row; None if a value is missing."""
        return [value for array, _ in self.columns[name] for value in array.to_pylist()]

    def cast_column(
        self, name: str, kind: str | None, *, trim: bool = False
    ) -> tuple[Column, list[Value]] | None:
        """Return a column with its type and values, as in `typed_values`.

        Args:
            name: the column.
            kind: the kind that the user sets, or None.
            trim: whether to remove spaces around strings, and to treat empty strings as missing.
        """
        if name in self.known:
            return self.known[name], [tuple(value) for value in self.values(name)]
        parts = []
        for array, is_text in self.columns[name]:
            if trim and pa.types.is_string(array.type):
                array = pc.utf8_trim_whitespace(array)
                is_empty = pc.equal(array, string_scalar(""))
                array = pc.if_else(is_empty, pa.nulls(1, pa.string())[0], array)
            parts.append((array, is_text))
        place = lambda row: f"{self.path!r}, {self.place(self.positions[row])}"  # noqa: E731
        return typed_values(name, parts, kind=kind, place=place)


def typed_values(
    name: str, parts: Sequence[_Part], *, kind: str | None, place: Callable[[int], str]
) -> tuple[Column, list[Value]] | None:
    """Infer a column's type from all of its values, and convert the values to it.

    Args:
        name: the column.
        parts: Arrow arrays, each with whether its strings may be numbers and lists.
        kind: the kind that the user sets, or None.
        place: returns the place of the n-th value, for messages.

    Returns:
        The column and its values, or None if it has no values.

    Raises:
        InputError: a value does not fit the type.
    """
    kind = "string" if kind == "text" else kind
    starts = np.cumsum([0, *(len(array) for array, _ in parts)]).tolist()
    reads = kind not in ("string", "label")
    facts = [
        (number, column_facts(array, np.arange(len(array)), are_texts=are_texts and reads))
        for number, (array, are_texts) in enumerate(parts)
    ]
    column = decide_column(
        name, facts, declared=kind, is_text=False, place=lambda n, row: place(starts[n] + row)
    )
    if column is None:
        return None
    values: list[Any] = []
    for array, _ in parts:
        for value in cast_column(array, column, floats=pa.float64()).to_pylist():
            # Bytes are read as a string. Invalid UTF-8 is escaped, as in file names.
            is_bytes = isinstance(value, bytes)
            values.append(value.decode("utf-8", "surrogateescape") if is_bytes else value)
    if not column.is_list:
        return column, values
    lists = [tuple(value or ()) for value in values]
    lengths = {len(value) for value in lists}
    if len(lengths) == 1 and lengths != {0} and column.kind in ("int", "float"):
        column = dataclasses.replace(column, length=lengths.pop())
    return column, [*lists]


def kind_of_list(inputs: LayoutInputs, path: str, *, known: frozenset[str]) -> str | None:
    """Return the format of a list by its suffix, or None if it is not a list.

    A text file is a CSV too if the settings name both its columns and its delimiter.

    Args:
        inputs: the inputs that the list is one of.
        path: the path of the file.
        known: lower-case column names that show that a `.txt` file is a CSV or TSV list.
    """
    kind = kind_of_table(path)
    if kind is not None or not path.lower().endswith(".txt"):
        return kind
    if inputs.column_names and inputs.delimiter:
        return "csv"
    cache = inputs.cache.setdefault("kinds of texts", {})
    if path not in cache:
        cache[path] = _kind_of_text(inputs, path, known)
    cached: str | None = cache[path]
    return cached


def _kind_of_text(inputs: LayoutInputs, path: str, known: frozenset[str]) -> str | None:
    head = inputs.head(path, _LINE_BYTES)
    line = head.removeprefix(codecs.BOM_UTF8).split(b"\n", 1)[0].decode("utf-8", "replace")
    for kind, delimiter in DELIMITERS.items():
        names = [name.strip().strip('"').lower() for name in line.split(delimiter)]
        if len(names) > 1 and known.intersection(names):
            return kind
    return None


def read_list(inputs: LayoutInputs, path: str, *, known: frozenset[str] = frozenset()) -> ListTable:
    """Read a list.

    Args:
        inputs: the inputs that the list is one of.
        path: the path of the list.
        known: lower-case column names; a first row with one of them is a header.

    Raises:
        InputError: a row or the whole file cannot be read.
    """
    kind = kind_of_list(inputs, path, known=known)
    assert kind is not None
    if kind == "parquet":
        return _read_parquet(inputs, path)
    whole = inputs.read_bytes(path)  # first, since it raises if the file has changed since listing
    options = select_settings(TableOptions, inputs)
    if not options.is_utf8:
        whole = decode_text(whole, path=path, encoding=options.encoding).encode()
    data = whole.removeprefix(codecs.BOM_UTF8)
    # The sum ignores the order of lines: the dataset does not depend on the order of rows.
    inputs.contents[path] = sum_facts(((line.strip(),), 0) for line in data.split(b"\n"))
    delimiter = (inputs.delimiter or DELIMITERS[kind]).encode() if kind in DELIMITERS else None
    if delimiter and (automl := _automl_rows(inputs, path, whole, kind, known)):
        return _of_automl(path, automl, inputs.media)
    pieces, parts = _read_pieces(inputs, path, kind)
    quoted_by = delimiter if inputs.quoting == "csv" else None
    starts = row_starts(data, quoted_by, are_fields=delimiter is not None)
    names = [name for rows in parts for name in rows.columns]
    if pieces and (header := pieces[0].header) is not None:
        starts = starts[starts >= pieces[0].start - (len(whole) - len(data))]  # skip the header
        ignored = {name for name, kind in inputs.columns.items() if kind == "ignore"}
        names = [name for name in header.names if name not in ignored]
    lines = np.array(lines_of(starts.tolist(), data), np.int64) + 1
    positions, before = list[int](), 0
    for rows in parts:
        if delimiter:  # drop rows with nothing but delimiters, which spreadsheets write at the end
            filled = np.zeros(len(rows.records), np.bool_)
            for array in rows.columns.values():
                lengths = pc.utf8_length(pc.utf8_trim_whitespace(array))
                filled |= to_numpy(lengths, null=0) > 0
            rows.keep(filled)
        positions += lines[before + rows.records].tolist()
        before += rows.found
    columns = _columns(parts, names)
    if delimiter == b";":
        columns = {name: _with_points(path, name, arrays) for name, arrays in columns.items()}
    return ListTable(path, columns, tuple(positions))


def _with_points(path: str, name: str, parts: Sequence[_Part]) -> list[_Part]:
    """Replace decimal commas by points if all values of a column have them."""
    arrays = [array for array, _ in parts if pa.types.is_string(array.type)]
    are_commas = [pc.match_substring_regex(array, _DECIMAL_COMMA) for array in arrays]
    known = [array for array in are_commas if len(array) > array.null_count]
    if len(arrays) < len(parts) or not known or not all(pc.all(a).as_py() for a in known):
        return [*parts]
    logging.info("%r, column %r: numbers with decimal commas", path, name)
    return [(pc.replace_substring(array, ",", "."), is_text) for array, is_text in parts]


def _lists_of_boxes(inputs: LayoutInputs, path: str) -> list[str]:
    """Return the columns with lists of boxes, such as `objects.bbox` on the Hub."""
    with inputs.open(path) as stream:
        head = stream.read(_LINE_BYTES)
    names_of_lists = dict[str, None]()
    for line in head.split(b"\n")[:_ROWS_LOOKED_AT]:
        try:
            value = json.loads(line)
        except ValueError:  # blank or truncated; the reader reports malformed lines
            continue
        for name, part in flatten_object(value) if isinstance(value, dict) else ():
            if isinstance(part, list) and any(isinstance(box, list) for box in part):
                names_of_lists[name] = None
    return [
        name for name in names_of_lists if plain_name(name).endswith(("bbox", "bboxes", "boxes"))
    ]


def _columns(parts: Sequence[Rows], names: Sequence[str]) -> dict[str, list[_Part]]:
    return {
        name: [
            (rows.columns.get(name, pa.nulls(len(rows.records))), name in rows.texts)
            for rows in parts
        ]
        for name in dict.fromkeys(names)
    }


def _for_media(message: str, inputs: LayoutInputs) -> str:
    return advice_for_images(message) if inputs.media == "image" else message


def _read_pieces(
    inputs: LayoutInputs, path: str, kind: str, *, unread: frozenset[str] = frozenset()
) -> tuple[list[Piece], list[Rows]]:
    """Return all pieces of a list, and their rows."""
    options = select_settings(TableOptions, inputs)
    if kind == "jsonl":
        kept = dict.fromkeys(_lists_of_boxes(inputs, path), "json")
        options = dataclasses.replace(options, columns={**kept, **options.columns})
    with tempfile.TemporaryDirectory(prefix="tfx-shards-") as folder:  # for a copy in UTF-8
        cut_pieces = pieces_of(
            inputs, path, kind=kind, split=None, options=options, folder=folder, unread=unread
        )
        try:
            pieces = [*cut_pieces]
        except InputError as error:
            message = _for_media(str(error.args[0]), inputs)
            raise InputError(message, path=error.path, details=error.details) from error
        with PieceReader(inputs.base, options, unread=unread) as reader:
            read = [*map(reader.read, pieces)]
    parts, lines = list[Rows](), 1
    for piece, rows in zip(pieces, read, strict=True):
        if rows.bad:
            bad = rows.bad[0]
            lines_before = piece.header.lines_before if piece.header else 0
            line = lines + lines_before + (bad.line or 0)
            message = (
                f"{piece.source!r}: {bad.detail} ({bad.code}, line {line}). Fix that row. "
                f"If the file is not a list: {how_to_set(layout='folder')}."
            )
            raise InputError(_for_media(message, inputs))
        parts.append(rows)
        lines += rows.lines
    return pieces, parts


# Lists without a header ---------------------------------------------------------------------------


def _automl_rows(
    inputs: LayoutInputs, path: str, data: bytes, kind: str, known: frozenset[str]
) -> list[_Row]:
    """Return the rows of a list without a header, or an empty list if it has one.

    A list has no header if its first row names a file.
    """
    if inputs.column_names or inputs.header:
        return []
    head = data[:_LINE_BYTES].removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")
    if b"\0" in head:
        return []  # reading it with a header raises the error
    delimiter, is_quoted = inputs.delimiter or DELIMITERS[kind], inputs.quoting != "none"
    line = head[: head.find(b"\n") + 1 or None]
    first = _csv_rows(line, path, delimiter, is_quoted, strict=False)
    names = {field for _, row in first[:1] for field in row}
    if {name.lower() for name in names} & known or names & {*inputs.columns}:
        return []
    return _csv_rows(data, path, delimiter, is_quoted) if any(map(_is_file, names)) else []


def _csv_rows(
    data: bytes, path: str, delimiter: str, is_quoted: bool, *, strict: bool = True
) -> list[_Row]:
    text = decode_text(data, path=path, errors="strict" if strict else "replace")
    stream = io.StringIO(text, newline="")
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if is_quoted else csv.QUOTE_NONE
    reader = csv.reader(stream, strict=strict, delimiter=delimiter, quoting=quoting)
    try:
        rows = [(reader.line_num, [field.strip() for field in row]) for row in reader]
    except csv.Error as error:
        raise InputError(f"{path!r}: {error} (line {reader.line_num})") from error
    return [(line, row) for line, row in rows if any(row)]


def _is_file(field: str) -> bool:
    """Return whether a field is a url, or the path of an image or audio file by its suffix."""
    return "://" in field or kind_of_name(field) is not None


def _of_automl(path: str, rows: Sequence[_Row], media: str) -> ListTable:
    """Return rows with AutoML's column names. Boxes, or several labels in a row, become lists."""
    names = ["split", f"{media}_uri", "label"]
    if any(any(row[3:]) for _, row in rows) and all(
        len(row) == _BOX_FIELDS and all(map(_is_empty_or_number, row[3:])) for _, row in rows
    ):
        return _of_boxes(path, rows)
    if retina := _of_retinanet(path, rows, media):
        return retina
    if any(_is_file(row[0]) for _, row in rows):
        names = names[1:]
    has_word = any(is_split_word(row[0]) for _, row in rows) or "split" not in names
    labels_from = len(names) - 1
    if not has_word or any(len(row) < labels_from for _, row in rows):
        reason = f"without a header, they should be {','.join(names)}"
        refuse_doubtful(path, rows[0][1], [row for _, row in rows[1:2]], reason)
    columns: dict[str, list[Any]] = {
        name: [row[n] or None for _, row in rows] for n, name in enumerate(names[:-1])
    }
    if any(len(row) > labels_from for _, row in rows):
        short = next(((line, row) for line, row in rows if len(row) < len(names)), None)
        if short is not None:
            rule, got = f"{len(names)} columns ({','.join(names)})", f"{len(short[1])}"
            advice = f"If it is not a list of {WORDS[media]}s: {how_to_set(layout='folder')}."
            raise InputError.at(path, expected=rule, got=f"{got} (line {short[0]})", advice=advice)
        labels = [[*filter(None, row[labels_from:])] for _, row in rows]
        are_lists = any(len(row) > len(names) for _, row in rows)
        columns["label"] = labels if are_lists else [(*values, None)[0] for values in labels]
    parts = {name: [(_strings_or_lists(of), name == "label")] for name, of in columns.items()}
    return ListTable(path, parts, tuple(line for line, _ in rows))


def _strings_or_lists(values: Sequence[Any]) -> pa.Array:
    """Return an array of strings, of lists of strings, or of nulls."""
    return string_array(values) if str in map(type, values) else pa.array(values)


def _of_retinanet(path: str, rows: Sequence[_Row], media: str) -> ListTable | None:
    """Return rows of `path,x1,y1,x2,y2,class` with column names, or None if a row is different.

    Source: "CSV datasets", github.com/fizyr/keras-retinanet.
    """
    are_boxes = media == "image" and all(
        len(row) == len(_RETINANET) and all(map(_is_empty_or_number, row[1:5])) for _, row in rows
    )
    if not are_boxes or not any(row[1] for _, row in rows):
        return None
    for line, row in rows:
        numbers = [float(field) for field in row[1:5] if field]
        is_box = len(numbers) == 4 and numbers[0] <= numbers[2] and numbers[1] <= numbers[3]
        if numbers and not is_box:
            got = f"{','.join(row)!r} (line {line})"
            advice = f"If the numbers are something else: {how_to_set(column_names=_RETINANET)}."
            raise InputError.at(path, expected="path,x1,y1,x2,y2,class", got=got, advice=advice)
    columns = {
        name: [(string_array(row[n] or None for _, row in rows), name in _RETINANET[1:5])]
        for n, name in enumerate(_RETINANET)
    }
    return ListTable(path, columns, tuple(line for line, _ in rows))


def _are_edges(corners: Sequence[float]) -> bool:
    """Return whether coordinates along an axis are of two corners in order, or of four corners."""
    is_in_order = len(corners) == 4 or (len(corners) == 2 and corners[0] < corners[1])
    is_in_image = all(0 <= corner <= 1 for corner in corners)  # False for NaN
    return is_in_order and is_in_image and min(corners) < max(corners)


def _of_boxes(path: str, rows: Sequence[_Row]) -> ListTable:
    """Group the boxes of each image, in the order of the images' first rows.

    Source: AutoML's "Formatting a training data CSV".
    """
    images: dict[str, tuple[int, str, list[tuple[Scalar, ...]]]] = {}
    for line, (split, uri, label, *corners) in rows:
        first_line, first_split, boxes = images.setdefault(uri, (line, split, []))
        if split.lower() != first_split.lower():
            got = f"{first_split!r} (line {first_line}) and {split!r} (line {line})"
            raise InputError.at(path, expected=f"one split for {uri!r}", got=got)
        xs = [float(value) for value in corners[::2] if value]
        ys = [float(value) for value in corners[1::2] if value]
        if not xs and not ys:
            continue  # an image without objects
        if not label or len(xs) != len(ys) or not (_are_edges(xs) and _are_edges(ys)):
            rule = "a label and two or four corners in [0, 1]"
            got = f"{','.join([label, *corners])!r} (line {line})"
            raise InputError.at(path, expected=rule, got=got)
        (left, right), (top, bottom) = (min(xs), max(xs)), (min(ys), max(ys))
        area = (right - left) * (bottom - top)
        boxes.append((left, right, top, bottom, area, label))
    lines, splits, boxes_of_images = zip(*images.values(), strict=True)
    values: Any = zip(*map(box_values, boxes_of_images), strict=True)
    columns = {"split": [split or None for split in splits], "image_uri": [*images]}
    columns |= {column.name: [*of] for column, of in zip(BOX_COLUMNS, values, strict=True)}
    parts = {name: [(pa.array(of), False)] for name, of in columns.items()}
    return ListTable(path, parts, lines, known={column.name: column for column in BOX_COLUMNS})


def _is_empty_or_number(field: str) -> bool:
    try:
        float(field or 0)
    except ValueError:
        return False
    return True


# Parquet ------------------------------------------------------------------------------------------


def _read_parquet(inputs: LayoutInputs, path: str) -> ListTable:
    """Read a Parquet file without the bytes of the files embedded in it."""
    ignored = frozenset(name for name, kind in inputs.columns.items() if kind == "ignore")
    with inputs.open(path) as stream:
        file = open_file(stream, path)
        try:
            embedded = {
                field.name: _embedded(file, field, stream)
                for field in file.schema_arrow
                if _holds_bytes(field.type) and inputs.columns.get(field.name) != "string"
            }
        except (pa.ArrowException, OSError) as error:
            if is_host_error(error):
                raise
            raise InputError(f"{path!r}: expected a Parquet file: {error}", path=path) from error
        number, raw, unread = file.metadata.num_rows, [], frozenset(embedded)
        if any(name not in embedded for name in file.schema_arrow.names):
            table = read_columns(stream, path, ignored=ignored, unread=unread)
            raw = _without_nanoseconds(table).to_pylist()
    inputs.contents[path] = sum_facts(((n, *sorted(row.items())), 0) for n, row in enumerate(raw))
    parts = _read_pieces(inputs, path, "parquet", unread=unread)[1] if raw else []
    columns = _columns(parts, [name for rows in parts for name in rows.columns])
    classes = {name: of for rows in parts for name, of in rows.class_names.items()}
    rows = tuple(range(number))
    return ListTable(path, columns, rows, "row", embedded, class_names=classes)


def _without_nanoseconds(table: pa.Table) -> pa.Table:
    """Convert times in nanoseconds to integers, since Python has no type for them."""
    for place, field in enumerate(table.schema):
        if pa.types.is_temporal(field.type) and getattr(field.type, "unit", "") == "ns":
            numbers = pc.cast(table.column(place), pa.int64())
            table = table.set_column(place, pa.field(field.name, pa.int64()), numbers)
    return table


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(f.name == _BYTES_FIELD and _holds_bytes(f.type) for f in kind)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _embedded(file: Any, field: pa.Field, stream: BinaryIO) -> Embedded:
    """Describe a column of embedded files: their names, mean size, and the first bytes of some."""
    import pyarrow.parquet  # takes 15 ms, which folders of files do not need

    metadata, size, bytes_column = file.metadata, 0, field.name
    paths: list[str | None] = [None] * metadata.num_rows
    if pa.types.is_struct(field.type):
        bytes_column = f"{field.name}.{_BYTES_FIELD}"
        if any(part.name == _PATH_FIELD for part in field.type):
            structs = file.read(columns=[f"{field.name}.{_PATH_FIELD}"]).column(0).to_pylist()
            paths = [struct and struct[_PATH_FIELD] for struct in structs]
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        chunks = map(group.column, range(group.num_columns))
        size += sum(c.total_compressed_size for c in chunks if c.path_in_schema == bytes_column)
    # Read the first values without the rest of their row group.
    buffered = pyarrow.parquet.ParquetFile(stream, metadata=metadata, buffer_size=_BUFFER_BYTES)
    values: Any = next(buffered.iter_batches(batch_size=_HEADS, columns=[bytes_column]), [[]])[0]
    while isinstance(values, pa.StructArray):
        values = values.field(0)
    heads = tuple(value.as_py()[:_VALUE_BYTES] for value in values if value.is_valid)
    return Embedded(bytes_column, -(-size // max(1, len(paths))), paths, heads)
