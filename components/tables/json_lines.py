"""Lines of JSON, an object each, read by Arrow; nested objects are flattened with dots.

Where Arrow would change a value (it takes texts for times, and large integers for floats) or
finds a line that it cannot read, the piece is read line by line, and bad lines are rejected.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from components.common.layout_inputs import LayoutInputs
from components.tables.pieces import Piece, RowTooLong, cut
from components.tables.rows import BadRow, Rows, not_utf8, one_array
from trainer_utils.format import InputError

__all__ = [
    "columns_of_objects",
    "find_pieces",
    "flat_object",
    "flatten",
    "flattened",
    "is_ignored",
    "read",
    "without_twins",
]

_BLOCK_BYTES = 1 << 20
_NULL_LINE = re.compile(rb"^[ \t\r]*null\b", re.MULTILINE)
_MOST_OPENERS = 200  # brackets on a line: Arrow's reader recurses where Python's raises
_EXACT = 2**53  # beyond it, a double may stand for an integer that it is not


def find_pieces(
    inputs: LayoutInputs, path: str, *, source: str, layout: str, split: str | None
) -> Iterator[Piece]:
    """Cuts a file into pieces of whole lines."""
    with inputs.open(path) as stream:
        for part in cut(stream):
            too_long = isinstance(part, RowTooLong)
            begin, end = (part.start, part.stop) if isinstance(part, RowTooLong) else part
            yield Piece(
                path=path,
                source=source,
                layout=layout,
                split=split,
                start=begin,
                stop=end,
                too_long=too_long,
            )


def read(data: bytes, piece: Piece, *, ignored: Collection[str] = ()) -> Rows:
    """The rows of a piece, without the columns that are ignored."""
    if piece.start == 0:
        data = data.removeprefix(b"\xef\xbb\xbf")
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


def _read(data: bytes, ignored: Collection[str]) -> Any:
    data.decode("utf-8")  # Arrow does not look
    table = _parse(data, None)
    if any(_has_times(field.type) for field in table.schema):
        table = _parse(data, pa.schema([(f.name, _without_times(f.type)) for f in table.schema]))
    table = flatten(table)
    table = table.select([name for name in table.column_names if not is_ignored(name, ignored)])
    if any(
        pa.types.is_list(f.type) and pa.types.is_nested(f.type.value_type) for f in table.schema
    ):
        raise pa.ArrowInvalid("lists of lists or of objects")
    return table.cast(pa.schema([(f.name, _without_booleans(f.type)) for f in table.schema]))


def _parse(data: bytes, schema: Any) -> Any:
    return pyarrow.json.read_json(
        pa.BufferReader(data),
        read_options=pyarrow.json.ReadOptions(block_size=_BLOCK_BYTES),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema),
    )


def flatten(table: Any) -> Any:
    """A table without structs: their fields are columns, names joined by dots."""
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    if len(set(table.column_names)) < len(table.column_names):
        raise pa.ArrowInvalid("two columns of one name")
    return table


def _has_times(kind: Any) -> bool:
    if kind.num_fields:
        return any(_has_times(kind.field(place).type) for place in range(kind.num_fields))
    return bool(pa.types.is_temporal(kind))


def _without_times(kind: Any) -> Any:
    """The type with texts instead of times."""
    if pa.types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        return pa.struct([(field.name, _without_times(field.type)) for field in fields])
    if pa.types.is_list(kind):
        return pa.list_(_without_times(kind.value_type))
    return pa.string() if pa.types.is_temporal(kind) else kind


def _without_booleans(kind: Any) -> Any:
    """The type with 0 and 1 for these, as they are read one by one."""
    if pa.types.is_list(kind):
        return pa.list_(_without_booleans(kind.value_type))
    return pa.int64() if pa.types.is_boolean(kind) else kind


def _is_doubtful(column: Any) -> bool:
    """Whether it holds doubles that may be large integers, or lists with nulls."""
    if pa.types.is_list(column.type):
        parts = [chunk.flatten() for chunk in column.chunks]
        return any(p.null_count or _is_doubtful(pa.chunked_array([p])) for p in parts)
    if not pa.types.is_floating(column.type):
        return False
    return bool(pc.any(pc.greater_equal(pc.abs(column), _EXACT)).as_py())


def _read_slowly(data: bytes, piece: Piece, ignored: Collection[str]) -> Rows:
    """As `read`, line by line."""
    objects, records, bad, record = [], [], [], 0
    for line, text in enumerate(data.split(b"\n")):
        if not text.strip():
            continue
        try:
            objects.append(_object(text))
            records.append(record)
        except UnicodeDecodeError as error:
            bad.append(BadRow(record, *not_utf8(error), line))
        except (ValueError, RecursionError) as error:
            bad.append(BadRow(record, "BAD_JSON", f"expected a JSON object: {error}", line))
        record += 1
    columns, mixed = columns_of_objects(objects, source=piece.source, ignored=ignored)
    return Rows(
        columns,
        found=record,
        records=np.array(records, np.int64),
        bad=bad,
        lines=data.count(b"\n"),
        texts=mixed,
    )


def _object(text: bytes) -> dict[str, Any]:
    value = json.loads(text.decode("utf-8"), object_pairs_hook=without_twins)
    if not isinstance(value, dict):
        raise ValueError(f"got {type(value).__name__}")
    return flat_object(flattened(value))


def flat_object(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Fields as a dictionary.

    Raises:
        ValueError: a name stands twice, or a text is none, such as half of a surrogate pair.
    """
    flat = without_twins(list(fields))
    json.dumps(flat, ensure_ascii=False).encode("utf-8")
    return flat


def without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A dictionary of pairs.

    Raises:
        ValueError: a name stands twice.
    """
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands twice")
    return value


def flattened(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The fields of nested objects, their names joined by dots."""
    for key, part in value.items():
        if isinstance(part, dict):
            yield from flattened(part, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", part


def is_ignored(name: str, ignored: Collection[str]) -> bool:
    """Whether a column, or an object that it is a field of, is to be left out."""
    return name in ignored or any(name.startswith(f"{other}.") for other in ignored)


def columns_of_objects(
    objects: Sequence[Mapping[str, Any]], *, source: str, ignored: Collection[str] = ()
) -> tuple[dict[str, Any], list[str]]:
    """Arrow arrays of flat objects' fields; and those columns whose numbers became texts.

    They do where there are texts among them.

    Raises:
        InputError: a value is nothing that an example can hold; the message names the column.
    """
    found = dict.fromkeys(name for value in objects for name in value)
    names = [name for name in found if not is_ignored(name, ignored)]
    values = {name: [value.get(name) for value in objects] for name in names}
    columns = {name: _array(name, some, source) for name, some in values.items()}
    mixed = [
        name
        for name, array in columns.items()
        if pa.types.is_string(array.type) and any(type(v) in (int, float) for v in values[name])
    ]
    return columns, mixed


def _array(name: str, values: list[Any], source: str) -> Any:
    if any(isinstance(value, list) for value in values):
        lists = [value if value is None or isinstance(value, list) else [value] for value in values]
        kind = _kind(name, [part for value in lists if value for part in value], source)
        typed = [None if value is None else [*map(_READ[kind], value)] for value in lists]
        return pa.array(typed, pa.list_(_TYPES[kind]))
    kind = _kind(name, [value for value in values if value is not None], source)
    return pa.array([None if v is None else _READ[kind](v) for v in values], _TYPES[kind])


def _text(part: Any) -> str:
    return part if isinstance(part, str) else json.dumps(part)


_TYPES = {"null": pa.null(), "int": pa.int64(), "float": pa.float64(), "string": pa.string()}
_READ: dict[str, Callable[[Any], Any]] = {"int": int, "float": float, "string": _text, "null": bool}


def _kind(name: str, parts: Sequence[Any], source: str) -> str:
    """What all parts are; a mixture of numbers and texts is of texts."""
    kinds = {type(part) for part in parts}
    if others := kinds - {bool, int, float, str}:
        what = next(part for part in parts if type(part) in others)
        raise InputError(
            f"column {name!r}: expected numbers, texts, or lists of these, got {what!r} "
            f"({source}). Leave the column out: columns={{{name!r}: 'ignore'}}."
        )
    if str in kinds:
        return "string"
    if float in kinds:
        return "float"
    for part in parts:
        if not -(2**63) <= part < 2**63:
            raise InputError(
                f"column {name!r}: expected numbers of 64 bits, got {part} ({source}). "
                f"Leave the column out: columns={{{name!r}: 'ignore'}}."
            )
    return "int" if kinds else "null"
