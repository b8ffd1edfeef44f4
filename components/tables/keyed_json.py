"""Datum's JSON: `{"17": {"text": "Such a day", "label": {"polarity": 1}}, …}`, or a list of these.

Each entry of `label` is a feature by its own name. Texts that are numbers or lists are taken for
these, as Datum does. A file is parsed as a whole, so that its size is bounded.

Source: `datum/generator/text.py` of datum 1.13.
"""

import codecs
import dataclasses
import json
import re
from collections.abc import Collection, Iterator

from components.common.layout_inputs import LayoutInputs
from components.tables.json_lines import (
    columns_of_objects,
    flat_object,
    flatten_object,
)
from components.tables.pieces import Piece
from components.tables.rows import BadRow, Rows, lines_of
from trainer_utils.format import InputError
from trainer_utils.format.json_text import Json, JsonObject, without_twins

_LABELS = "label."
_HEAD_BYTES = 1 << 16
_MOST_BYTES = 128 << 20  # that are parsed at once; takes some ten times that
_SHOWN = 40
# An entry by a name, whose first field is called 0. Entries by numbers may have such fields.
_TRANSPOSED = re.compile(rb'\{\s*"(?![0-9]+")(?:[^"\\]|\\.)*"\s*:\s*\{\s*"0"\s*:')


def find_pieces(inputs: LayoutInputs, whole: Piece) -> Iterator[Piece]:
    """A file as one piece; an `InputError` where it is no rows of objects, or too large."""
    with inputs.open(whole.path) as stream:
        head = stream.read(_HEAD_BYTES)
        size = stream.seek(0, 2)
    body = head.removeprefix(codecs.BOM_UTF8).lstrip()
    start = len(head) - len(body)
    rule = got = advice = ""
    if body[:1] not in (b"{", b"["):
        rule, got = "objects of JSON by key or in a list", repr(body[:_SHOWN])
        advice = "Files of JSON lines end in .jsonl."
    elif _TRANSPOSED.match(body):
        rule = "an object a row"
        got = f"an object a column, whose rows are numbered: {body[:_SHOWN]!r}"
        advice = (
            "pandas writes so unless it is told otherwise: "
            "frame.to_json('rows.jsonl', orient='records', lines=True)."
        )
    elif size > _MOST_BYTES:
        rule, got = f"a JSON document of at most {_MOST_BYTES} bytes", str(size)
        advice = "Write it as JSON lines, which may be of any size: jq -c '.[]' old.json."
    if rule:
        raise InputError.at(whole.source, expected=rule, got=got, offset=start, advice=advice)
    # The bracket that opens is no part of it, as the header of a CSV is none.
    details: JsonObject = {"opener": body[:1].decode()}
    yield dataclasses.replace(whole, start=start + 1, stop=size, details=details)


def read(data: bytes, piece: Piece, *, ignored: Collection[str] = ()) -> Rows:
    """The rows of a file, of which `data` is what is behind the bracket that opens."""
    value = _parsed(data, piece)
    is_keyed = isinstance(value, _Pairs)
    pairs = value if is_keyed else [(None, entry) for entry in value]
    objects, names, bad = [], [], []
    seen: set[str] = set()
    for record, (key, entry) in enumerate(pairs):
        what = f"the key {key!r}" if is_keyed else "each entry"
        shown = str(key).encode("utf-8", "backslashreplace").decode()
        names.append(f"{piece.source}:{shown}")
        code, detail = "BAD_JSON", ""
        if is_keyed and shown != key:
            detail = f"{what} has half of a surrogate pair"
        elif is_keyed and key in seen:
            code, detail = "DUPLICATE_KEY", f"{what} stands twice"
        elif not isinstance(entry, _Pairs):
            detail = f"expected an object for {what}, got {type(entry).__name__}"
        else:
            try:
                objects.append(_fields(entry))
            except ValueError as error:
                detail = f"expected an object for {what}: {error}"
        if detail:
            bad.append(BadRow(record, code, detail))
        seen.add(key)
    columns, _ = columns_of_objects(objects, place=lambda _: piece.source, ignored=ignored)
    rows = Rows(columns, found=len(pairs), bad=bad, lines=data.count(b"\n"), texts=[*columns])
    rows.names = names if is_keyed else None
    return rows


def _parsed(data: bytes, piece: Piece) -> Json:
    opener = piece.details["opener"].encode()
    try:
        return json.loads((opener + data).decode("utf-8"), object_pairs_hook=_Pairs)
    except UnicodeDecodeError as error:
        offset = error.start - 1
        (line,) = lines_of([offset], data)
        got = f"{data[offset : offset + 4]!r} (line {line + 1}, byte {piece.start + offset})"
        raise InputError.at(piece.source, expected="UTF-8", got=got) from error
    except (ValueError, RecursionError) as error:
        cure = "Was it cut short? Fetch it again."
        raise InputError.at(piece.source, expected="JSON", got=str(error), advice=cure) from error


class _Pairs(list[tuple[str, Json]]):
    """An object as its pairs, so that a key that stands twice is seen."""


def _fields(entry: _Pairs) -> JsonObject:
    fields = flatten_object(_plain(entry))
    return flat_object((name.removeprefix(_LABELS) or name, value) for name, value in fields)


def _plain(value: Json) -> Json:
    if isinstance(value, _Pairs):
        return without_twins([(key, _plain(part)) for key, part in value])
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value
