"""Finds out what columns hold, from every value of every piece.

A column is of ints where every value is one, of floats where every value is a number, of lists
where every value is one of these, else of texts; but a few words among numbers are an error.
A text is a number only where that number, written again, is the same text: `08123`, `+5`, ` 5 `
and `1_000` are codes, or may be, and one of them makes its column one of texts; so do `1e5` and
`nan` where no other value is a float.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from absl import logging

from components.common.entry import Column
from components.tables.casting import (
    DOUBTFUL_TEXT,
    FLOAT_TEXT,
    INT_TEXT,
    lists_of_texts,
    no_text,
    numbers_of_texts,
)
from trainer_utils.format import ConfigError, InputError
from trainer_utils.format.errors import did_you_mean

LABEL_NAMES = ("label", "labels", "class", "classes", "category", "categories")

_INT, _FLOAT = rf"^({INT_TEXT})$", rf"^({FLOAT_TEXT})$"
_DOUBTFUL = rf"^({DOUBTFUL_TEXT})$"
# What is taken where the user says that a column holds numbers.
_GIVEN_INT = r"^\s*[+-]?[0-9]+\s*$"
_GIVEN_NUMBER = (
    r"^\s*[+-]?([0-9]+\.?[0-9]*([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?"
    r"|[nN][aA][nN]|[iI][nN][fF]([iI][nN][iI][tT][yY])?)\s*$"
)
# What is a number, or a code that looks like one: digits of any script with points, commas and the
# like between them. Anything else among numbers is a mistake.
_LIKE_NUMBER = (
    r"^[\s\pZ]*([+-]?([nN][aA][nN]|[iI][nN][fF]([iI][nN][iI][tT][yY])?|0[xXoObB][0-9a-fA-F]+"
    r"|[\p{Nd}_.,+-]*\p{Nd}[\p{Nd}_.,+-]*([eE][+-]?\p{Nd}+)?))[\s\pZ]*$"
)
_MOST_FLOAT = float(np.finfo(np.float32).max)
_SHOWN = 60  # characters of a value in a message

Place = tuple[int, str]  # a row's number in its piece, and the value as it stands there


@dataclasses.dataclass
class ColumnFacts:
    """What one piece's values of a column are."""

    values: int = 0  # how many there are; the others are missing
    numbers: int = 0  # how many are numbers, look like ones, or are lists of them
    lists: int = 0
    are_texts: bool = False  # whether the lists stand as texts, and may be taken for these
    bytes: int = 0
    has_floats: bool = False  # whether one of the numbers is a float without doubt
    has_doubtful: bool = False  # whether a text is a float only beside others, as `nan` is
    has_codes: bool = False  # whether a text is like a number that is written in another way
    first_float: Place | None = None  # the first that is no int
    first_text: Place | None = None  # the first that is no number
    too_large: Place | None = None  # the first int that 64 bits do not hold
    not_finite: Place | None = None  # the first number, no text, that is infinite or none
    overflow: Place | None = None  # the first finite number that a float of 32 bits does not hold
    rounded: Place | None = None  # the first whole number that a float of 32 bits changes


def check_columns(given: Mapping[str, str], names: Collection[str], *, of: str) -> None:
    """Refuses kinds that are given for columns that `of` lacks; ignored ones may be gone."""
    for name, kind in given.items():
        if name not in names and kind != "ignore":
            allowed, meant = f"columns of {of} ({', '.join(names)})", did_you_mean(name, names)
            raise ConfigError.of("columns", name, allowed=allowed, advice=meant.strip())


def column_facts(
    array: pa.Array, records: npt.NDArray[np.int64], *, are_texts: bool
) -> ColumnFacts:
    """Looks at every value of an array of int64, float64, string, binary, or lists of these.

    `are_texts` says whether numbers and lists may stand as texts.
    """
    values = len(array) - array.null_count
    if pa.types.is_null(array.type) or not values:
        return ColumnFacts()
    if are_texts and pa.types.is_string(array.type):
        lists = lists_of_texts(array)
        if lists is None:
            return _facts_of_texts(array, records)
        array = lists
    facts = ColumnFacts(values=values, bytes=array.nbytes, are_texts=are_texts)
    kind = array.type
    if pa.types.is_list(kind):
        facts.lists = values
        kind = kind.value_type
    if pa.types.is_null(kind):
        facts.values = 0  # empty lists say that there are lists, and no more
    elif pa.types.is_integer(kind):
        facts.numbers = values
    elif pa.types.is_floating(kind):
        facts.numbers, facts.has_floats = values, True
        facts.first_float = _place(array, array.is_valid(), records)
        facts.not_finite = not_finite(array, records)
        facts.overflow = _overflow(array, records)
        facts.rounded = _rounded(array, records)
    else:
        facts.first_text = _place(array, array.is_valid(), records)
    return facts


def _facts_of_texts(array: pa.Array, records: npt.NDArray[np.int64]) -> ColumnFacts:
    facts = ColumnFacts(values=len(array) - array.null_count, bytes=array.nbytes)
    facts.numbers = _count(pc.match_substring_regex(array, _LIKE_NUMBER))
    if not facts.numbers:
        facts.first_text = _place(array, array.is_valid(), records)
        return facts
    is_int = pc.match_substring_regex(array, _INT)
    ints = _count(is_int)
    is_number, floats = is_int, 0
    if ints < facts.values:
        is_float = pc.match_substring_regex(array, _FLOAT)
        is_number, floats = pc.or_(is_int, is_float), _count(is_float)
    if ints + floats < facts.values:  # else the common case, in as few looks as can be
        others = _count(pc.match_substring_regex(array, _DOUBTFUL))
        facts.has_doubtful = others > 0
        facts.has_codes = ints + floats + others < facts.numbers
        is_number = pc.match_substring_regex(array, _GIVEN_NUMBER)
        is_int = pc.match_substring_regex(array, _GIVEN_INT)
        facts.first_text = _place(array, pc.invert(is_number), records)
    facts.has_floats = floats > 0
    facts.first_float = _place(array, pc.and_(is_number, pc.invert(is_int)), records)
    shown, rows = array.filter(is_number), records[_flags(is_number)]
    numbers = numbers_of_texts(shown, pa.float64())
    facts.overflow = _overflow(numbers, rows, shown)
    if floats:
        is_long = pc.greater_equal(pc.binary_length(shown), len("16777217"))  # `1e30` is no id
        long, its_rows = numbers.filter(is_long), rows[_flags(is_long)]
        facts.rounded = _rounded(long, its_rows, shown.filter(is_long))
    facts.too_large = _too_large(array, is_int, records)
    facts.has_codes |= facts.too_large is not None
    return facts


def not_finite(array: pa.Array, records: npt.NDArray[np.int64]) -> Place | None:
    """The first of floats, or of lists of them, that is infinite or no number."""
    array, records = _flat(array, records)
    if not pa.types.is_floating(array.type):
        return None
    return _place(array, pc.invert(pc.is_finite(array)), records)


def _flat(
    array: pa.Array, records: npt.NDArray[np.int64]
) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The values of lists, each with its row; other values as they are."""
    if not pa.types.is_list(array.type):
        return array, records
    parents = pc.list_parent_indices(array).to_numpy(zero_copy_only=False)
    return array.flatten(), records[parents]


def _overflow(
    array: pa.Array, records: npt.NDArray[np.int64], shown: pa.Array | None = None
) -> Place | None:
    """The first of floats or lists of them that would become infinite; `shown` are their texts."""
    array, records = _flat(array, records)
    if shown is None:
        is_finite = pc.is_finite(array)
    else:
        is_finite = pc.invert(pc.match_substring_regex(shown, "[nN]"))  # `1e999` is read as inf
    is_too_large = pc.and_(pc.greater(pc.abs(array), _MOST_FLOAT), is_finite)
    return _place(array if shown is None else shown, is_too_large, records)


def _rounded(
    array: pa.Array, records: npt.NDArray[np.int64], shown: pa.Array | None = None
) -> Place | None:
    """The first whole number of floats, or of lists of them, that 32 bits hold as another."""
    array, records = _flat(array, records)
    if array.type != pa.float64():
        return None
    values = array.to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore", invalid="ignore"):
        is_other = np.isfinite(values) & (values == np.trunc(values))
        is_other &= values.astype(np.float32) != values
    return _place(array if shown is None else shown, pa.array(is_other), records)


def _flags(mask: pa.Array) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = pc.fill_null(mask, False).to_numpy(zero_copy_only=False)
    return flags


def _count(mask: pa.Array) -> int:
    return pc.sum(mask).as_py() or 0


def _too_large(array: pa.Array, is_int: pa.Array, records: npt.NDArray[np.int64]) -> Place | None:
    try:
        numbers_of_texts(array.filter(is_int), pa.int64())
    except pa.ArrowInvalid:
        outside = [
            value is not None and flag and not -(2**63) <= int(value) < 2**63
            for value, flag in zip(array.to_pylist(), is_int.to_pylist(), strict=True)
        ]
        return _place(array, pa.array(outside), records)
    return None


def _place(array: pa.Array, mask: pa.Array, records: npt.NDArray[np.int64]) -> Place | None:
    row = pc.index(mask, True).as_py()
    if row < 0:
        return None
    value = array[row].as_py()
    return int(records[row]), repr(value)[:_SHOWN]


def decide_column(
    name: str,
    facts: Sequence[tuple[Any, ColumnFacts]],
    *,
    given: str | None,
    is_text: bool,
    place: Callable[[Any, int], str],
) -> Column | None:
    """What a column is; None where no row has a value.

    Args:
        facts: of the pieces, each with what `place` knows it by.
        given: the kind that the user says, or None.
        is_text: whether it is the text of the examples, whatever stands in it.
        place: names a row, for messages.

    Raises:
        InputError: a value is not of the kind; the message names column and row.
    """
    values = sum(fact.values for _, fact in facts)
    numbers = sum(fact.numbers for _, fact in facts)
    if not values:
        return None
    is_list = any(fact.lists for _, fact in facts)
    # Texts that look like lists are lists only where all of them do.
    if is_list and all(f.are_texts for _, f in facts) and any(f.lists < f.values for _, f in facts):
        is_list, numbers = False, 0
    kind = "string" if is_text else given or _kind_by_values(facts, values, numbers)
    if kind in (None, "string", "text", "label"):
        for piece, fact in facts:
            if fact.not_finite is not None:
                row, value = fact.not_finite
                raise no_text(name, value, place(piece, row))
        is_label = kind == "label" or (kind is None and name.lower() in LABEL_NAMES)
        return Column(name, "label" if is_label else "string", is_list=is_list and not is_text)
    assert kind is not None
    texts = f"columns={{{name!r}: 'string'}}"
    of_all = f", as {numbers} of {values} rows have" if given is None else ""
    rule = f"{kind}{' in lists' if is_list else ''}{of_all}"
    cure = f"Mend it, or say what the column is: {texts}"
    if found := _first(facts, lambda fact: _wrong(fact, kind), place):
        raise InputError(f"column {name!r}: expected {rule}, got {found}. {cure}.")
    if kind == "float" and (found := _first(facts, lambda fact: fact.overflow, place)):
        rule = "numbers that a float of 32 bits holds, up to 3.4e38"
        raise InputError(f"column {name!r}: expected {rule}, got {found}. {cure}.")
    if kind == "float" and given is None:
        rounded = _first(facts, lambda fact: fact.rounded, place)  # as 123456789.0 of an id
        if rounded:
            logging.warning(
                "column %r: floats are stored in 32 bits, which round whole numbers above "
                "16777216: got %s. If they are ids, keep them as texts: %s",
                *(name, rounded, texts),
            )
    return Column(name, kind, is_list=is_list)


def _first(
    facts: Sequence[tuple[Any, ColumnFacts]],
    find: Callable[[ColumnFacts], Place | None],
    place: Callable[[Any, int], str],
) -> str | None:
    """The first value that is found in the pieces, and where."""
    found = ((piece, find(fact)) for piece, fact in facts)
    return next((f"{at[1]} ({place(piece, at[0])})" for piece, at in found if at), None)


def _kind_by_values(
    facts: Sequence[tuple[Any, ColumnFacts]], values: int, numbers: int
) -> str | None:
    """`int` or `float` where most values are numbers, None where they are not."""
    found = [fact for _, fact in facts]
    if 2 * numbers <= values or any(fact.has_codes for fact in found):
        return None  # one `08123` says what all of them are
    if any(fact.has_doubtful for fact in found) and not any(fact.has_floats for fact in found):
        return None
    return "float" if any(fact.first_float for _, fact in facts) else "int"


def _wrong(fact: ColumnFacts, kind: str) -> Place | None:
    if fact.first_text is not None:
        return fact.first_text
    return fact.too_large or fact.first_float if kind == "int" else None
