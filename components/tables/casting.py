"""Casts columns to the types that were decided, and says which texts count as numbers."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.common.entry import Column
from trainer_utils.format import InputError
from trainer_utils.format.json_text import Json

# Numbers as programs write them: no zeros before them, no plus sign, no spaces.
INT_TEXT = r"0|-?[1-9][0-9]*"
FLOAT_TEXT = (
    r"-?(0|[1-9][0-9]*)\.[0-9]+([eE][+-]?[0-9]+)?"  # 0.5, 4.50, 1.5e-07, 1.0E5
    r"|-?(0|[1-9][0-9]*)[eE][+-][0-9]+"  # 1e-05
)
# Floats beside such floats, else words and codes: `12e3` is the name of many things. Python writes
# nan and inf; others, JSON's writers among them, write NaN, Inf and Infinity.
DOUBTFUL_TEXT = r"nan|NaN|-?(inf|Inf|Infinity)|-?(0|[1-9][0-9]*)[eE][0-9]+"
_IN_LIST = re.compile(rf"{INT_TEXT}|{FLOAT_TEXT}|NaN|-?Infinity")  # the last two as JSON has them
_EXACT = 2**53  # beyond it, a double may stand for an integer that it is not
_TYPES = {"int": pa.int64(), "float": pa.float32(), "string": pa.string(), "label": pa.string()}


def cast_column(array: pa.Array, column: Column, *, floats: pa.Array | None = None) -> pa.Array:
    """Casts a column of a piece to the type that was decided; labels stay texts.

    Returns an Arrow array of int64, float (of 32 bits unless `floats` is another type of Arrow),
    string or binary, or of lists of these.
    """
    kind = floats if floats is not None and column.kind == "float" else _TYPES[column.kind]
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.list_(kind) if column.is_list else kind)
    if column.is_list:
        if pa.types.is_string(array.type) and (lists := lists_of_texts(array)) is not None:
            array = lists
        if not pa.types.is_list(array.type):
            valid = np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.int64)
            offsets = np.concatenate([[0], np.cumsum(valid)]).astype(np.int32)
            array = pa.ListArray.from_arrays(pa.array(offsets), array.drop_null())
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), _scalars(array.flatten(), kind))
    return _scalars(array, kind)


def _scalars(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind or (pa.types.is_binary(array.type) and pa.types.is_string(kind)):
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    if pa.types.is_string(array.type) and not pa.types.is_string(kind):
        return numbers_of_texts(array, kind)
    if pa.types.is_string(kind):
        return texts_of(array)
    if pa.types.is_integer(array.type) and pa.types.is_floating(kind):
        array = array.cast(pa.float64(), safe=False)
    return array.cast(kind, safe=False)


def texts_of(array: pa.Array) -> pa.Array:
    """Values of a column of texts: numbers become such as `text_of_number` makes of each."""
    if pa.types.is_floating(array.type):
        texts = [None if value is None else text_of_number(value) for value in array.to_pylist()]
        return pa.array(texts, pa.string())
    return array.cast(pa.string())


def no_text(name: str, value: object, place: str) -> InputError:
    """The error of a number among texts that no text stands for: `nan`, `inf`."""
    return InputError(
        f"column {name!r}: expected texts, or numbers that JSON has, got {value} among texts "
        f"({place}). Write null for a text that is missing, or leave the column out: "
        f"columns={{{name!r}: 'ignore'}}."
    )


def text_of_number(value: float) -> str:
    """The text that stands for a number among texts: `1` of 1, 1.0 and True.

    Which of these it was is forgotten where all other values of a piece are numbers.
    """
    if isinstance(value, int):
        return str(int(value))
    return str(int(value)) if value.is_integer() and abs(value) < _EXACT else str(value)


def numbers_of_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Numbers of texts that are such, perhaps with spaces or a plus sign."""
    wide = pa.float64() if pa.types.is_floating(kind) else kind
    try:
        numbers = texts.cast(wide)
    except pa.ArrowInvalid:
        plain = pc.utf8_ltrim(pc.utf8_trim_whitespace(texts), "+")
        numbers = plain.cast(wide)
    return numbers.cast(kind, safe=False)


def lists_of_texts(array: pa.Array) -> pa.Array:
    """Texts such as `[1, 2]` as lists, where every value is such; else None."""
    if not pc.all(pc.starts_with(array, "[")).as_py():
        return None
    lists: list[list[Json] | None] = []
    for text in array.to_pylist():
        lists.append(None if text is None else _list_of_text(text))
        if text is not None and lists[-1] is None:
            return None
    kinds = {type(part) for value in lists for part in value or ()}
    if str in kinds and len(kinds) > 1:
        return None
    kind = pa.string() if str in kinds else pa.float64() if float in kinds else pa.int64()
    try:
        return pa.array(lists, pa.list_(kind if kinds else pa.null()))
    except (pa.ArrowInvalid, OverflowError):
        return None


def _list_of_text(text: str) -> list[Json] | None:
    """The list that a text is in JSON, of texts or of numbers as programs write them; else None."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, list):
        return None
    kinds = {type(part) for part in value}
    if not value or kinds == {str}:
        return value
    parts = (part.strip() for part in text.strip()[1:-1].split(","))
    is_written = kinds <= {int, float} and all(map(_IN_LIST.fullmatch, parts))
    return value if is_written else None
