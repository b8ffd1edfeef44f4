"""Datum's JSON: `{"17": {"text": "Such a day", "label": {"polarity": 1}}, …}`, or a list of these.

Each entry of `label` is a feature by its own name. Texts that are numbers or lists are taken for
these, as Datum does. A file is cut between its entries, so that its size does not matter.

Source: `datum/generator/text.py` of datum 1.13.
"""

import codecs
import dataclasses
import json
import re
from collections.abc import Collection, Iterator

from components.common.layout_inputs import LayoutInputs
from components.tables.json_entries import JsonEntries
from components.tables.json_objects import (
    columns_of_objects,
    flat_object,
    flatten_object,
    without_twins,
)
from components.tables.pieces import Piece, cut
from components.tables.rows import BadRow, Rows, lines_of
from trainer_utils.format import InputError
from trainer_utils.format.json_text import Json, JsonObject

__all__ = ["find_pieces", "read"]

_LABELS = "label."
_HEAD_BYTES = 1 << 16
_SHOWN = 40
# An entry by a name, whose first field is called 0. Entries by numbers may have such fields.
_TRANSPOSED = re.compile(rb'\{\s*"(?![0-9]+")(?:[^"\\]|\\.)*"\s*:\s*\{\s*"0"\s*:')
_CLOSERS = {b"{": b"}", b"[": b"]"}


def find_pieces(inputs: LayoutInputs, whole: Piece) -> Iterator[Piece]:
    """Cuts a file between its entries.

    Raises:
        InputError: it is no object and no list, or not whole; or its entries are columns.
    """
    entries, source = JsonEntries(), whole.source
    with inputs.open(whole.path) as stream:
        head = stream.read(_HEAD_BYTES)
        body = head.removeprefix(codecs.BOM_UTF8).lstrip()
        opener = body[:1]
        if opener not in _CLOSERS:
            raise InputError.at(
                source,
                expected="objects of JSON by key or in a list",
                got=repr(body[:_SHOWN]),
                offset=len(head) - len(body),
                advice="Files of JSON lines end in .jsonl.",
            )
        if _TRANSPOSED.match(body):
            raise InputError.at(
                source,
                expected="an object a row",
                got=f"an object a column, whose rows are numbered: {body[:_SHOWN]!r}",
                advice="pandas writes so unless it is told otherwise: "
                "frame.to_json('rows.jsonl', orient='records', lines=True).",
            )
        first = len(head) - len(body) + 1
        entries.row_ends(opener)
        details = {"opener": opener.decode(), "first": first}
        whole = dataclasses.replace(whole, details=details)
        yield from map(whole.narrow, cut(stream, start=first, rows=entries))
        if not entries.is_whole:
            raise InputError.at(
                source,
                expected="JSON",
                got="a file that ends within a text, a list or an object",
                offset=stream.seek(0, 2),
                advice="It may have been cut short: fetch it again.",
            )


def read(data: bytes, piece: Piece, *, ignored: Collection[str] = ()) -> Rows:
    """The rows of a piece.

    Args:
        data: whole entries, with the commas between them.
        piece: from `find_pieces`.
        ignored: columns that are not read.

    Raises:
        InputError: it is no such JSON.
    """
    value = _parsed(data, piece)
    is_keyed = isinstance(value, _Pairs)
    pairs = value.pairs if is_keyed else [(None, entry) for entry in value]
    objects, names, bad = [], [], []
    seen: set[str] = set()
    for record, (key, entry) in enumerate(pairs):
        what = f"the key {key!r}" if is_keyed else "each entry"
        shown = str(key).encode("utf-8", "backslashreplace").decode()
        names.append(f"{piece.source}:{shown}")
        if is_keyed and shown != key:
            bad.append(BadRow(record, "BAD_JSON", f"{what} has half of a surrogate pair"))
        elif key in seen:
            bad.append(BadRow(record, "DUPLICATE_KEY", f"the key {key!r} stands twice"))
        elif not isinstance(entry, _Pairs):
            detail = f"expected an object for {what}, got {type(entry).__name__}"
            bad.append(BadRow(record, "BAD_JSON", detail))
        else:
            try:
                objects.append(_fields(entry))
            except ValueError as error:
                bad.append(BadRow(record, "BAD_JSON", f"expected an object for {what}: {error}"))
        if is_keyed:
            seen.add(key)
    columns, _ = columns_of_objects(objects, place=lambda _: piece.source, ignored=ignored)
    return Rows(
        columns,
        found=len(pairs),
        bad=bad,
        names=names if is_keyed else None,
        lines=data.count(b"\n"),
        texts=list(columns),
    )


def _parsed(data: bytes, piece: Piece) -> Json:
    """The entries of a piece, as if it were a file by itself."""
    opener = piece.details["opener"].encode()
    body = data.strip()
    if body.endswith(b","):
        data = body[:-1] + _CLOSERS[opener]
    elif body == _CLOSERS[opener] and piece.start > piece.details["first"]:
        raise InputError.at(
            piece.source, expected="JSON", got="a comma behind the last entry", offset=piece.start
        )
    try:
        return json.loads((opener + data).decode("utf-8"), object_pairs_hook=_Pairs)
    except UnicodeDecodeError as error:
        offset = error.start - 1
        (line,) = lines_of([offset], data)
        place = f"line {line + 1}, " if piece.start == piece.details["first"] else ""
        raise InputError.at(
            piece.source,
            expected="UTF-8",
            got=f"{data[offset : offset + 4]!r} ({place}byte {piece.start + offset})",
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{piece.source!r}: expected JSON: {error} (from byte {piece.start})", path=piece.source
        ) from error


class _Pairs:
    """An object as its pairs, so that a key that stands twice is seen."""

    def __init__(self, pairs: list[tuple[str, Json]]) -> None:
        self.pairs = pairs


def _fields(entry: _Pairs) -> JsonObject:
    fields = flatten_object(_plain(entry))
    return flat_object((name.removeprefix(_LABELS) or name, value) for name, value in fields)


def _plain(value: Json) -> Json:
    if isinstance(value, _Pairs):
        return without_twins([(key, _plain(part)) for key, part in value.pairs])
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value
