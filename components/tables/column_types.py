"""Finds out what the values of a column are, from all of them.

    column, values = typed_column("age", ["31", "", "7"], are_texts=True, kind=None, place=str)
    # Column(name='age', kind='int'), [31, None, 7]

A column is of ints where every value is one, of floats where every value is a number, of lists
where every value is a list of these, and of texts otherwise. A text is a number only where that
number, written again, is the same text: `08123`, `+5`, ` 5 ` and `1_000` are codes, or may be, and
one of them makes its column one of texts; so do `1e5` and `nan` where no other value is a float.
"""

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from components.common.listing import Column, Value
from trainer_utils.format import InputError

__all__ = [
    "DOUBTFUL_TEXT",
    "FLOAT_TEXT",
    "INT_TEXT",
    "LABEL_NAMES",
    "list_of_text",
    "typed_column",
]

LABEL_NAMES = ("label", "labels", "class", "classes", "category", "categories")

# Numbers as programs write them: no zeros before them, no plus sign, no spaces.
INT_TEXT = r"0|-?[1-9][0-9]*"
FLOAT_TEXT = (
    r"-?(0|[1-9][0-9]*)\.[0-9]+([eE][+-]?[0-9]+)?"  # 0.5, 4.50, 1.5e-07, 1.0E5
    r"|-?(0|[1-9][0-9]*)[eE][+-][0-9]+"  # 1e-05
)
# Floats beside such floats, else words and codes: `12e3` is the name of many things.
DOUBTFUL_TEXT = r"nan|-?inf|-?(0|[1-9][0-9]*)[eE][0-9]+"
_INT, _FLOAT, _DOUBTFUL = map(re.compile, (INT_TEXT, FLOAT_TEXT, DOUBTFUL_TEXT))
_IN_LIST = re.compile(rf"{INT_TEXT}|{FLOAT_TEXT}|NaN|-?Infinity")  # the last two as JSON has them


def typed_column(
    name: str,
    values: Sequence[Any],
    *,
    are_texts: bool,
    kind: str | None,
    place: Callable[[int], str],
) -> tuple[Column, list[Value]]:
    """The column, and its values as examples keep them.

    Args:
        name: of the column.
        values: one a row; None or "" where there is none.
        are_texts: whether they come from a CSV, and numbers must be read from texts.
        kind: what the user says that they are, or None.
        place: the place of the n-th value, for messages.

    Raises:
        InputError: a value is not what `kind` says, or is nothing that an example can hold.
    """
    given = [None if value == "" else value for value in values]
    if are_texts and (lists := _lists_of_texts(given)) is not None:
        given, are_texts = lists, False
    is_list = any(isinstance(value, list) for value in given)
    flat = [(row, part) for row, value in enumerate(given) for part in _parts(value, is_list)]
    if kind is None:
        try:
            kind = _narrowest(name, [part for _, part in flat], are_texts=are_texts)
        except OverflowError as error:
            raise InputError(
                f"column {name!r}: expected numbers of 64 bits: {error}. "
                f"Leave the column out: columns={{{name!r}: 'ignore'}}."
            ) from error
    read = (_TEXT_READERS if are_texts else _VALUE_READERS)[kind]
    for row, part in flat:
        try:
            read(part)
        except (ValueError, TypeError, OverflowError) as error:
            raise InputError(
                f"column {name!r}: expected {kind}{' in lists' if is_list else ''}, "
                f"got {part!r} ({place(row)}): {error}. Say what the column is, or leave it out: "
                f"columns={{{name!r}: 'ignore'}}."
            ) from error
    if not is_list:
        return Column(name, kind), [None if value is None else read(value) for value in given]
    tuples = [tuple(map(read, _parts(value, is_list))) for value in given]
    lengths = {len(value) for value in tuples}
    is_vector = len(lengths) == 1 and kind in ("int", "float")
    return Column(name, kind, is_list=True, length=lengths.pop() if is_vector else None), [*tuples]


def _parts(value: Any, is_list: bool) -> Sequence[Any]:
    if isinstance(value, list):
        return value
    return () if value is None else (value,)


def _narrowest(name: str, values: Sequence[Any], *, are_texts: bool) -> str:
    readers = _WRITTEN_READERS if are_texts else _VALUE_READERS
    for kind in ("int", "float"):
        is_shown = kind == "int" or not are_texts or any(map(_FLOAT.fullmatch, values))
        if values and is_shown and all(_fits(readers[kind], value) for value in values):
            return kind
    return "label" if name.lower() in LABEL_NAMES else "string"


def _fits(read: Callable[[Any], Any], value: Any) -> bool:
    try:
        read(value)
    except (ValueError, TypeError):
        return False
    return True


def _int(value: Any) -> int:
    if not isinstance(value, int):  # True and False are 1 and 0
        raise TypeError("no int")
    if not -(2**63) <= value < 2**63:
        raise ValueError("more than 64 bits")
    return int(value)


def _float(value: Any) -> float:
    if not isinstance(value, (int, float)):
        raise TypeError("no number")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, (str, int, float)):
        raise TypeError("no text")
    return str(value)


def _int_of_text(value: str) -> int:
    if "_" in value or not value.isascii():  # which int() takes
        raise ValueError("no int")
    return _int(int(value))


def _float_of_text(value: str) -> float:
    if "_" in value or not value.isascii():  # which float() takes
        raise ValueError("no number")
    return float(value)


def _written_int(value: str) -> int:
    if not _INT.fullmatch(value):
        raise ValueError("no int as programs write it")
    return _int(int(value))


def _written_float(value: str) -> float:
    if _INT.fullmatch(value):
        return float(_written_int(value))
    if not _FLOAT.fullmatch(value) and not _DOUBTFUL.fullmatch(value):
        raise ValueError("no float as programs write it")
    return float(value)


_VALUE_READERS: Mapping[str, Callable[[Any], Any]] = {
    "int": _int,
    "float": _float,
    "string": _text,
    "label": _text,
}
# Of texts: where the user says what they are, and where they are to tell.
_TEXT_READERS = {**_VALUE_READERS, "int": _int_of_text, "float": _float_of_text}
_WRITTEN_READERS = {**_VALUE_READERS, "int": _written_int, "float": _written_float}


def _lists_of_texts(values: Sequence[Any]) -> list[Any] | None:
    """Texts such as `[1, 2]` as lists, where every value is such; else None."""
    present = [value for value in values if value is not None]
    if not present or not all(isinstance(text, str) and text[:1] == "[" for text in present):
        return None
    lists = [None if value is None else list_of_text(value) for value in values]
    return lists if sum(part is not None for part in lists) == len(present) else None


def list_of_text(text: str, *, literals: bool = True) -> list[Any] | None:
    """The list that a text is, in JSON or as Python writes it; None for one that is none.

    A list of numbers is one only where these are written as programs write them.

    Args:
        text: such as `[1, 2]`.
        literals: whether Python's way counts, `['a']`.
    """
    parsers = (json.loads, ast.literal_eval) if literals else (json.loads,)  # both run no code
    for parse in parsers:
        try:
            value = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        return value if isinstance(value, list) and _is_as_written(text, value) else None
    return None


def _is_as_written(text: str, values: list[Any]) -> bool:
    """Whether the numbers of a list stand in its text as they would be written again."""
    if not values or not all(type(value) in (int, float) for value in values):
        return True
    parts = [part.strip() for part in text.strip()[1:-1].split(",")]
    return all(map(_IN_LIST.fullmatch, parts))
