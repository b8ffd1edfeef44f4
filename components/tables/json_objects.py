"""JSON objects, read one by one, as Arrow columns; nested objects are flattened with dots.

columns, mixed = columns_of_objects([{"a": 1}, {"a": "x"}], place=str)
columns["a"], mixed        # ["1", "x"], ['a']
"""

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from components.tables.casting import no_text, text_of_number
from trainer_utils.format import InputError
from trainer_utils.format.json_text import Json, JsonObject


def flat_object(fields: Iterable[tuple[str, Json]]) -> JsonObject:
    """Fields as a dictionary.

    Raises:
        ValueError: a name stands twice, or a text is none, such as half of a surrogate pair.
    """
    flat = without_twins(list(fields))
    json.dumps(flat, ensure_ascii=False).encode("utf-8")
    return flat


def without_twins(pairs: list[tuple[str, Json]]) -> JsonObject:
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
        ignored: columns that are not read.

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
    if any(isinstance(value, list) for value in values):
        lists = [value if value is None or isinstance(value, list) else [value] for value in values]
        rows = [row for row, value in enumerate(lists) for _ in value or ()]
        kind = _kind(name, [part for value in lists if value for part in value], rows, place)
        typed = [None if value is None else [*map(_READ[kind], value)] for value in lists]
        return pa.array(typed, pa.list_(_TYPES[kind]))
    rows = [row for row, value in enumerate(values) if value is not None]
    parts = [values[row] for row in rows]
    kind = "string" if _would_lose_digits(parts) else _kind(name, parts, rows, place)
    return pa.array([None if v is None else _READ[kind](v) for v in values], _TYPES[kind])


def _would_lose_digits(parts: Sequence[Json]) -> bool:
    """Whether ints of 64 bits stand beside floats, which would change them; texts hold both."""
    if {type(part) for part in parts} != {int, float}:
        return False
    ints = [part for part in parts if isinstance(part, int)]
    if not all(math.isfinite(part) for part in parts if isinstance(part, float)):
        return False  # no text stands for these
    least, most = min(ints), max(ints)
    return least >= -(2**63) and most < 2**63 and max(-least, most) > _EXACT


def _text(part: Json) -> str:
    return text_of_number(part) if isinstance(part, (bool, int, float)) else str(part)


_EXACT = 2**53  # beyond it, a double may stand for an integer that it is not
_TYPES = {"null": pa.null(), "int": pa.int64(), "float": pa.float64(), "string": pa.string()}
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
    if others := kinds - {bool, int, float, str}:
        row, what = next(x for x in zip(rows, parts, strict=True) if type(x[1]) in others)
        raise InputError(
            f"column {name!r}: expected numbers, texts, or lists of these, got {what!r} "
            f"({place(row)}). Leave the column out: columns={{{name!r}: 'ignore'}}."
        )
    if str in kinds:
        for row, part in zip(rows, parts, strict=True):
            if isinstance(part, float) and not math.isfinite(part):
                raise no_text(name, part, place(row))
        return "string"
    if float in kinds:
        return "float"
    for row, part in zip(rows, parts, strict=True):
        if not -(2**63) <= part < 2**63:
            raise InputError(
                f"column {name!r}: expected numbers of 64 bits, got {part} ({place(row)}). "
                f"Leave the column out: columns={{{name!r}: 'ignore'}}."
            )
    return "int" if kinds else "null"
