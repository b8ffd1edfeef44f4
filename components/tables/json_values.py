"""Keep values as JSON: chats, and the columns that `columns={"x": "json"}` names.

    json_text([{"role": "user", "content": "Hi"}])     # '[{"role": "user", "content": "Hi"}]'
    is_chat([{"role": "user", "content": "Hi"}])       # True

A chat is a list of messages: objects with `role` and `content`, with `role` and `tool_calls`, or
with `from` and `value`. A column with a chat is kept as JSON automatically. Any other list of
objects cannot be a feature.
"""

import datetime
import decimal
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa

from trainer_utils.core.json_text import Json

CHAT_NAMES = ("messages", "conversations", "conversation", "chat")
"""Column names whose empty lists are chats as well."""

JSON_COLUMNS = b"tfx-shards:json"
"""Metadata key of a Parquet file for the names of the columns that are already JSON."""

_MESSAGE_KEYS = (("role", "content"), ("role", "tool_calls"), ("from", "value"))
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_ROWS = 1024  # rows that are Python objects at a time


class JsonText(str):
    """A value as JSON."""

    __slots__ = ()


class ChatText(JsonText):
    """A chat as JSON."""

    __slots__ = ()


def json_text(value: Any) -> str:
    """Return a value as JSON in one line. Raise a ValueError if JSON has no such value.

    Times are strings in ISO 8601, durations are seconds, and decimal numbers are strings.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: Any) -> Json:
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    raise ValueError(f"{type(value).__name__}, which JSON does not support")


def is_chat(value: Json) -> bool:
    """Return whether a value is a non-empty list of messages."""
    return isinstance(value, list) and bool(value) and all(map(_is_message, value))


def _is_message(value: Json) -> bool:
    return isinstance(value, dict) and any(value.keys() >= {*keys} for keys in _MESSAGE_KEYS)


def kept_as_json(name: str, value: Json, as_json: Collection[str]) -> JsonText | None:
    """Return the JSON of a field that is kept as JSON, or None for null and for other fields.

    Args:
        name: the field's name, with dots if it is nested.
        value: its value.
        as_json: the columns to keep as JSON, in addition to chats.
    """
    if value is None:
        return None
    is_named_so = name.rpartition(".")[2] in CHAT_NAMES and value == []
    if is_named_so or is_chat(value):
        return ChatText(json_text(value))
    return JsonText(json_text(value)) if name in as_json else None


def flatten_object(
    value: "dict[str, Json]", prefix: str = "", *, as_json: Collection[str] = ()
) -> Iterator[tuple[str, Json]]:
    """Yield the fields of nested objects, with their names joined by dots.

    Args:
        value: the object.
        prefix: the prefix of each name.
        as_json: the fields to keep as JSON, in addition to chats.
    """
    for key, part in value.items():
        name = f"{prefix}{key}"
        may_be_kept = isinstance(part, (dict, list)) or name in as_json
        if may_be_kept and (text := kept_as_json(name, part, as_json)) is not None:
            yield name, text
        elif isinstance(part, dict):
            yield from flatten_object(part, f"{name}.", as_json=as_json)
        else:
            yield name, part


# Arrow --------------------------------------------------------------------------------------------


def flatten_table(
    table: pa.Table, *, as_json: Collection[str] = ()
) -> tuple[pa.Table, set[str], set[str]]:
    """Replace structs by one column per field, with names joined by dots, and some columns by JSON.

    Args:
        table: the table.
        as_json: the columns to keep as JSON, in addition to chats.

    Returns:
        The table, the names of its JSON columns, and the names of its chat columns among them.

    Raises:
        pa.ArrowInvalid: two columns have the same name.
        ValueError: JSON has no such value.
    """
    texts, chats = set[str](), set[str]()
    while True:
        for place, field in enumerate(table.schema):
            if field.name in texts:
                continue
            if is_chat_type(field.type):
                chats.add(field.name)
            elif field.name not in as_json:
                continue
            texts.add(field.name)
            array = json_array(table.column(place))
            table = table.set_column(place, pa.field(field.name, pa.string()), array)
        if not any(pa.types.is_struct(field.type) for field in table.schema):
            break
        table = table.flatten()
    if len(set(table.column_names)) < len(table.column_names):
        raise pa.ArrowInvalid("two columns with the same name")
    return table, texts, chats


def is_chat_type(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is a list of messages."""
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return False
    if not pa.types.is_struct(kind.value_type):
        return False
    names = {field.name for field in kind.value_type}
    return any(names >= {*keys} for keys in _MESSAGE_KEYS)


def json_array(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values of a column as JSON; null stays null."""
    parts = []
    for chunk in column.chunks:
        for start in range(0, len(chunk), _ROWS):
            values = _python_values(chunk.slice(start, _ROWS))
            texts = [None if v is None else json_text(_with_maps(v, chunk.type)) for v in values]
            parts.append(pa.array(texts, pa.string()))
    return pa.chunked_array(parts, pa.string())


def _python_values(array: pa.Array) -> list[Any]:
    """Return the values of an array; durations as seconds, with all digits of nanoseconds."""
    if not pa.types.is_duration(array.type):
        values: list[Any] = array.to_pylist()
        return values
    per_second = _PER_SECOND[array.type.unit]
    numbers = array.cast(pa.int64()).to_pylist()
    return [None if number is None else number / per_second for number in numbers]


def _with_maps(value: Any, kind: pa.DataType) -> Any:
    """Convert the maps in an Arrow value, which Python sees as lists of pairs, to dicts."""
    if value is None or not pa.types.is_nested(kind):
        return value
    if pa.types.is_map(kind):
        return {str(key): _with_maps(part, kind.item_type) for key, part in value}
    if pa.types.is_struct(kind):
        return {field.name: _with_maps(value[field.name], field.type) for field in kind}
    return [_with_maps(part, kind.value_type) for part in value]


def stored_as_json(metadata: Mapping[bytes, bytes] | None) -> frozenset[str]:
    """Return the columns that are already JSON, from the metadata of a Parquet file."""
    return frozenset(json.loads((metadata or {}).get(JSON_COLUMNS, b"[]")))
