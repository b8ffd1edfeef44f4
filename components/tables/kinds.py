"""Finds out what columns hold, from every value of every piece.

A column is of ints where every value is one, of floats where every value is a number, of lists
where every value is one of these, else of texts; but a few words among numbers are an error, unless
they say that a value is missing, as `NA`.
A text is a number only where a program writes that number so: `08123`, `+5` and `1_000` are codes,
or may be, and one of them makes its column one of texts; so do `1e5`, `5.` and `nan` where no other
value is a float.
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

from components.common.advice import how_to_set
from components.common.entry import Column
from trainer_utils.format import ConfigError, InputError
from trainer_utils.format.errors import did_you_mean
from trainer_utils.format.json_text import Json

LABEL_NAMES = ("label", "labels", "class", "classes", "category", "categories")

# Numbers as programs write them: no zeros before them, no plus sign, no spaces.
_INT_TEXT = r"0|-?[1-9][0-9]*"
_FLOAT_TEXT = (
    r"-?(0|[1-9][0-9]*)\.[0-9]+([eE][+-]?[0-9]+)?"  # 0.5, 4.50, 1.5e-07, 1.0E5
    r"|-?(0|[1-9][0-9]*)[eE][+-][0-9]+"  # 1e-05
)
_STATA_TEXT = r"-?\.[0-9]+([eE][+-]?[0-9]+)?"  # .5, as Stata and SAS write it
# Floats beside such floats, else words and codes: `12e3` is the name of many things, `1.` numbers a
# list. Python writes nan and inf; others, JSON's writers among them, write NaN, Inf and Infinity.
_DOUBTFUL_TEXT = r"nan|NaN|-?(inf|Inf|Infinity)|-?(0|[1-9][0-9]*)(\.|[eE][0-9]+)"
_IN_LIST = re.compile(rf"{_INT_TEXT}|{_FLOAT_TEXT}|NaN|-?Infinity")  # the last two as JSON has them
EXACT = 2**53  # beyond it, a double may stand for an integer that it is not
_TYPES = {"int": pa.int64(), "float": pa.float32(), "string": pa.string(), "label": pa.string()}
# Perhaps among spaces: people write `5, 7` for `5,7`.
_INT = rf"^[ \t]*({_INT_TEXT})[ \t]*$"
_FLOAT = rf"^[ \t]*({_FLOAT_TEXT}|{_STATA_TEXT})[ \t]*$"
_DOUBTFUL = rf"^[ \t]*({_DOUBTFUL_TEXT})[ \t]*$"
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
# Words for a missing value that R, pandas, databases and Excel write among numbers.
MISSING_WORDS = ("NA", "N/A", "n/a", "#N/A", "<NA>", "NULL", "null", "None", r"\N")
_MISSING = rf"^\s*({'|'.join(map(re.escape, MISSING_WORDS))})?\s*$"  # a blank is one too
_MOST_FLOAT = float(np.finfo(np.float32).max)
_SHOWN = 60  # characters of a value in a message

Records = npt.NDArray[np.int64]  # the rows' numbers in their piece
Place = tuple[int, str]  # such a number, and the value as it stands there


@dataclasses.dataclass
class ColumnFacts:
    """What one piece's values of a column are."""

    values: int = 0  # how many there are; the others are missing
    numbers: int = 0  # how many are numbers, look like ones, or are lists of them
    missing: int = 0  # how many are words that among numbers stand for a missing value
    lists: int = 0
    are_texts: bool = False  # whether the lists stand as texts, and may be taken for these
    bytes: int = 0
    has_floats: bool = False  # whether one of the numbers is a float without doubt
    has_doubtful: bool = False  # whether a text is a float only beside others, as `nan` is
    has_codes: bool = False  # whether a text is like a number that is written in another way
    # the first of each: `float` is no int, `text` no number, `too_large` an int that 64 bits do not
    # hold; `not_finite` is a number, no text; `overflow` a finite number that a float of 32 bits
    # does not hold, `rounded` a whole one that it changes
    first: dict[str, Place] = dataclasses.field(default_factory=dict)

    def note(self, what: str, array: pa.Array, mask: pa.Array, records: Records) -> None:
        """Keeps the first value that a mask has."""
        row = pc.index(mask, True).as_py()
        if row >= 0:
            self.first[what] = int(records[row]), repr(array[row].as_py())[:_SHOWN]


def check_columns(given: Mapping[str, str], names: Collection[str], *, of: str) -> None:
    """Refuses kinds that are given for columns that `of` lacks; ignored ones may be gone."""
    for name, kind in given.items():
        if name not in names and kind != "ignore":
            allowed, meant = f"columns of {of} ({', '.join(names)})", did_you_mean(name, names)
            raise ConfigError.of("columns", name, allowed=allowed, advice=meant.strip())


def column_facts(array: pa.Array, records: Records, *, are_texts: bool) -> ColumnFacts:
    """Looks at every value of an array of int64, float64, string, binary, or lists of these.

    `are_texts` says whether numbers and lists may stand as texts.
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
        facts.values = 0  # empty lists say that there are lists, and no more
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        facts.numbers, facts.has_floats = values, pa.types.is_floating(kind)
    else:
        facts.note("text", array, array.is_valid(), records)
    if facts.has_floats:
        facts.note("float", array, array.is_valid(), records)
        numbers, rows = array, records
        if facts.lists:
            parents = pc.list_parent_indices(array).to_numpy(zero_copy_only=False)
            numbers, rows = array.flatten(), records[parents]
        are_finite = pc.is_finite(numbers)
        facts.note("not_finite", numbers, pc.invert(are_finite), rows)
        _note_sizes(facts, numbers, numbers, are_finite, rows)
    return facts


def _facts_of_texts(array: pa.Array, records: Records) -> ColumnFacts:
    facts = ColumnFacts(values=len(array) - array.null_count, bytes=array.nbytes)
    facts.numbers = _count(pc.match_substring_regex(array, _LIKE_NUMBER))
    if not facts.numbers:
        is_missing = pc.match_substring_regex(array, _MISSING)
        facts.missing = _count(is_missing)
        facts.note("text", array, pc.invert(is_missing), records)
        return facts
    is_int = is_number = pc.match_substring_regex(array, _INT)
    ints, floats = _count(is_int), 0
    if ints < facts.values:
        is_float = pc.match_substring_regex(array, _FLOAT)
        is_number, floats = pc.or_(is_int, is_float), _count(is_float)
    if ints + floats < facts.values:  # else the common case, in as few looks as can be
        others = _count(pc.match_substring_regex(array, _DOUBTFUL))
        facts.has_doubtful = others > 0
        facts.has_codes = ints + floats + others < facts.numbers
        is_number = pc.match_substring_regex(array, _GIVEN_NUMBER)
        is_int = pc.match_substring_regex(array, _GIVEN_INT)
        is_missing = pc.match_substring_regex(array, _MISSING)
        facts.missing = _count(is_missing)
        facts.note("text", array, pc.invert(pc.or_(is_number, is_missing)), records)
    facts.has_floats = floats > 0
    facts.note("float", array, pc.and_(is_number, pc.invert(is_int)), records)
    shown, rows = array.filter(is_number), records[_flags(is_number)]
    are_finite = pc.invert(pc.match_substring_regex(shown, "[nN]"))  # `1e999` is read as inf
    numbers = numbers_of_texts(shown, pa.float64())
    _note_sizes(facts, shown, numbers, are_finite, rows)
    try:
        numbers_of_texts(array.filter(is_int), pa.int64())
    except pa.ArrowInvalid:  # an int past 64 bits: no double that stands for it is smaller
        facts.note("too_large", shown, pc.greater_equal(pc.abs(numbers), 2.0**63), rows)
        facts.has_codes = True
    return facts


def not_finite(array: pa.Array, records: Records) -> Place | None:
    """The first of floats, or of lists of them, that is infinite or no number."""
    return column_facts(array, records, are_texts=False).first.get("not_finite")


def _note_sizes(
    facts: ColumnFacts, shown: pa.Array, numbers: pa.Array, are_finite: pa.Array, records: Records
) -> None:
    """Notes a finite number that 32 bits cannot hold, and a whole one that they change."""
    are_large = pc.and_(pc.greater(pc.abs(numbers), _MOST_FLOAT), are_finite)
    facts.note("overflow", shown, are_large, records)
    if not facts.has_floats:
        return
    values = numbers.to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore", invalid="ignore"):
        is_other = np.isfinite(values) & (values == np.trunc(values))
        is_other &= values.astype(np.float32) != values
    if pa.types.is_string(shown.type):  # `1e30` is no id
        is_other &= _flags(pc.greater_equal(pc.binary_length(shown), len("16777217")))
    facts.note("rounded", shown, pa.array(is_other), records)


def _flags(mask: pa.Array) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = pc.fill_null(mask, False).to_numpy(zero_copy_only=False)
    return flags


def _count(mask: pa.Array) -> int:
    return pc.sum(mask).as_py() or 0


def decide_column(
    name: str,
    facts: Sequence[tuple[Any, ColumnFacts]],
    *,
    given: str | None,
    is_text: bool,
    place: Callable[[Any, int], str],
) -> Column | None:
    """What a column is, by the facts of its pieces; None where no row has a value.

    A value that is not of the kind that is `given`, or that most are, is an `InputError` with its
    place. `is_text`: it is the text of the examples, whatever stands in it.
    """
    found = [fact for _, fact in facts]
    values, numbers = sum(fact.values for fact in found), sum(fact.numbers for fact in found)
    if not values:
        return None
    missing = sum(fact.missing for fact in found)
    is_list = any(fact.lists for fact in found)
    # Texts that look like lists are lists only where all of them do.
    if is_list and all(f.are_texts for f in found) and any(f.lists < f.values for f in found):
        is_list, numbers = False, 0
    given = "string" if given == "json" else given
    kind = "string" if is_text else given or _kind_by_values(found, values - missing, numbers)
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
    of_all = f", as {numbers} of {values - missing} rows have" if given is None else ""
    of_kind = f"{kind}{' in lists' if is_list else ''}{of_all}"
    texts = how_to_set(columns={name: "string"})
    in_32_bits = "numbers that a float of 32 bits holds, up to 3.4e38"
    rules = {"text": of_kind, "overflow": in_32_bits}
    if kind == "int":
        rules = dict.fromkeys(("text", "too_large", "float"), of_kind)
    for what, rule in rules.items():
        if wrong := first(what):
            cure = f"Mend it, or say what the column is: {texts}"
            raise InputError(f"column {name!r}: expected {rule}, got {wrong}. {cure}.")
    if missing:
        logging.warning(
            "column %r: blanks, NA and the like are taken for missing values (%d of %d rows). If "
            "they are words, keep them: %s",
            *(name, missing, values, texts),
        )
    if kind == "float" and given is None and (wrong := first("rounded")):  # as 123456789.0 of an id
        logging.warning(
            "column %r: floats are stored in 32 bits, which round whole numbers above "
            "16777216: got %s. If they are ids, keep them as texts: %s",
            *(name, wrong, texts),
        )
    return Column(name, kind, is_list=is_list)


def _kind_by_values(found: Sequence[ColumnFacts], values: int, numbers: int) -> str | None:
    """`int` or `float` where most values are numbers, None where they are not."""
    if 2 * numbers <= values or any(fact.has_codes for fact in found):
        return None  # one `08123` says what all of them are
    if any(fact.has_doubtful for fact in found) and not any(fact.has_floats for fact in found):
        return None
    return "float" if any("float" in fact.first for fact in found) else "int"


# Values of the type that was decided --------------------------------------------------------------


def cast_column(array: pa.Array, column: Column, *, floats: pa.Array | None = None) -> pa.Array:
    """Casts a column of a piece to the type that was decided; labels stay texts.

    Returns an Arrow array of int64, float (of 32 bits unless `floats` is another type of Arrow),
    string or binary, or of lists of these.
    """
    kind = floats if floats is not None and column.kind == "float" else _TYPES[column.kind]
    if not column.is_list:
        return _scalars(array, kind)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.list_(kind))
    if pa.types.is_string(array.type) and (lists := lists_of_texts(array)) is not None:
        array = lists
    if pa.types.is_list(array.type):
        lengths, values = pc.fill_null(pc.list_value_length(array), 0), array.flatten()
    else:  # each is a list of one
        lengths, values = array.is_valid(), array.drop_null()
    offsets = np.cumsum(np.insert(lengths.to_numpy(zero_copy_only=False), 0, 0), dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), _scalars(values, kind))


def _scalars(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind or (pa.types.is_binary(array.type) and pa.types.is_string(kind)):
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    if pa.types.is_string(kind):
        return texts_of(array)
    if pa.types.is_string(array.type):
        return numbers_of_texts(array, kind)
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
        f"{how_to_set(columns={name: 'ignore'})}."
    )


def text_of_number(value: float | str) -> str:
    """The text that stands for a number among texts: `1` of 1, 1.0 and True; a text is its own.

    Which of these it was is forgotten where all other values of a piece are numbers.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(int(value))
    return str(int(value)) if value.is_integer() and abs(value) < EXACT else str(value)


def numbers_of_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Numbers of texts that are such, perhaps with spaces or a plus sign; null of missing ones."""
    wide = pa.float64() if pa.types.is_floating(kind) else kind
    try:
        numbers = texts.cast(wide)
    except pa.ArrowInvalid:
        is_missing = pc.match_substring_regex(texts, _MISSING)
        texts = pc.if_else(is_missing, pa.scalar(None, texts.type), texts)
        plain = pc.utf8_ltrim(pc.utf8_trim_whitespace(texts), "+")
        numbers = plain.cast(wide)
    return numbers.cast(kind, safe=False)


def lists_of_texts(array: pa.Array) -> pa.Array:
    """Texts such as `[1, 2]` as lists, where every value is such; else None."""
    if not pc.all(pc.starts_with(array, "[")).as_py():
        return None
    lists = [None if text is None else _list_of_text(text) for text in array.to_pylist()]
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
