"""The type of a column is inferred from all of its values."""

import csv
import io
import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.inputs.input_table import Column
from components.tables.column_types import ColumnFacts, cast_column, column_facts, decide_column
from tests.components.tables.table_files import in_order, numbered
from tests.make import table
from trainer_utils.core.errors import InputError


def decide_alone(facts: ColumnFacts) -> Column | None:
    """Return the column of one piece, whose kind follows from its values."""
    return decide_column("x", [(0, facts)], declared=None, is_text=False, place=lambda *_: "")


def check_columns(rows: dict[str, Any], columns: dict[str, tuple[list[Any], list[Any]]]) -> None:
    """Assert that the columns have the expected values and types; 1 and 1.0 differ."""
    found = {
        name: [row.get(name) for row in list(rows.values())[: len(expected)]]
        for name, (_, expected) in columns.items()
    }
    assert repr(found) == repr({name: expected for name, (_, expected) in columns.items()})


def as_rows(columns: dict[str, tuple[list[Any], list[Any]]]) -> list[dict[str, Any]]:
    """Return columns as rows, with short columns padded by None."""
    count = max(len(values) for values, _ in columns.values())
    padded = {
        name: [*values, *[None] * (count - len(values))] for name, (values, _) in columns.items()
    }
    return [{"n": row} | {name: padded[name][row] for name in padded} for row in range(count)]


TINY = float(np.float32(1e-5))
TEXT_COLUMNS: dict[str, tuple[list[str], list[Any]]] = {
    "ints": (["1", "-2", "0", "40"], [[1], [-2], [0], [40]]),
    "wide": (["9223372036854775807", "-9223372036854775808"], [[2**63 - 1], [-(2**63)]]),
    "exact": (["9007199254740993", "1"], [[2**53 + 1], [1]]),
    "late float": (["1", "2", "3", "2.5"], [[1.0], [2.0], [3.0], [2.5]]),
    "floats": (["1", "1e3", "-0.50", "1e-05"], [[1.0], [1000.0], [-0.5], [TINY]]),
    "of Stata": ([".5", "-.25", "3", ""], [[0.5], [-0.25], [3.0], None]),
    "of Fortran": (["1.5", "2.", "-.5e-1"], [[1.5], [2.0], [float(np.float32(-0.05))]]),
    "spaced": ([" 39", "7 ", "\t5"], [[39], [7], [5]]),
    "spaced floats": (
        [" 39", " .5 ", "1e3 ", "  ", "nan "],
        [[39.0], [0.5], [1e3], None, [np.nan]],
    ),
    "blanks among words": (["a", " ", "7"], [[b"a"], [b" "], [b"7"]]),
    "infinite": (["1.5", "inf", "-inf"], [[1.5], [float("inf")], [float("-inf")]]),
    "infinite in words": (["1.5", "Infinity", "-Inf"], [[1.5], [float("inf")], [float("-inf")]]),
    "too wide for ints": (["9223372036854775808", "0.5"], [[b"9223372036854775808"], [b"0.5"]]),
    "too long for Python": (["9" * 5000, "1"], [[b"9" * 5000], [b"1"]]),
    "words": (["a", "2", "b"], [[b"a"], [b"2"], [b"b"]]),
    "int lists": (["[1, 2]", "[]", "[-3]"], [[1, 2], None, [-3]]),
    "float lists": (["[1, 2.5]", "[3]"], [[1.0, 2.5], [3.0]]),
    "almost lists": (["[1", "[2]"], [[b"[1"], [b"[2]"]]),
    "text lists": (['["a", "b"]', '["c"]'], [[b"a", b"b"], [b"c"]]),
    "times": (["2020-01-02", "2020-01-02 03:04"], [[b"2020-01-02"], [b"2020-01-02 03:04"]]),
    "booleans": (["true", "False"], [[b"true"], [b"False"]]),
}


@pytest.mark.parametrize("layout", ["csv", "json"])
def test_type_of_a_string_column_fits_all_values(convert, layout):
    rows = as_rows(TEXT_COLUMNS)
    keyed = json.dumps({number: {"label": row} for number, row in enumerate(rows)})
    data = table(rows, "csv") if layout == "csv" else keyed
    check_columns(in_order(convert({f"t.{layout}": data}).by_id()), TEXT_COLUMNS)


# Strings that some parser accepts as numbers, but that no program writes for a number.
CODES = [
    *("08123", "007", "-01", "00", "+5", " +5 ", "\u00a05", "1_000", "1,000", "0x10", "0b1"),
    *("1e5", "12E3", "nan", "NaN", "inf", "Infinity", "-0", "5.", "+.5", "+0.5", "00.5", "1.2.3"),
    *("9223372036854775808", "-9223372036854775809", "\uff11\uff12", "\u0663"),
    *("555-1234", "2020-01-02"),
]


@pytest.mark.parametrize("layout", ["csv", "tsv", "jsonl", "json", "parquet"])
def test_one_code_makes_the_whole_column_strings(convert, layout):
    """Put each code into a separate column, among numbers."""
    columns = {f"x{index}": ["12", code, "7", "-40"] for index, code in enumerate(CODES)}
    names = ["m", *columns]
    rows = [
        dict(zip(names, row, strict=True))
        for row in zip(range(1, 5), *columns.values(), strict=True)
    ]
    data = {
        "csv": table(rows, "csv", quoting=csv.QUOTE_ALL),
        "tsv": table(rows, "csv", delimiter="\t"),
        "jsonl": table(rows, "jsonl"),
        "json": json.dumps(rows),
        "parquet": table(rows, "parquet"),
    }[layout]
    dataset = convert({f"t.{layout}": data})
    expected = {
        row["m"]: {"m": [row["m"]], **{name: [row[name].encode()] for name in columns}}
        for row in rows
    }
    assert dataset.by_id() == numbered(f"t.{layout}", expected)
    kinds = {code: dataset.features[name]["type"] for name, (_, code, *_) in columns.items()}
    assert kinds == dict.fromkeys(CODES, "string")


# Columns that Arrow reads with the right type or a similar one.
JSON_COLUMNS: dict[str, tuple[list[Any], list[Any]]] = {
    "mixed numbers": ([1, 2.5], [[1.0], [2.5]]),
    "exact": ([2**53 + 1, -(2**53) - 1], [[2**53 + 1], [-(2**53) - 1]]),
    "wide": ([2**63 - 1, -(2**63)], [[2**63 - 1], [-(2**63)]]),
    "booleans": ([True, False, None], [[1], [0], None]),
    "boolean lists": ([[True, False], []], [[1, 0], None]),
    "days": (["2020-01-02", "2021-12-31"], [[b"2020-01-02"], [b"2021-12-31"]]),
    "times": (["2020-01-02T03:04:05", None], [[b"2020-01-02T03:04:05"], None]),
    "spaced": (["2020-01-02 03:04:05.678Z"], [[b"2020-01-02 03:04:05.678Z"]]),
    "lists of days": ([["2020-01-02"], []], [[b"2020-01-02"], None]),
    "texts of digits": (["1", "2"], [[b"1"], [b"2"]]),
    "texts like lists": (["[1]", "[2]"], [[b"[1]"], [b"[2]"]]),
    "late list": ([[], [1]], [None, [1]]),
    "late number": ([None, None, 3], [None, None, [3]]),
    "escapes": (["\U0001f600", "é", '"\\\n'], [["😀".encode()], ["é".encode()], [b'"\\\n']]),
}
# Columns that Arrow cannot read, or not exactly.
MIXED_COLUMNS: dict[str, tuple[list[Any], list[Any]]] = {
    "number first": ([1, "a"], [[b"1"], [b"a"]]),
    "text first": (["a", 1.5], [[b"a"], [b"1.5"]]),
    "list first": ([[1], 2], [[1], [2]]),
    "large int among floats": ([[1, 2.5], [2**60]], [[1.0, 2.5], [2.0**60]]),
    "nearly past 32 bits": ([3.4e38, 0.5], [[float(np.float32(3.4e38))], [0.5]]),
    "nul": (["\0", "a\u0000b"], [[b"\0"], [b"a\0b"]]),
    "infinite": ([float("inf"), -float("inf")], [[float("inf")], [-float("inf")]]),
}


def test_type_of_a_json_field_fits_all_values(convert):
    for columns, end in (
        (JSON_COLUMNS, "\n"),
        (JSON_COLUMNS, "\n\n"),  # blank lines, so that Arrow's result is not used
        *(({name: column}, "\n") for name, column in MIXED_COLUMNS.items()),
        (JSON_COLUMNS | MIXED_COLUMNS, "\n"),
    ):
        lines = "".join(json.dumps(row) + end for row in as_rows(columns))
        check_columns(in_order(convert({"t.jsonl": lines}).by_id()), columns)


MISSING = ["NA", "N/A", "n/a", "#N/A", "<NA>", "NULL", "null", "None"]  # the words of pandas 2


def test_missing_value_words_count_only_among_numbers(convert, subtests):
    columns = {
        "ints": ["7", *MISSING, "-2"],
        "floats": [*MISSING, "1.5", "3"],
        "mostly missing": [*MISSING, "4", "NA"],
        "words": ["red", *MISSING, "NA"],
        "nothing else": ["NA"] * 10,
        "codes": ["007", *MISSING, "123"],
    }
    text = pd.DataFrame(columns).to_csv(index=False)
    rows = in_order(convert({"t.csv": text}).by_id()).values()
    frame = pd.read_csv(io.StringIO(text), na_values=["None"])
    for name in ("ints", "floats", "mostly missing"):
        found = [row.get(name, [float("nan")])[0] for row in rows]
        np.testing.assert_array_equal(found, frame[name])
    for name in ("words", "nothing else", "codes"):
        with subtests.test(name=name):
            assert [row[name][0].decode() for row in rows] == columns[name]
    with pytest.raises(InputError, match="column 'n': expected int, got 'abc'"):
        convert({"t.csv": "n,m\n1,1\nabc,2\nNA,3\n"}, columns={"n": "int"})
    found = convert({"t.csv": text}, columns={"ints": "float", "floats": "string"}).by_id()
    assert in_order(found)["t.csv:1"] == {**found["t.csv:1"], "ints": [7.0], "floats": [b"NA"]}


def test_column_types_can_be_set(convert):
    text = "words,stars,zip,code,note,mood\na,1,007,5,x,1\nb,2,123,6,y,2\n"
    kinds = dict(words="text", stars="float", zip="string", code="label", note="ignore")
    dataset = convert({"t.csv": text}, columns=kinds, lowercase=True)
    names = ("words", "stars", "zip", "code", "mood")
    assert dataset.by_id() == {
        "t.csv:1": dict(zip(names, ([b"a"], [1.0], [b"007"], [0], [1]), strict=True)),
        "t.csv:2": dict(zip(names, ([b"b"], [2.0], [b"123"], [1], [2]), strict=True)),
    }
    assert dataset.vocabulary("code") == ["5", "6"]


# Strings that are numbers, compared with Python's `int` and `float` -------------------------------

FLOAT32 = float(np.finfo(np.float32).max)


@given(st.integers(-(2**63), 2**63 - 1) | st.floats(-FLOAT32, FLOAT32))
def test_every_python_number_is_read_as_a_number(number):
    text = repr(number)
    kind = "int" if isinstance(number, int) else "float"
    for values in ([text], [text, "1" if kind == "int" else "0.25"]):
        facts = column_facts(pa.array(values), np.arange(len(values)), are_texts=True)
        decided = decide_alone(facts)
        assert decided is not None
        assert decided.kind == kind
        read = cast_column(pa.array(values), decided, floats=pa.float64())
        assert read[0].as_py() == number


@given(st.text(st.sampled_from("0123456789+-_.,eExn aif \uff11\u0663"), min_size=1, max_size=8))
def test_strings_read_as_numbers_can_be_written_back(text):
    """Compare with Python: a number is a string that Python reads, and writes in the same way."""
    facts = column_facts(pa.array([text]), np.arange(1), are_texts=True)
    try:
        decided = decide_alone(facts)
    except InputError:
        is_too_large = abs(float(text)) > FLOAT32
        assert is_too_large
        return
    assert decided is not None
    if decided.kind == "int":
        assert str(int(text)) == text.strip(" ")
    elif decided.kind == "float":
        assert "." in text or "e-" in text.lower() or "e+" in text.lower()
        whole = text.lower().strip().partition("e")[0].partition(".")[0]
        assert whole in ("", "-", "-0") or whole == str(int(whole))
