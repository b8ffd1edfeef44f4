"""Datum's JSON: `{"17": {"text": "Such a day", "label": {"polarity": 1}}, …}`, or a list of these.

Each entry of `label` is a feature by its own name. Texts that are numbers or lists are taken for
these, as Datum does.

Source: `datum/generator/text.py` of datum 1.13.
"""

import json
from typing import Any

from components.text_example_gen.layouts.json_lines import (
    columns_of_objects,
    flat_object,
    flattened,
    without_twins,
)
from components.text_example_gen.pieces import Piece
from components.text_example_gen.rows import BadRow, Rows, lines_of
from trainer_utils.format import InputError

__all__ = ["read"]

_LABELS = "label."


def read(data: bytes, piece: Piece) -> Rows:
    """The rows of a whole file.

    Raises:
        InputError: it is no such JSON.
    """
    try:
        value = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_Pairs)
    except UnicodeDecodeError as error:
        (line,) = lines_of([error.start], data)
        raise InputError(
            f"{piece.source!r}: expected UTF-8, got {data[error.start : error.start + 4]!r} "
            f"(line {line + 1}, byte {error.start})"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{piece.source!r}: expected JSON: {error}") from error
    if isinstance(value, list):
        value = _Pairs([(str(number), entry) for number, entry in enumerate(value, 1)])
    if not isinstance(value, _Pairs):
        raise InputError(
            f"{piece.source!r}: expected objects by key or in a list, got {type(value).__name__}. "
            "Lines of JSON are called .jsonl."
        )
    objects, names, bad = [], [], []
    seen: set[str] = set()
    for record, (key, entry) in enumerate(value.pairs):
        names.append(f"{piece.source}:{key}")
        if key in seen:
            bad.append(BadRow(record, "DUPLICATE_KEY", f"the key {key!r} stands twice"))
        elif not isinstance(entry, _Pairs):
            detail = f"expected an object for the key {key!r}, got {type(entry).__name__}"
            bad.append(BadRow(record, "BAD_JSON", detail))
        else:
            try:
                objects.append(_fields(entry))
            except ValueError as error:
                detail = f"expected an object for the key {key!r}: {error}"
                bad.append(BadRow(record, "BAD_JSON", detail))
        seen.add(key)
    columns, _ = columns_of_objects(objects, source=piece.source)
    return Rows(columns, found=len(names), bad=bad, names=names, texts=list(columns))


class _Pairs:
    """An object as its pairs, so that a key that stands twice is seen."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


def _fields(entry: _Pairs) -> dict[str, Any]:
    fields = flattened(_plain(entry))
    return flat_object((name.removeprefix(_LABELS) or name, value) for name, value in fields)


def _plain(value: Any) -> Any:
    if isinstance(value, _Pairs):
        return without_twins([(key, _plain(part)) for key, part in value.pairs])
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value
