"""Read the text and JSON files of a dataset strictly, and write them in one canonical form.

    text_of(b"caf\\xe9", path="vocab/label.txt")     # DatasetError: … (byte 3)
    parse_json_object('{"a": 1}', path="manifest.json")     # rejects ambiguous JSON
    json_lines('{"a": 1}\\n{"a": 2}\\n', path="rejects.jsonl")
    seal(text)     # the same with the CRC-32C of its bytes as its `checksum`

The parser rejects duplicate names, NaN and infinities, integers beyond 64 bits, unpaired
surrogates, and deep nesting, since two readers could interpret them differently.

Source: RFC 8259, section 4 on names, 6 on numbers and 8.2 on characters.
"""

import collections.abc
import dataclasses
import json
import math
import re
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeAlias

from trainer_utils.format.errors import DatasetError
from trainer_utils.format.tfrecord import extend_crc32c

Json: TypeAlias = Any  # the results of `json.loads`: None, bool, int, float, str, list or dict
JsonObject: TypeAlias = dict[str, Json]
NO_CHECKSUM = "00000000"

# Only the top level has an indent of two spaces, and JSON strings contain no newline.
_CHECKSUM = re.compile(r'\n  "checksum": "([0-9a-f]{8})"')
_MAX_DIGITS = 20  # of a 64-bit integer, including the sign


def text_of(data: bytes, *, path: str) -> str:
    """Decode a file's text; raise DatasetError with `path` and the first byte that is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DatasetError.at(
            path,
            expected="UTF-8",
            got=repr(data[error.start : error.end]),
            offset=error.start,
            advice="The file is damaged: write the dataset again.",
        ) from error


def parse_json_object(text: str, *, path: str, is_ours: bool = False) -> JsonObject:
    """Parse JSON that must be an object.

    Args:
        text: the content of the file.
        path: the path of the file, for messages.
        is_ours: whether its checksum agrees. `render_json` writes no duplicate names, so skipping
            that check is safe. It halves the time for a manifest of 100,000 shards.

    Raises:
        DatasetError: the text is not a JSON object, or is ambiguous; the message has `path`.
    """
    hooks = {} if is_ours else _HOOKS
    try:
        value = json.loads(text, parse_float=_finite, parse_constant=_finite, **hooks)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # raises for an unpaired surrogate
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise DatasetError(f"{path!r}: expected JSON: {reason}", path=path) from error
    if not isinstance(value, dict):
        raise DatasetError.at(path, expected="a JSON object", got=type(value).__name__)
    return value


def json_lines(text: str, *, path: str) -> list[JsonObject]:
    """Parse a file with one JSON object per line; raise DatasetError with `path` and the line.

    Only a newline ends a line. `str.splitlines` also splits at characters that names may contain.
    """
    lines = text.split("\n")
    if lines.pop():
        raise DatasetError(f"{path!r}: expected a newline after the last line", path=path)
    return [
        parse_json_object(line, path=f"{path}, line {number}")
        for number, line in enumerate(lines, start=1)
    ]


def render_json(value: Mapping[str, Json], *, sort_keys: bool = True) -> str:
    """Render JSON for a dataset's files: UTF-8, an indent of two spaces, a newline at the end."""
    text = json.dumps(value, indent=2, sort_keys=sort_keys, ensure_ascii=False, allow_nan=False)
    return text + "\n"


def from_plain(kind: Any, value: Any) -> Any:
    """Convert the output of `dataclasses.asdict` or JSON back to the annotated type.

    Args:
        kind: a dataclass (missing fields keep their defaults); `X | None`; a tuple, list or
            mapping with string keys, of any of these; a type of JSON; or Any.
        value: the plain value. Keys that are not fields of the dataclass are ignored.

    Raises:
        TypeError: the value has another type.
        ValueError: the value is invalid.
    """
    if kind is Any:
        return value
    inner = typing.get_args(kind)
    outer: Any = typing.get_origin(kind) or kind
    if outer is types.UnionType:
        return None if value is None else from_plain(inner[0], value)
    hints = typing.get_type_hints(outer) if dataclasses.is_dataclass(outer) else None
    is_object = hints is not None or outer is collections.abc.Mapping
    plain: Any = dict if is_object else list if outer is tuple else outer
    if type(value) is not plain:
        raise TypeError(f"expected {plain.__name__}, got {value!r}")
    if hints is not None:
        return outer(**{n: from_plain(hints[n], value[n]) for n in hints if n in value})
    if plain is dict:
        return {name: from_plain(inner[1], one) for name, one in value.items()}
    return outer(from_plain(inner[0], one) for one in value) if plain is list else value


def reject_duplicate_keys(pairs: list[tuple[str, Json]]) -> JsonObject:
    """Return a dictionary of pairs; raise ValueError if a name is a duplicate."""
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"duplicate name {twice!r}")
    return value


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS or not -(2**63) <= (number := int(digits)) < 2**64:
        raise ValueError(f"the integer {digits[:_MAX_DIGITS]}… has more than 64 bits")
    return number


_HOOKS: Mapping[str, Any] = {"object_pairs_hook": reject_duplicate_keys, "parse_int": _integer}


def _finite(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise ValueError(f"the number {digits[:_MAX_DIGITS]} does not fit in a float")
    return number


def seal(text: str) -> str:
    """Return JSON text with its own checksum: the CRC-32C of its bytes with zeros as the digits.

    Raises:
        ValueError: the text has no line for the checksum, or several.
    """
    places = [found.span(1) for found in _CHECKSUM.finditer(text)]
    if len(places) != 1:
        raise ValueError(f"expected a line with its checksum, got {len(places)}")
    start, stop = places[0]
    crc = extend_crc32c(0, (text[:start] + NO_CHECKSUM + text[stop:]).encode())
    return f"{text[:start]}{crc:08x}{text[stop:]}"


def is_sealed(text: str) -> bool:
    """Return whether a text contains its own checksum, and it is right."""
    try:
        return seal(text) == text
    except ValueError:
        return False
