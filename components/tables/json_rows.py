"""Read rows of JSON: lines of one object each, and documents of objects in a list or by key.

Arrow reads lines. It would change some values: it parses strings as times, and large integers as
floats. In these cases, or if Arrow cannot read a line, the piece is read line by line, and bad
lines are rejected. Nested objects are flattened with dots.

Documents have Datum's form: `{"17": {"text": "Such a day", "label": {"polarity": 1}}, …}`, or a
list of such objects. Each entry of `label` is a feature with its own name. Strings with numbers or
lists are converted, as in Datum. A document is parsed as a whole, so its size is limited.

Source: `datum/generator/text.py` of datum 1.13.
"""

import codecs
import dataclasses
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from components.inputs.advice import how_to_set
from components.inputs.arrow_columns import array_of_values, one_array, to_numpy
from components.inputs.listing import decode_text
from components.tables.column_types import EXACT, text_of_number
from components.tables.json_values import (
    CHAT_NAMES,
    ChatText,
    JsonText,
    flatten_object,
    flatten_table,
)
from components.tables.pieces import BadRow, Piece, Rows, TableOpener, not_utf8
from trainer_utils.core.errors import InputError
from trainer_utils.core.json_text import Json, JsonObject, reject_duplicate_keys
from trainer_utils.format import canonical_split
from trainer_utils.format.media_formats import EXTENSIONS

_BLOCK_BYTES = 1 << 20
_NULL_LINE = re.compile(rb"^[ \t\r]*null\b", re.MULTILINE)
_MAX_OPENERS = 200  # opening brackets on a line: Arrow overflows the stack where Python raises
_LABELS = "label."
_HEAD_BYTES = 1 << 16
_MAX_BYTES = 128 << 20  # maximum size of a document; parsing takes about ten times the memory
_SHOWN = 40
# Keys of an object whose one list has the rows, as in exports and SQuAD.
_NAMES_OF_ROWS = ("data", "rows", "examples", "records", "items", "instances", "samples")
# An object per column: its key is not a number, and its first field is row 0. An entry with a
# numeric key may well have a field 0.
_TRANSPOSED = re.compile(rb'\{\s*"(?![0-9]+")(?:[^"\\]|\\.)*"\s*:\s*\{\s*"0"\s*:')

_MAX_NAME, _MAX_SPACES = 64, 3  # of a column's name
_ROWS_OF_COLUMNS = (
    "import json, sys; d = json.load(sys.stdin); "
    "[print(json.dumps(dict(zip(d, row)))) for row in zip(*d.values(), strict=True)]"
)
_ROWS_OF_KEYS = (
    "import json, sys; "
    '[print(json.dumps({"text": k, "label": v})) for k, v in json.load(sys.stdin).items()]'
)
_LIST_BY_KEY = re.compile(rb'\{\s*"((?:[^"\\]|\\.)*)"\s*:\s*\[')
_CONCATENATED = (
    "If it has one object after another, write one per line: jq -c . old.json > new.jsonl."
)


def parse_object(text: str, *, as_json: Collection[str] = ()) -> JsonObject:
    """Parse an object, and flatten nested objects into names with dots.

    Args:
        text: the object as JSON.
        as_json: the fields to keep as JSON, in addition to chats.

    Raises:
        ValueError: the text is not a JSON object, a name is duplicated, or a string has lone
            surrogates.
    """
    value = json.loads(text, object_pairs_hook=reject_duplicate_keys)
    if not isinstance(value, dict):
        raise ValueError(f"got {type(value).__name__}")
    return _flat_object(flatten_object(value, as_json=as_json))


def _flat_object(fields: Iterable[tuple[str, Json]]) -> JsonObject:
    """Return fields as a dict. Raise a ValueError for duplicate names and lone surrogates."""
    flat = reject_duplicate_keys(list(fields))
    json.dumps(flat, ensure_ascii=False).encode("utf-8")
    return flat


def is_ignored(name: str, ignored: Collection[str]) -> bool:
    """Return whether a column, or an object that contains it, is ignored."""
    return name in ignored or any(name.startswith(f"{other}.") for other in ignored)


def columns_of_objects(
    objects: Sequence[Mapping[str, Json]],
    *,
    place: Callable[[int], str],
    ignored: Collection[str] = (),
) -> tuple[dict[str, pa.Array], list[str]]:
    """Convert flat objects to columns.

    Args:
        objects: the objects, one per row.
        place: returns the place of the n-th object, for messages.
        ignored: the columns to leave out.

    Returns:
        The Arrow array of each column, and the columns whose numbers became strings. Numbers become
        strings next to other strings, and if a conversion of large integers to floats would change
        them.

    Raises:
        InputError: a column has values that an example cannot hold.
    """
    columns, mixed = {}, []
    for name in dict.fromkeys(name for value in objects for name in value):
        if is_ignored(name, ignored):
            continue
        values = [value.get(name) for value in objects]
        if any(isinstance(value, JsonText) for value in values):
            columns[name] = _json_column(name, values, place)
            continue
        columns[name] = _array(name, values, place)
        is_text = pa.types.is_string(columns[name].type)
        if is_text and any(type(value) in (int, float) for value in values):
            mixed.append(name)
    return columns, mixed


def _json_column(name: str, values: Sequence[Json], place: Callable[[int], str]) -> pa.Array:
    """Return an array of JSON. Raise an InputError if a value is neither JSON nor null."""
    for row, value in enumerate(values):
        if value is not None and not isinstance(value, JsonText):
            raise InputError(
                f"column {name!r}: expected a chat in each row, as in others, got "
                f"{str(value)[:_SHOWN]!r} ({place(row)}). {cure_by_json(name)}"
            )
    return pa.array(values, pa.string())


def json_names(
    objects: Sequence[Mapping[str, Json]], names: Collection[str]
) -> tuple[set[str], set[str]]:
    """Return the columns of flat objects that are kept as JSON, and the chats among them."""
    texts = {name for name in names for value in objects if isinstance(value.get(name), JsonText)}
    chats = {
        name
        for name in texts
        if all(isinstance(v.get(name), (ChatText, type(None))) for v in objects)
    }
    return texts, chats


def cure_by_json(name: str) -> str:
    """Return the advice to keep a column as JSON or to ignore it."""
    keep, leave_out = (how_to_set(columns={name: kind}) for kind in ("json", "ignore"))
    return f"Keep its values as JSON: {keep}; or leave it out: {leave_out}."


def _array(name: str, values: Sequence[Json], place: Callable[[int], str]) -> pa.Array:
    """Convert the values of a column to the type that holds all of them, in lists if any is one."""
    is_list = any(isinstance(value, list) for value in values)
    lists = [v if isinstance(v, list) else [] if v is None else [v] for v in values]
    kinds = {type(part) for parts in lists for part in parts}
    kind, read, are_right, rule = _type_of(kinds, () if is_list else values)
    for row, parts in enumerate(lists):
        for part in parts:
            if not are_right(part):
                among = " among strings" if kind == pa.string() else ""
                raise InputError(
                    f"column {name!r}: expected {rule}, got {part!r}{among} ({place(row)}). "
                    f"{cure_by_json(name)}"
                )
    if not is_list:
        return array_of_values([None if v is None else read(v) for v in values], kind)
    pairs = zip(values, lists, strict=True)
    return pa.array(
        [None if v is None else [*map(read, items)] for v, items in pairs], pa.list_(kind)
    )


def _type_of(
    kinds: set[type], values: Sequence[Json]
) -> tuple[pa.DataType, Callable[[Json], Json], Callable[[Json], bool], str]:
    """Return the Arrow type for Python types, a converter, a validity check, and the rule."""
    if not kinds <= {bool, int, float, str}:
        rule = "numbers, strings, or lists of these"
        return pa.null(), str, lambda part: type(part) in (bool, int, float, str), rule
    if str in kinds or (kinds == {int, float} and _would_lose_digits(values)):
        return pa.string(), text_of_number, _is_finite, "strings, or numbers that JSON has"
    if float in kinds:
        return pa.float64(), float, lambda _: True, ""
    return pa.int64() if kinds else pa.null(), int, _is_in_64_bits, "64-bit integers"


def _would_lose_digits(values: Sequence[Json]) -> bool:
    """Return whether converting 64-bit integers to floats would change one of them."""
    ints = [value for value in values if isinstance(value, int)]
    if not all(map(_is_in_64_bits, ints)) or not all(map(_is_finite, values)):
        return False  # such columns stay floats; NaN and infinity have no string in JSON
    return any(abs(value) > EXACT for value in ints)


def _is_finite(value: Json) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _is_in_64_bits(value: int) -> bool:
    return -(2**63) <= value < 2**63


# Lines --------------------------------------------------------------------------------------------


def read_lines(
    data: bytes, piece: Piece, *, ignored: Collection[str] = (), as_json: Collection[str] = ()
) -> Rows:
    """Return the rows of a piece of JSON lines.

    Args:
        data: the lines.
        piece: the piece.
        ignored: the columns to leave out.
        as_json: the columns to keep as JSON, in addition to chats.

    Raises:
        InputError: a column has values that an example cannot hold.
    """
    if piece.start == 0:
        data = data.removeprefix(codecs.BOM_UTF8)
    table = _read_by_arrow(data, ignored) if _is_safe(data) and not as_json else None
    if table is None:
        return _read_one_by_one(data, piece, ignored, as_json)
    columns = {name: one_array(table[name]) for name in table.column_names}
    return Rows(columns, found=len(table), lines=data.count(b"\n"))


def _is_safe(data: bytes) -> bool:
    """Return whether Arrow can read the data: it crashes on `null` lines and very deep nesting."""
    if _NULL_LINE.search(data):
        return False
    octets = np.frombuffer(data, np.uint8)
    ends = np.append(np.flatnonzero(octets == ord("\n")), len(data))
    if np.diff(ends, prepend=-1).max() <= _MAX_OPENERS:
        return True
    openers = np.flatnonzero((octets == ord("{")) | (octets == ord("[")))
    by_line = np.bincount(np.searchsorted(ends, openers), minlength=1)
    return int(by_line.max()) <= _MAX_OPENERS


def _read_by_arrow(data: bytes, ignored: Collection[str]) -> pa.Table | None:
    """Read lines with Arrow, or return None if it would miss or change anything."""
    try:
        data.decode("utf-8")  # Arrow does not check the encoding
        table = _parse(data, None)
        timeless = _replaced(table.schema, pa.types.is_temporal, pa.string())
        if timeless != table.schema:
            table = _parse(data, timeless)
        table, kept, _ = flatten_table(table)
        if kept or any(name in table.column_names for name in CHAT_NAMES):
            return None  # Arrow gives each message the keys of all messages
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
        return None
    table = table.select([name for name in table.column_names if not is_ignored(name, ignored)])
    # Otherwise there are blank lines, or several objects on a line.
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    if len(table) != lines or any(map(_is_doubtful, table.columns)):
        return None
    if not table.column_names:
        return None  # a cast would lose the number of rows
    # Convert booleans to 0 and 1, as reading line by line does.
    schema = _replaced(table.schema, pa.types.is_boolean, pa.int64())
    return pa.Table.from_arrays([*map(pc.cast, table.columns, schema.types)], schema=schema)


def _parse(data: bytes, schema: pa.Schema | None) -> pa.Table:
    return pyarrow.json.read_json(
        pa.BufferReader(data),
        read_options=pyarrow.json.ReadOptions(block_size=_BLOCK_BYTES),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema),
    )


def _replaced(
    fields: Iterable[pa.Field], is_one: Callable[[pa.DataType], bool], by: pa.DataType
) -> pa.Schema:
    def replaced(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(kind):
            return pa.struct(_replaced(kind, is_one, by))
        if pa.types.is_list(kind):
            return pa.list_(replaced(kind.value_type))
        return by if is_one(kind) else kind

    return pa.schema([(field.name, replaced(field.type)) for field in fields])


def _is_doubtful(column: pa.ChunkedArray) -> bool:
    """Return whether a column has doubles that may be large integers, or nested or null lists."""
    if pa.types.is_list(column.type):
        parts = [*map(pc.list_flatten, column.chunks)]
        return pa.types.is_nested(column.type.value_type) or any(
            part.null_count or _is_doubtful(pa.chunked_array([part])) for part in parts
        )
    if not pa.types.is_floating(column.type):
        return False
    return bool((np.abs(to_numpy(column, null=0)) >= EXACT).any())


def _read_one_by_one(
    data: bytes, piece: Piece, ignored: Collection[str], as_json: Collection[str]
) -> Rows:
    """Read lines like `read_lines`, with Python's JSON parser."""
    objects, lines, bad, record = [], [], [], 0
    for line, text in enumerate(data.split(b"\n")):
        if not text.strip():
            continue
        try:
            objects.append(parse_object(text.decode("utf-8"), as_json=as_json))
            lines.append(line + 1)
        except UnicodeDecodeError as error:
            bad.append(BadRow(record, *not_utf8(error), line))
        except (ValueError, RecursionError) as error:
            bad.append(BadRow(record, "BAD_JSON", f"expected a JSON object: {error}", line))
        record += 1

    def place(number: int) -> str:
        is_first = piece.start == 0  # a later piece does not know the number of lines before it
        return f"{piece.source}, line {lines[number]}" if is_first else piece.source

    columns, mixed = columns_of_objects(objects, place=place, ignored=ignored)
    kept, chats = json_names(objects, columns)
    ends = data.count(b"\n")
    return Rows(columns, found=record, bad=bad, lines=ends, texts=mixed, as_json=kept, chats=chats)


# Documents ----------------------------------------------------------------------------------------


def lists_in_document(body: bytes) -> tuple[str, str] | None:
    """Describe a document of lists by key, and return how to write it as rows; else None.

    A list has the rows of a split, or the columns or rows of a table.
    """
    match = _LIST_BY_KEY.match(body)
    if match is None:
        return None
    key = match[1].decode("utf-8", "replace")
    if key in ("columns", "index", "data") and b'"columns"' in body and b'"data"' in body:
        return "lists of columns and of rows", (
            "This is the form 'split' of pandas. Write it with "
            "frame.to_json('rows.jsonl', orient='records', lines=True)."
        )
    if canonical_split(key) is None:
        return None
    advice = f"Write a file of objects per split, such as: jq -c '.{key}[]' old.json > {key}.jsonl."
    return f"a list of the split {key!r}", advice


def is_no_row(value: JsonObject) -> bool:
    """Return whether the only object of a file has the rows of a table: by column, or by key."""
    values = [*value.values()]
    if all(isinstance(part, list) for part in values):
        return len({*map(len, values)}) == 1 and len(values[0]) > 1
    are_scalars = all(isinstance(part, (str, int, float)) for part in values)
    return are_scalars and len(values) > 2 and not all(map(_may_be_column, value))


def _may_be_column(key: str) -> bool:
    """Return whether a key may be the name of a column, and is no text, number or file name."""
    is_file = key.lower().endswith((*EXTENSIONS["image"], *EXTENSIONS["audio"]))
    is_short = len(key) <= _MAX_NAME and key.count(" ") <= _MAX_SPACES
    return is_short and not key.isdecimal() and not is_file


def _check_entries(value: Json, source: str) -> None:
    """Raise an InputError if the values of an object by key are lists, numbers or strings."""
    if not isinstance(value, dict) or len(value) < 2:
        return
    key, first = next(iter(value.items()))
    if is_no_row(value) and isinstance(first, list):
        got, code = "a list per column", _ROWS_OF_COLUMNS
    elif all(isinstance(part, (str, int, float)) for part in value.values()):
        got, code = "a value per key", _ROWS_OF_KEYS
    else:
        return
    raise InputError.at(
        source,
        expected="an object per row",
        got=f"{got}: {key[:_SHOWN]!r}: {str(first)[:_SHOWN]}",
        advice=f"Write JSON lines: python3 -c '{code}' < old.json > new.jsonl",
    )


def find_document(inputs: TableOpener, whole: Piece) -> Piece:
    """Return a file as one piece. Raise an InputError unless it has objects and is small enough."""
    with inputs.open(whole.path) as stream:
        head = stream.read(_HEAD_BYTES)
        size = stream.seek(0, 2)
    body = head.removeprefix(codecs.BOM_UTF8).lstrip()
    rule = got = advice = ""
    if body[:1] not in (b"{", b"["):
        rule, got = "objects of JSON by key or in a list", repr(body[:_SHOWN])
        advice = "Files of JSON lines end in .jsonl."
    elif _TRANSPOSED.match(body):
        rule = "one object per row"
        got = f"one object per column, with numbered rows: {body[:_SHOWN]!r}"
        advice = (
            "This is pandas' default. Write it with "
            "frame.to_json('rows.jsonl', orient='records', lines=True)."
        )
    elif (lists := lists_in_document(body)) is not None:
        rule = "one object per row"
        got, advice = lists
    elif size > _MAX_BYTES:
        rule, got = f"a JSON document of at most {_MAX_BYTES} bytes", str(size)
        advice = "Write it as JSON lines, which may be of any size: jq -c '.[]' old.json."
    if rule:
        raise InputError.at(whole.source, expected=rule, got=got, advice=advice)
    return dataclasses.replace(whole, stop=size)


def rows_within(value: Json) -> Json:
    """Return the rows of `{"version": "1.1", "data": [{…}, …]}`, or else the value itself."""
    if not isinstance(value, dict):
        return value
    containers = [name for name, part in value.items() if isinstance(part, (list, dict))]
    if len(containers) != 1 or containers[0] not in _NAMES_OF_ROWS:
        return value
    rows = value[containers[0]]
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        return value
    return rows


def read_document(
    data: bytes, piece: Piece, *, ignored: Collection[str] = (), as_json: Collection[str] = ()
) -> Rows:
    """Return the rows of a document.

    Args:
        data: the file's bytes.
        piece: the file as one piece.
        ignored: the columns to leave out.
        as_json: the columns to keep as JSON, in addition to chats.

    Raises:
        InputError: the file is not JSON, or a column has values that an example cannot hold.
    """
    text = decode_text(data, path=piece.source)
    try:
        value = json.loads(text, object_pairs_hook=reject_duplicate_keys)
    except (ValueError, RecursionError) as error:
        advice = _CONCATENATED if str(error).startswith("Extra data") else ""
        raise InputError.at(piece.source, expected="JSON", got=str(error), advice=advice) from error
    value = rows_within(value)
    _check_entries(value, piece.source)
    names, entries = None, value
    if isinstance(value, dict):
        keys = (key.encode("utf-8", "backslashreplace").decode() for key in value)
        names, entries = [f"{piece.source}:{key}" for key in keys], value.values()
    objects, bad = [], []
    for record, entry in enumerate(entries):
        try:
            if not isinstance(entry, dict):
                raise ValueError(f"got {type(entry).__name__}")
            fields = flatten_object(entry, as_json={*as_json, *(f"{_LABELS}{n}" for n in as_json)})
            objects.append(_flat_object((n.removeprefix(_LABELS) or n, v) for n, v in fields))
        except ValueError as error:
            bad.append(BadRow(record, "BAD_JSON", f"expected an object: {error}"))
    columns, _ = columns_of_objects(objects, place=lambda _: piece.source, ignored=ignored)
    kept, chats = json_names(objects, columns)
    return Rows(
        columns,
        found=len(value),
        bad=bad,
        names=names,
        lines=data.count(b"\n"),
        texts=[name for name in columns if name not in kept],
        as_json=kept,
        chats=chats,
    )
