"""The text and the JSON of a dataset's own files, read strictly and written in one form.

    text_of(b"caf\\xe9", path="vocab/label.txt")     # DatasetError: … (byte 3)
    parse_json_object('{"a": 1}', path="manifest.json")     # refuses what readers disagree about
    json_lines('{"a": 1}\\n{"a": 2}\\n', path="rejects.jsonl")
    seal(text)     # the same with the CRC-32C of its bytes as its `checksum`

Refused are a name that comes twice, NaN and infinities, integers beyond 64 bits, half of a
surrogate pair, and deep nesting: two readers could make two things of them.

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

Json: TypeAlias = Any  # what `json.loads` makes: None, bool, int, float, str, list or dict
JsonObject: TypeAlias = dict[str, Json]
NO_CHECKSUM = "00000000"

# Two blanks of indent are the top level's alone, and no text of JSON holds a newline.
_CHECKSUM = re.compile(r'\n  "checksum": "([0-9a-f]{8})"')
_MOST_DIGITS = 20  # of an integer of 64 bits, with its sign


def text_of(data: bytes, *, path: str) -> str:
    """A file's text; a DatasetError names `path` and the first byte that is not UTF-8."""
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
    """What a text of JSON says, which must be an object.

    Args:
        text: of the file.
        path: its name, for messages.
        is_ours: whether its checksum agrees, so that it is as `render_json` wrote it, which
            writes no name twice: half the time of a manifest of 100,000 shards.

    Raises:
        DatasetError: it is none, or is ambiguous; the message names `path`.
    """
    hooks = {} if is_ours else _HOOKS
    try:
        value = json.loads(text, parse_float=_finite, parse_constant=_finite, **hooks)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # refuses half a pair
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise DatasetError(f"{path!r}: expected JSON: {reason}", path=path) from error
    if not isinstance(value, dict):
        raise DatasetError.at(path, expected="a JSON object", got=type(value).__name__)
    return value


def json_lines(text: str, *, path: str) -> list[JsonObject]:
    """The objects of a file with one a line; a DatasetError names `path` and the line.

    Lines end at a newline alone: `str.splitlines` also splits at characters that a name may hold.
    """
    lines = text.split("\n")
    if lines.pop():
        raise DatasetError(f"{path!r}: expected a newline after the last line", path=path)
    return [
        parse_json_object(line, path=f"{path}, line {number}")
        for number, line in enumerate(lines, start=1)
    ]


def render_json(value: Mapping[str, Json], *, sort_keys: bool = True) -> str:
    """JSON as it lies in a dataset: UTF-8, two blanks a level, a newline at the end."""
    text = json.dumps(value, indent=2, sort_keys=sort_keys, ensure_ascii=False, allow_nan=False)
    return text + "\n"


def from_plain(kind: Any, value: Any) -> Any:
    """What `dataclasses.asdict` and JSON made of a value, as its annotation has it.

    Args:
        kind: a dataclass, of whose fields those that are not there keep their defaults; `X | None`;
            a tuple, list or mapping by text, of anything of these; a class of JSON; or Any.
        value: what JSON says; what it has beside the fields of a dataclass is passed over.

    Raises:
        TypeError or ValueError: it is something else.
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


def without_twins(pairs: list[tuple[str, Json]]) -> JsonObject:
    """A dictionary of pairs; a `ValueError` where a name stands twice."""
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands twice")
    return value


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS or not -(2**63) <= (number := int(digits)) < 2**64:
        raise ValueError(f"the integer {digits[:_MOST_DIGITS]}… has more than 64 bits")
    return number


_HOOKS: Mapping[str, Any] = {"object_pairs_hook": without_twins, "parse_int": _integer}


def _finite(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise ValueError(f"the number {digits[:_MOST_DIGITS]} is none that floats hold")
    return number


def seal(text: str) -> str:
    """A text of JSON with its own checksum: the CRC-32C of its bytes with zeros for the digits.

    A ValueError where it has no place for one, or two.
    """
    places = [found.span(1) for found in _CHECKSUM.finditer(text)]
    if len(places) != 1:
        raise ValueError(f"expected a line with its checksum, got {len(places)}")
    start, stop = places[0]
    crc = extend_crc32c(0, (text[:start] + NO_CHECKSUM + text[stop:]).encode())
    return f"{text[:start]}{crc:08x}{text[stop:]}"


def is_sealed(text: str) -> bool:
    """Whether a text has its own checksum, and the right one."""
    try:
        return seal(text) == text
    except ValueError:
        return False
