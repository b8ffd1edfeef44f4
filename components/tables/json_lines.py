"""JSON lines, an object each, read by Arrow; nested objects are flattened with dots.

Where Arrow would change a value (it takes texts for times, and large integers for floats) or
finds a line that it cannot read, the piece is read line by line, and bad lines are rejected.
"""

import codecs
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from components.common.layout_inputs import LayoutInputs
from components.tables.casting import text_of_number
from components.tables.pieces import Piece, cut
from components.tables.rows import BadRow, Rows, not_utf8, one_array
from trainer_utils.format import InputError
from trainer_utils.format.json_text import Json, JsonObject, without_twins

_EXACT = 2**53  # beyond it, a double may stand for an integer that it is not
_TYPES = {"null": pa.null(), "int": pa.int64(), "float": pa.float64(), "string": pa.string()}
_BLOCK_BYTES = 1 << 20
_NULL_LINE = re.compile(rb"^[ \t\r]*null\b", re.MULTILINE)
_MOST_OPENERS = 200  # brackets on a line: Arrow's reader recurses where Python's raises


def flat_object(fields: Iterable[tuple[str, Json]]) -> JsonObject:
    """Fields as a dictionary; a `ValueError` where a name stands twice or a text is none."""
    flat = without_twins(list(fields))
    json.dumps(flat, ensure_ascii=False).encode("utf-8")
    return flat


def flatten_object(value: Mapping[str, Json], prefix: str = "") -> Iterator[tuple[str, Json]]:
    """The fields of nested objects, their names joined by dots."""
    for key, part in value.items():
        if isinstance(part, dict):
            yield from flatten_object(part, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", part


def is_ignored(name: str, ignored: Collection[str]) -> bool:
    """Whether a column, or an object that it is a field of, is to be left out."""
    return name in ignored or any(name.startswith(f"{other}.") for other in ignored)


def columns_of_objects(
    objects: Sequence[Mapping[str, Json]],
    *,
    place: Callable[[int], str],
    ignored: Collection[str] = (),
) -> tuple[dict[str, pa.Array], list[str]]:
    """Arrow arrays of flat objects' fields; and those columns whose numbers became texts.

    They do where there are texts among them, or ints that floats would change.

    Args:
        objects: one a row.
        place: names the place of the n-th, for messages.

    Raises:
        InputError: a value is nothing that an example can hold; the message names the column.
    """
    found = dict.fromkeys(name for value in objects for name in value)
    names = [name for name in found if not is_ignored(name, ignored)]
    values = {name: [value.get(name) for value in objects] for name in names}
    columns = {name: _array(name, some, place) for name, some in values.items()}
    mixed = [
        name
        for name, array in columns.items()
        if pa.types.is_string(array.type) and any(type(v) in (int, float) for v in values[name])
    ]
    return columns, mixed


def _array(name: str, values: list[Json], place: Callable[[int], str]) -> pa.Array:
    is_list = any(isinstance(value, list) for value in values)
    lists = [v if isinstance(v, list) else [] if v is None else [v] for v in values]
    rows = [row for row, value in enumerate(lists) for _ in value]
    parts = [part for value in lists for part in value]
    if not is_list and _would_lose_digits(parts):
        kind = "string"
    else:
        kind = _kind(name, parts, rows, place)
    read = _READ[kind]
    if not is_list:
        return pa.array([None if v is None else read(v) for v in values], _TYPES[kind])
    pairs = zip(values, lists, strict=True)
    typed = [None if value is None else [*map(read, some)] for value, some in pairs]
    return pa.array(typed, pa.list_(_TYPES[kind]))


def _would_lose_digits(parts: Sequence[Json]) -> bool:
    """Whether ints of 64 bits stand beside floats, which would change them; texts hold both."""
    if {type(part) for part in parts} != {int, float}:
        return False
    if any(map(_is_not_finite, parts)):
        return False  # no text stands for these
    ints = [part for part in parts if isinstance(part, int)]
    return not any(map(_is_too_large, ints)) and any(abs(part) > _EXACT for part in ints)


def _text(part: Json) -> str:
    return text_of_number(part) if isinstance(part, (bool, int, float)) else str(part)


_READ: dict[str, Callable[[Json], Json]] = {
    "int": int,
    "float": float,
    "string": _text,
    "null": bool,
}


def _kind(
    name: str, parts: Sequence[Json], rows: Sequence[int], place: Callable[[int], str]
) -> str:
    """What all parts are, each of a row; a mixture of numbers and texts is of texts."""
    kinds = {type(part) for part in parts}
    if not kinds <= {bool, int, float, str}:
        wrong, rule = _is_no_value, "numbers, texts, or lists of these"
    elif str in kinds:
        wrong, rule = _is_not_finite, "texts, or numbers that JSON has"
    elif float in kinds:
        return "float"
    else:
        wrong, rule = _is_too_large, "numbers of 64 bits"
    among = " among texts" if str in kinds else ""
    for row, part in zip(rows, parts, strict=True):
        if wrong(part):
            raise InputError(
                f"column {name!r}: expected {rule}, got {part!r}{among} ({place(row)}). "
                f"Leave the column out: columns={{{name!r}: 'ignore'}}."
            )
    return "string" if str in kinds else "int" if kinds else "null"


def _is_no_value(part: Json) -> bool:
    return type(part) not in (bool, int, float, str)


def _is_not_finite(part: Json) -> bool:
    return isinstance(part, float) and not math.isfinite(part)


def _is_too_large(part: Json) -> bool:
    return not -(2**63) <= part < 2**63


def find_pieces(inputs: LayoutInputs, whole: Piece) -> Iterator[Piece]:
    """Cuts a file into pieces of whole lines."""
    with inputs.open(whole.path) as stream:
        yield from map(whole.narrow, cut(stream))


def read(data: bytes, piece: Piece, *, ignored: Collection[str] = ()) -> Rows:
    """The rows of a piece, without the columns that are ignored."""
    if piece.start == 0:
        data = data.removeprefix(codecs.BOM_UTF8)
    table = _read(data, ignored) if _is_safe(data) else None
    if table is None:
        return _read_slowly(data, piece, ignored)
    columns = {name: one_array(table[name]) for name in table.column_names}
    return Rows(columns, found=len(table), lines=data.count(b"\n"))


def _is_safe(data: bytes) -> bool:
    """Whether Arrow's reader survives it: it crashes on a line `null`, and on very deep nesting."""
    if _NULL_LINE.search(data):
        return False
    octets = np.frombuffer(data, np.uint8)
    ends = np.append(np.flatnonzero(octets == ord("\n")), len(data))
    if np.diff(ends, prepend=-1).max() <= _MOST_OPENERS:
        return True
    openers = np.flatnonzero((octets == ord("{")) | (octets == ord("[")))
    by_line = np.bincount(np.searchsorted(ends, openers), minlength=1)
    return int(by_line.max()) <= _MOST_OPENERS


def _read(data: bytes, ignored: Collection[str]) -> pa.Table | None:
    """What Arrow reads; None where that is not all, or not exactly what is there."""
    try:
        data.decode("utf-8")  # Arrow does not look
        table = _parse(data, None)
        timeless = _replaced(table.schema, pa.types.is_temporal, pa.string())
        if timeless != table.schema:
            table = _parse(data, timeless)
        table = flatten(table)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
        return None
    table = table.select([name for name in table.column_names if not is_ignored(name, ignored)])
    # As many objects as lines: else there are blank lines, or several objects on one.
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    if len(table) != lines or any(map(_is_doubtful, table.columns)):
        return None
    # 0 and 1 for truths, as where lines are read one by one.
    return table.cast(_replaced(table.schema, pa.types.is_boolean, pa.int64()))


def _parse(data: bytes, schema: pa.Schema | None) -> pa.Table:
    return pyarrow.json.read_json(
        pa.BufferReader(data),
        read_options=pyarrow.json.ReadOptions(block_size=_BLOCK_BYTES),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema),
    )


def flatten(table: pa.Table) -> pa.Table:
    """A table without structs: their fields are columns, names joined by dots."""
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    if len(set(table.column_names)) < len(table.column_names):
        raise pa.ArrowInvalid("two columns of one name")
    return table


def _replaced(
    schema: pa.Schema, is_one: Callable[[pa.DataType], bool], by: pa.DataType
) -> pa.Schema:
    def replaced(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(kind):
            fields = [kind.field(place) for place in range(kind.num_fields)]
            return pa.struct([(field.name, replaced(field.type)) for field in fields])
        if pa.types.is_list(kind):
            return pa.list_(replaced(kind.value_type))
        return by if is_one(kind) else kind

    return pa.schema([(field.name, replaced(field.type)) for field in schema])


def _is_doubtful(column: pa.ChunkedArray) -> bool:
    """Whether it holds doubles that may be large integers, or lists with nulls or of others."""
    if pa.types.is_list(column.type):
        parts = [chunk.flatten() for chunk in column.chunks]
        return pa.types.is_nested(column.type.value_type) or any(
            part.null_count or _is_doubtful(pa.chunked_array([part])) for part in parts
        )
    if not pa.types.is_floating(column.type):
        return False
    return bool(pc.any(pc.greater_equal(pc.abs(column), _EXACT)).as_py())


def _read_slowly(data: bytes, piece: Piece, ignored: Collection[str]) -> Rows:
    """As `read`, line by line."""
    objects, lines, bad, record = [], [], [], 0
    for line, text in enumerate(data.split(b"\n")):
        if not text.strip():
            continue
        try:
            objects.append(_object(text))
            lines.append(line + 1)
        except UnicodeDecodeError as error:
            bad.append(BadRow(record, *not_utf8(error), line))
        except (ValueError, RecursionError) as error:
            bad.append(BadRow(record, "BAD_JSON", f"expected a JSON object: {error}", line))
        record += 1

    def place(number: int) -> str:
        is_first = piece.start == 0  # of a later piece the lines before it are not known here
        return f"{piece.source}, line {lines[number]}" if is_first else piece.source

    columns, mixed = columns_of_objects(objects, place=place, ignored=ignored)
    return Rows(columns, found=record, bad=bad, lines=data.count(b"\n"), texts=mixed)


def _object(text: bytes) -> JsonObject:
    value = json.loads(text.decode("utf-8"), object_pairs_hook=without_twins)
    if not isinstance(value, dict):
        raise ValueError(f"got {type(value).__name__}")
    return flat_object(flatten_object(value))
