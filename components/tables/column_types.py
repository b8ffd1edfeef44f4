"""Infer the type of each column from every value of every piece.

A column has type int if every value is an integer, and float if every value is a number. It has
lists if every value is a list of these. Otherwise it has type string. A few words among numbers
are an error, unless they mark a missing value, such as `NA`.

A string counts as a number only in the form that programs write. `08123`, `+5` and `1_000` may be
codes: one of them makes the column a string column. So do `1e5`, `5.` and `nan` if no other value
is a float.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from absl import logging

from components.inputs.advice import how_to_set
from components.inputs.arrow_columns import int_array, string_array, to_numpy
from components.inputs.input_table import Column
from trainer_utils.core.errors import ConfigError, InputError, did_you_mean
from trainer_utils.core.json_text import Json

LABEL_NAMES = ("label", "labels", "class", "classes", "category", "categories")

# Numbers as programs write them: without leading zeros, plus signs or spaces.
_INT_TEXT = r"0|-?[1-9][0-9]*"
_FLOAT_TEXT = (
    r"-?(0|[1-9][0-9]*)\.[0-9]+([eE][+-]?[0-9]+)?"  # 0.5, 4.50, 1.5e-07, 1.0E5
    r"|-?(0|[1-9][0-9]*)[eE][+-][0-9]+"  # 1e-05
)
_STATA_TEXT = r"-?\.[0-9]+([eE][+-]?[0-9]+)?"  # .5, as Stata and SAS write it
# Floats if the column has clear floats, else words and codes: `12e3` can be a name, and `1.` can
# number a list. Python writes nan and inf. Others, such as JSON writers, write NaN and Infinity.
_DOUBTFUL_TEXT = r"nan|NaN|-?(inf|Inf|Infinity)|-?(0|[1-9][0-9]*)(\.|[eE][0-9]+)"
_IN_LIST = re.compile(rf"{_INT_TEXT}|{_FLOAT_TEXT}|NaN|-?Infinity")  # the last two: Python's JSON
EXACT = 2**53  # doubles above it cannot represent every integer
_TYPES = {"int": pa.int64(), "float": pa.float32(), "string": pa.string(), "label": pa.string()}
# Spaces are allowed around numbers: people write `5, 7` for `5,7`.
_INT = rf"^[ \t]*({_INT_TEXT})[ \t]*$"
_FLOAT = rf"^[ \t]*({_FLOAT_TEXT}|{_STATA_TEXT})[ \t]*$"
_DOUBTFUL = rf"^[ \t]*({_DOUBTFUL_TEXT})[ \t]*$"
# The forms that are accepted if the user declares a column of numbers.
_GIVEN_INT = r"^\s*[+-]?[0-9]+\s*$"
_GIVEN_NUMBER = (
    r"^\s*[+-]?([0-9]+\.?[0-9]*([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?"
    r"|[nN][aA][nN]|[iI][nN][fF]([iI][nN][iI][tT][yY])?)\s*$"
)
# A number, or a code that looks like one: digits of any script, with points, commas, signs or
# underscores. Anything else among numbers is a mistake.
_LIKE_NUMBER = (
    r"^[\s\pZ]*([+-]?([nN][aA][nN]|[iI][nN][fF]([iI][nN][iI][tT][yY])?|0[xXoObB][0-9a-fA-F]+"
    r"|[\p{Nd}_.,+-]*\p{Nd}[\p{Nd}_.,+-]*([eE][+-]?\p{Nd}+)?))[\s\pZ]*$"
)
# Words for a missing value that R, pandas, databases and Excel write among numbers.
MISSING_WORDS = ("NA", "N/A", "n/a", "#N/A", "<NA>", "NULL", "null", "None", r"\N")
_MISSING = rf"^\s*({'|'.join(map(re.escape, MISSING_WORDS))})?\s*$"  # or blank
_MAX_FLOAT = float(np.finfo(np.float32).max)
_SHOWN = 60  # characters of a value in a message

Records = npt.NDArray[np.int64]  # the numbers of rows in their piece
Place = tuple[int, str]  # the number of a row, and its value as a string


@dataclasses.dataclass
class ColumnFacts:
    """The facts about a column's values in one piece."""

    values: int = 0  # number of values that are not null
    numbers: int = 0  # number of values that are numbers, look like numbers, or are lists of them
    missing: int = 0  # number of values that mean a missing value in a column of numbers
    lists: int = 0  # number of values that are lists
    are_texts: bool = False  # whether the lists are strings in the file, and may stay strings
    bytes: int = 0  # size of the Arrow array
    has_floats: bool = False  # whether a number is clearly a float
    has_doubtful: bool = False  # whether a string is a float only among other floats, like `nan`
    has_codes: bool = False  # whether a string looks like a number but may be a code, like `08123`
    # The first value of each kind: `float` is not an int, `text` is not a number, and `too_large`
    # is an int of more than 64 bits. `not_finite` is an infinite or NaN float that is not a string.
    # `overflow` is finite but too large for a 32-bit float. `rounded` is a whole number that a
    # 32-bit float would change.
    first: dict[str, Place] = dataclasses.field(default_factory=dict)

    def note(
        self, what: str, array: pa.Array, mask: npt.NDArray[np.bool_], records: Records
    ) -> None:
        """Record the first value that a mask selects.

        Args:
            what: the key in `first`.
            array: the values.
            mask: the mask of the values.
            records: the row number of each value.
        """
        if mask.any():
            row = int(mask.argmax())
            self.first[what] = int(records[row]), repr(array[row].as_py())[:_SHOWN]


def check_columns(given: Mapping[str, str], names: Collection[str], *, of: str) -> None:
    """Raise a ConfigError if a kind is given for a column that is not there.

    Ignored columns may be absent.

    Args:
        given: the kinds that the user sets, by column.
        names: the columns of the table.
        of: the table, for the message.
    """
    for name, kind in given.items():
        if name not in names and kind != "ignore":
            allowed, meant = f"columns of {of} ({', '.join(names)})", did_you_mean(name, names)
            raise ConfigError.of("columns", name, allowed=allowed, advice=meant.strip())


def column_facts(array: pa.Array, records: Records, *, are_texts: bool) -> ColumnFacts:
    """Return the facts about an array of int64, float64, string, binary, or lists of these.

    Args:
        array: the values of a column in one piece.
        records: the row number of each value.
        are_texts: whether numbers and lists may be written as strings, as in a CSV.
    """
    values = len(array) - array.null_count
    if not values:
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
        facts.values = 0  # empty lists do not show the type of their elements
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        facts.numbers, facts.has_floats = values, pa.types.is_floating(kind)
    else:
        facts.note("text", array, to_numpy(pc.is_valid(array)), records)
    if facts.has_floats:
        facts.note("float", array, to_numpy(pc.is_valid(array)), records)
        numbers, rows = array, records
        if facts.lists:
            parents = to_numpy(pc.list_parent_indices(array))
            numbers, rows = pc.list_flatten(array), records[parents]
        is_finite = pc.is_finite(numbers)
        facts.note("not_finite", numbers, _flags(pc.invert(is_finite)), rows)
        _note_sizes(facts, numbers, numbers, _flags(is_finite), rows)
    return facts


def _facts_of_texts(array: pa.Array, records: Records) -> ColumnFacts:
    """Return the facts of a column of strings: how many look like numbers, and which do not."""
    facts = ColumnFacts(values=len(array) - array.null_count, bytes=array.nbytes)
    facts.numbers = _count(pc.match_substring_regex(array, _LIKE_NUMBER))
    if not facts.numbers:
        is_missing = pc.match_substring_regex(array, _MISSING)
        facts.missing = _count(is_missing)
        facts.note("text", array, _flags(pc.invert(is_missing)), records)
        return facts
    is_int = is_number = pc.match_substring_regex(array, _INT)
    ints, floats = _count(is_int), 0
    if ints < facts.values:
        is_float = pc.match_substring_regex(array, _FLOAT)
        is_number, floats = pc.or_(is_int, is_float), _count(is_float)
    if ints + floats < facts.values:  # otherwise, the common case, two regular expressions suffice
        others = _count(pc.match_substring_regex(array, _DOUBTFUL))
        facts.has_doubtful = others > 0
        facts.has_codes = ints + floats + others < facts.numbers
        is_number = pc.match_substring_regex(array, _GIVEN_NUMBER)
        is_int = pc.match_substring_regex(array, _GIVEN_INT)
        is_missing = pc.match_substring_regex(array, _MISSING)
        facts.missing = _count(is_missing)
        facts.note("text", array, _flags(pc.invert(pc.or_(is_number, is_missing))), records)
    facts.has_floats = floats > 0
    facts.note("float", array, _flags(pc.and_(is_number, pc.invert(is_int))), records)
    shown, rows = pc.filter(array, is_number), records[_flags(is_number)]
    is_finite = pc.invert(pc.match_substring_regex(shown, "[nN]"))  # `1e999` is read as inf
    numbers = numbers_of_texts(shown, pa.float64())
    _note_sizes(facts, shown, numbers, _flags(is_finite), rows)
    try:
        numbers_of_texts(pc.filter(array, is_int), pa.int64())
    except pa.ArrowInvalid:  # an int of more than 64 bits: as a double it is at least 2**63
        facts.note("too_large", shown, np.abs(to_numpy(numbers, null=np.nan)) >= 2.0**63, rows)
        facts.has_codes = True
    return facts


def not_finite(array: pa.Array, records: Records) -> Place | None:
    """Return the first infinite or NaN value of floats or lists of floats, or None."""
    return column_facts(array, records, are_texts=False).first.get("not_finite")


def _note_sizes(
    facts: ColumnFacts,
    shown: pa.Array,
    numbers: pa.Array,
    is_finite: npt.NDArray[np.bool_],
    records: Records,
) -> None:
    """Note the first finite number that overflows float32, and the first whole one it rounds."""
    values = to_numpy(numbers, null=np.nan)
    facts.note("overflow", shown, (np.abs(values) > _MAX_FLOAT) & is_finite, records)
    if not facts.has_floats:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        is_other = np.isfinite(values) & (values == np.trunc(values))
        is_other &= values.astype(np.float32) != values
    if pa.types.is_string(shown.type):  # ids are written out: `1e30` is not an id
        is_other &= to_numpy(pc.binary_length(shown)) >= len("16777217")
    facts.note("rounded", shown, is_other, records)


def _flags(mask: pa.Array) -> npt.NDArray[np.bool_]:
    return to_numpy(mask, null=False)


def _count(mask: pa.Array) -> int:
    return pc.sum(mask).as_py() or 0


def decide_column(
    name: str,
    facts: Sequence[tuple[Any, ColumnFacts]],
    *,
    declared: str | None,
    is_text: bool,
    place: Callable[[Any, int], str],
) -> Column | None:
    """Decide the type of a column from the facts of its pieces.

    Args:
        name: the column.
        facts: the pieces, each with its facts.
        declared: the kind that the user sets, or None.
        is_text: whether the column is a text column, which stays a string column.
        place: returns the place of a row of a piece, for messages.

    Returns:
        The column, or None if no row has a value.

    Raises:
        InputError: a value is not of the given kind, or of the kind that most values have.
    """
    column_facts = [fact for _, fact in facts]
    values = sum(fact.values for fact in column_facts)
    numbers = sum(fact.numbers for fact in column_facts)
    if not values:
        return None
    missing = sum(fact.missing for fact in column_facts)
    is_list = any(fact.lists for fact in column_facts)
    are_strings = all(fact.are_texts for fact in column_facts)
    if is_list and are_strings and any(fact.lists < fact.values for fact in column_facts):
        # Strings that look like lists are lists only if all of them do.
        is_list, numbers = False, 0
    declared = "string" if declared == "json" else declared
    if is_text:
        kind: str | None = "string"
    else:
        kind = declared or _kind_by_values(column_facts, values - missing, numbers)
    if kind in (None, "string", "text", "label"):
        for piece, fact in facts:
            if "not_finite" in fact.first:
                row, value = fact.first["not_finite"]
                raise no_text(name, value, place(piece, row))
        is_label = kind == "label" or (kind is None and name.lower() in LABEL_NAMES)
        return Column(name, "label" if is_label else "string", is_list=is_list and not is_text)

    def first(what: str) -> str | None:
        places = ((piece, fact.first.get(what)) for piece, fact in facts)
        return next((f"{at[1]} ({place(piece, at[0])})" for piece, at in places if at), None)

    assert kind is not None
    of_all = f", as {numbers} of {values - missing} rows have" if declared is None else ""
    of_kind = f"{kind}{' in lists' if is_list else ''}{of_all}"
    texts = how_to_set(columns={name: "string"})
    in_32_bits = "numbers that fit into a 32-bit float, up to 3.4e38"
    rules = {"text": of_kind, "overflow": in_32_bits}
    if kind == "int":
        rules = dict.fromkeys(("text", "too_large", "float"), of_kind)
    for what, rule in rules.items():
        if wrong := first(what):
            cure = f"Fix it, or set the column's kind: {texts}"
            raise InputError(f"column {name!r}: expected {rule}, got {wrong}. {cure}.")
    if missing:
        logging.warning(
            "column %r: blanks, NA and similar words are read as missing values (%d of %d rows). "
            "If they are words, keep them: %s",
            *(name, missing, values, texts),
        )
    if kind == "float" and declared is None and (wrong := first("rounded")):  # an id: 123456789.0
        logging.warning(
            "column %r: floats are stored in 32 bits, which rounds whole numbers above "
            "16777216: got %s. If they are ids, keep them as strings: %s",
            *(name, wrong, texts),
        )
    return Column(name, kind, is_list=is_list)


def _kind_by_values(column_facts: Sequence[ColumnFacts], values: int, numbers: int) -> str | None:
    """Return `int` or `float` if most values are numbers, else None."""
    if 2 * numbers <= values or any(fact.has_codes for fact in column_facts):
        return None  # a single `08123` shows that all of them are codes
    if any(fact.has_doubtful for fact in column_facts) and not any(
        fact.has_floats for fact in column_facts
    ):
        return None
    return "float" if any("float" in fact.first for fact in column_facts) else "int"


# Conversion to the type of a column ---------------------------------------------------------------


def cast_column(array: pa.Array, column: Column, *, floats: pa.Array | None = None) -> pa.Array:
    """Cast the values of a piece to the type of their column; labels stay strings.

    Args:
        array: the values.
        column: the column, as `decide_column` returns it.
        floats: the Arrow type for floats. Default: float32.

    Returns:
        An Arrow array of int64, float, string or binary, or of lists of these.
    """
    kind = floats if floats is not None and column.kind == "float" else _TYPES[column.kind]
    if not column.is_list:
        return _scalars(array, kind)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.list_(kind))
    if pa.types.is_string(array.type) and (lists := lists_of_texts(array)) is not None:
        array = lists
    if pa.types.is_list(array.type):
        lengths = to_numpy(pc.list_value_length(array), null=0)
        values = pc.list_flatten(array)
    else:  # each value becomes a list of one
        lengths, values = to_numpy(pc.is_valid(array)), pc.drop_null(array)
    offsets = pc.cast(int_array(np.cumsum(np.insert(lengths, 0, 0), dtype=np.int64)), pa.int32())
    return pa.ListArray.from_arrays(offsets, _scalars(values, kind))


def _scalars(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind or (pa.types.is_binary(array.type) and pa.types.is_string(kind)):
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    if pa.types.is_string(kind):
        return as_strings(array)
    if pa.types.is_string(array.type):
        return numbers_of_texts(array, kind)
    if pa.types.is_integer(array.type) and pa.types.is_floating(kind):
        array = pc.cast(array, pa.float64(), safe=False)
    return pc.cast(array, kind, safe=False)


def as_strings(array: pa.Array) -> pa.Array:
    """Return values as strings; floats become strings as in `text_of_number`."""
    if pa.types.is_floating(array.type):
        texts = [None if value is None else text_of_number(value) for value in array.to_pylist()]
        return string_array(texts)
    return pc.cast(array, pa.string())


def no_text(name: str, value: object, place: str) -> InputError:
    """Return the error for a `nan` or `inf` among strings, which has no string in JSON."""
    return InputError(
        f"column {name!r}: expected strings, or numbers that JSON has, got {value} among strings "
        f"({place}). Write null for a missing string, or leave the column out: "
        f"{how_to_set(columns={name: 'ignore'})}."
    )


def text_of_number(value: float | str) -> str:
    """Return the string for a number among strings: `1` for 1, 1.0 and True.

    These have to be equal, because a piece with nothing but numbers does not keep the difference.
    A string is returned unchanged.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(int(value))
    return str(int(value)) if value.is_integer() and abs(value) < EXACT else str(value)


def numbers_of_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parse strings as numbers, with optional spaces and plus signs; missing values become null.

    Args:
        texts: the strings; each is a number or marks a missing value.
        kind: the Arrow type of the result.

    Raises:
        pa.ArrowInvalid: a string is not a number, or does not fit into 64 bits.
    """
    wide = pa.float64() if pa.types.is_floating(kind) else kind
    try:
        numbers = pc.cast(texts, wide)
    except pa.ArrowInvalid:
        is_missing = pc.match_substring_regex(texts, _MISSING)
        texts = pc.if_else(is_missing, pa.nulls(1, texts.type)[0], texts)
        plain = pc.utf8_ltrim(pc.utf8_trim_whitespace(texts), "+")
        numbers = pc.cast(plain, wide)
    return pc.cast(numbers, kind, safe=False)


def lists_of_texts(array: pa.Array) -> pa.Array:
    """Parse strings such as `[1, 2]` as lists if every value is one; return None otherwise."""
    if not pc.all(pc.starts_with(array, "[")).as_py():
        return None
    lists = [None if text is None else list_of_text(text) for text in array.to_pylist()]
    if lists.count(None) > array.null_count:
        return None
    kinds = {type(part) for value in lists for part in value or ()}
    if str in kinds and len(kinds) > 1:
        return None
    kind = pa.string() if str in kinds else pa.float64() if float in kinds else pa.int64()
    try:
        return pa.array(lists, pa.list_(kind if kinds else pa.null()))
    except (pa.ArrowInvalid, OverflowError):
        return None


def list_of_text(text: str) -> list[Json] | None:
    """Parse a JSON list of strings, or of numbers as programs write them; else return None."""
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
