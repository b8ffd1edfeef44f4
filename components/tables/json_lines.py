"""JSON lines, an object each, read by Arrow; nested objects are flattened with dots.

Where Arrow would change a value (it takes texts for times, and large integers for floats) or
finds a line that it cannot read, the piece is read line by line, and bad lines are rejected.
"""

import codecs
import json
import re
from collections.abc import Callable, Collection, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from components.common.layout_inputs import LayoutInputs
from components.tables.json_objects import (
    columns_of_objects,
    flat_object,
    flatten_object,
    is_ignored,
    without_twins,
)
from components.tables.pieces import Piece, cut
from components.tables.rows import BadRow, Rows, not_utf8, one_array
from trainer_utils.format.json_text import JsonObject

_BLOCK_BYTES = 1 << 20
_NULL_LINE = re.compile(rb"^[ \t\r]*null\b", re.MULTILINE)
_MOST_OPENERS = 200  # brackets on a line: Arrow's reader recurses where Python's raises
_EXACT = 2**53  # beyond it, a double may stand for an integer that it is not


def find_pieces(inputs: LayoutInputs, whole: Piece) -> Iterator[Piece]:
    """Cuts a file into pieces of whole lines."""
    with inputs.open(whole.path) as stream:
        yield from map(whole.narrow, cut(stream))


def read(data: bytes, piece: Piece, *, ignored: Collection[str] = ()) -> Rows:
    """The rows of a piece, without the columns that are ignored."""
    if piece.start == 0:
        data = data.removeprefix(codecs.BOM_UTF8)
    if not _is_safe(data):
        return _read_slowly(data, piece, ignored)
    try:
        table = _read(data, ignored)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
        return _read_slowly(data, piece, ignored)
    lines = data.count(b"\n")
    # As many objects as lines: else there are blank lines, or several objects on one.
    if len(table) != lines + (not data.endswith(b"\n")) or any(map(_is_doubtful, table.columns)):
        return _read_slowly(data, piece, ignored)
    columns = {name: one_array(table[name]) for name in table.column_names}
    return Rows(columns, found=len(table), records=np.arange(len(table)), lines=lines)


def _is_safe(data: bytes) -> bool:
    """Whether Arrow's reader survives it: it crashes on a line `null`, and on very deep nesting."""
    if _NULL_LINE.search(data):
        return False
    octets = np.frombuffer(data, np.uint8)
    ends = np.append(np.flatnonzero(octets == ord("\n")), len(data))
    if np.diff(ends, prepend=-1).max() <= _MOST_OPENERS:
        return True
    openers = np.flatnonzero((octets == ord("{")) | (octets == ord("[")))
    return not len(openers) or int(np.bincount(np.searchsorted(ends, openers)).max()) <= (
        _MOST_OPENERS
    )


def _read(data: bytes, ignored: Collection[str]) -> pa.Table:
    data.decode("utf-8")  # Arrow does not look
    table = _parse(data, None)
    timeless = _replaced(table.schema, pa.types.is_temporal, pa.string())
    if timeless != table.schema:
        table = _parse(data, timeless)
    table = flatten(table)
    table = table.select([name for name in table.column_names if not is_ignored(name, ignored)])
    if any(
        pa.types.is_list(f.type) and pa.types.is_nested(f.type.value_type) for f in table.schema
    ):
        raise pa.ArrowInvalid("lists of lists or of objects")
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
    """A schema with another type for some of those in it."""

    def replaced(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(kind):
            fields = [kind.field(place) for place in range(kind.num_fields)]
            return pa.struct([(field.name, replaced(field.type)) for field in fields])
        if pa.types.is_list(kind):
            return pa.list_(replaced(kind.value_type))
        return by if is_one(kind) else kind

    return pa.schema([(field.name, replaced(field.type)) for field in schema])


def _is_doubtful(column: pa.ChunkedArray) -> bool:
    """Whether it holds doubles that may be large integers, or lists with nulls."""
    if pa.types.is_list(column.type):
        parts = [chunk.flatten() for chunk in column.chunks]
        return any(p.null_count or _is_doubtful(pa.chunked_array([p])) for p in parts)
    if not pa.types.is_floating(column.type):
        return False
    return bool(pc.any(pc.greater_equal(pc.abs(column), _EXACT)).as_py())


def _read_slowly(data: bytes, piece: Piece, ignored: Collection[str]) -> Rows:
    """As `read`, line by line."""
    objects, records, lines, bad, record = [], [], [], [], 0
    for line, text in enumerate(data.split(b"\n")):
        if not text.strip():
            continue
        try:
            objects.append(_object(text))
            records.append(record)
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
    return Rows(
        columns,
        found=record,
        records=np.array(records, np.int64),
        bad=bad,
        lines=data.count(b"\n"),
        texts=mixed,
    )


def _object(text: bytes) -> JsonObject:
    value = json.loads(text.decode("utf-8"), object_pairs_hook=without_twins)
    if not isinstance(value, dict):
        raise ValueError(f"got {type(value).__name__}")
    return flat_object(flatten_object(value))
