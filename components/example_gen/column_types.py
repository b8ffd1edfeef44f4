"""Finds out what the values of a column are, from all of them.

    column, values = typed_column("age", ["31", "", "7"], are_texts=True, kind=None, place=str)
    # Column(name='age', kind='int'), [31, None, 7]

A column is of ints where every value is one, of floats where every value is a number, of lists
where every value is a list of these, and of texts otherwise.
"""

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from components.common.listing import Column, Value
from trainer_utils.format import InputError

__all__ = ["LABEL_NAMES", "typed_column"]

LABEL_NAMES = ("label", "labels", "class", "classes", "category", "categories")
_INT = re.compile(r"[+-]?[0-9]+")


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
    readers = _TEXT_READERS if are_texts else _VALUE_READERS
    if kind is None:
        try:
            kind = _narrowest(name, [part for _, part in flat], readers)
        except OverflowError as error:
            raise InputError(f"column {name!r}: expected numbers of 64 bits: {error}") from error
    read = readers[kind]
    for row, part in flat:
        try:
            read(part)
        except (ValueError, TypeError, OverflowError) as error:
            raise InputError(
                f"column {name!r}: expected {kind}{' in lists' if is_list else ''}, "
                f"got {part!r} ({place(row)}): {error}"
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


def _narrowest(
    name: str, values: Sequence[Any], readers: Mapping[str, Callable[[Any], Any]]
) -> str:
    for kind in ("int", "float"):
        if values and all(_fits(readers[kind], value) for value in values):
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
    if not _INT.fullmatch(value):  # int() takes 1_000 too
        raise ValueError("no int")
    return _int(int(value))


def _float_of_text(value: str) -> float:
    if "_" in value or not value.isascii():  # which float() takes
        raise ValueError("no number")
    return float(value)


_VALUE_READERS: Mapping[str, Callable[[Any], Any]] = {
    "int": _int,
    "float": _float,
    "string": _text,
    "label": _text,
}
_TEXT_READERS = {**_VALUE_READERS, "int": _int_of_text, "float": _float_of_text}


def _lists_of_texts(values: Sequence[Any]) -> list[Any] | None:
    """Texts such as `[1, 2]` as lists, where every value is such; else None."""
    present = [value for value in values if value is not None]
    if not present or not all(isinstance(text, str) and text[:1] == "[" for text in present):
        return None
    lists = [None if value is None else _list(value) for value in values]
    return lists if sum(part is not None for part in lists) == len(present) else None


def _list(text: str) -> list[Any] | None:
    for parse in (json.loads, ast.literal_eval):  # the latter knows literals alone
        try:
            value = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        return value if isinstance(value, list) else None
    return None
