"""Read the text and JSON files of a dataset strictly, and write them in one canonical form.

    text_of(b"caf\\xe9", path="vocab/label.txt")     # DatasetError: … (byte 3)
    parse_json_object('{"a": 1}', path="manifest.json")     # rejects ambiguous JSON
    json_lines('{"a": 1}\\n{"a": 2}\\n', path="rejects.jsonl")
    seal(text)     # the same with the CRC-32C of its bytes as its `checksum`

The parser rejects duplicate names, NaN and infinities, integers beyond 64 bits, unpaired
surrogates, and deep nesting, since two readers could interpret them differently.

Source: RFC 8259, section 4 on names, 6 on numbers and 8.2 on characters.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from trainer_utils.core.errors import DatasetError

Json: TypeAlias = Any  # the results of `json.loads`: None, bool, int, float, str, list or dict
JsonObject: TypeAlias = dict[str, Json]
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
