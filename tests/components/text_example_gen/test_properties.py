"""Test that tables in every layout that can hold them reach TensorFlow's reader unchanged."""

import contextlib
import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.layouts import texts
from components.tables import parquet, pieces, row_ends
from components.tables.row_ends import CutLimits

NAMES = ["a", "x.y", 'say "b", c', "größe", "A", "d e"]
INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(width=32)
CHARACTERS = st.characters(exclude_categories=["Cs"])
LIKE_OTHERS = ["", " ", "12", "1.5", "nan", "[1]", "null", "NA", "#N/A", "true", "2020-01-02", "{}"]
MARKS = ["a\nb", "a\r\nb", "\t", ",", '"', '""', "\\", "\\n", "'", "\ufeff", "\u2028", "\x85", "-"]
TEXTS = st.text(CHARACTERS, max_size=12) | st.sampled_from(LIKE_OTHERS + MARKS)
VALUES: dict[str, st.SearchStrategy] = {
    "int": INTS,
    "float": FLOATS,
    "string": TEXTS,
    "ints": st.lists(INTS, max_size=4),
    "floats": st.lists(FLOATS, max_size=4),
    "strings": st.lists(TEXTS, max_size=3),
}
PARQUET = {
    "int": [pa.int64()],
    "float": [pa.float32(), pa.float64()],
    "string": [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    "ints": [pa.list_(pa.int64()), pa.large_list(pa.int64())],
    "floats": [pa.list_(pa.float32()), pa.list_(pa.float64())],
    "strings": [pa.list_(pa.string()), pa.list_(pa.large_string())],
}
PIECE_BYTES = st.sampled_from([pieces.PIECE_BYTES, 1, 50, 200])
quickly = settings(max_examples=12, database=None)


@dataclasses.dataclass(frozen=True)
class Table:
    """Values by column, with None for a missing value, and the kind of each column."""

    columns: Mapping[str, list[Any]]
    kinds: Mapping[str, str]

    @property
    def rows(self) -> list[dict[str, Any]]:
        names = list(self.columns)
        return [
            dict(zip(names, row, strict=True)) for row in zip(*self.columns.values(), strict=True)
        ]

    @property
    def given(self) -> dict[str, str]:
        """The `columns` setting for columns whose type cannot be inferred from the values."""
        texts = {name: "string" for name, kind in self.kinds.items() if kind == "string"}
        floats = {name for name, kind in self.kinds.items() if kind == "float"}
        return texts | {name: "float" for name in floats if not self._has_finite(name)}

    def _has_finite(self, name: str) -> bool:
        """Return whether a float column has a finite value, which makes its type inferable."""
        return any(value is not None and math.isfinite(value) for value in self.columns[name])

    def expected(self) -> list[dict[str, list[Any]]]:
        return [
            {name: exact(value) for name, value in row.items() if exact(value)} for row in self.rows
        ]


def exact(value: Any) -> list[Any]:
    """Return a value as an example's list, with floats as hex so that equality is bitwise."""
    parts = [] if value is None else value if isinstance(value, list) else [value]
    return [
        part.hex() if isinstance(part, float) else part.encode() if isinstance(part, str) else part
        for part in parts
    ]


@st.composite
def tables(draw, *kinds: str, without: str = "") -> Table:
    """Draw up to four columns in addition to `n`, which has a value in every row."""
    rows = draw(st.integers(1, 10))
    columns, chosen = {"n": list(range(rows))}, {"n": "int"}
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=4, unique=True)):
        chosen[name] = draw(st.sampled_from(kinds or sorted(VALUES)))
        values = st.none() | VALUES[chosen[name]].filter(
            lambda value: not any(part in str(value) for part in without)
        )
        columns[name] = draw(st.lists(values, min_size=rows, max_size=rows))
    return Table(columns, chosen)


@contextlib.contextmanager
def cut_into(piece_bytes: int) -> Iterator[None]:
    """Make the readers cut inputs into pieces of `piece_bytes`."""
    with contextlib.ExitStack() as stack:
        for module in (pieces, parquet, texts):
            stack.enter_context(mock.patch.object(module, "PIECE_BYTES", piece_bytes))
        stack.enter_context(mock.patch.object(parquet, "_HELD_BYTES", 4 * piece_bytes))
        if piece_bytes < row_ends._BLOCK_BYTES:
            stack.enter_context(mock.patch.object(row_ends, "_BLOCK_BYTES", piece_bytes))
        limits = CutLimits(piece_bytes=piece_bytes)
        stack.enter_context(mock.patch.object(row_ends, "LIMITS", limits))
        yield


@pytest.fixture(scope="module")
def rows_of(run_text, tmp_path_factory):
    """Return a function that converts a file's bytes and returns its rows by id."""

    def rows_of(name: str, data: bytes, **settings: Any) -> dict[str, dict[str, list[Any]]]:
        folder: Path = tmp_path_factory.mktemp("property")
        (folder / name).write_bytes(data)
        dataset = run_text(folder / name, folder / "out", **settings)
        assert not dataset.rejects
        return {
            identity: {feature: exact(values) for feature, values in row.items()}
            for identity, row in dataset.by_id().items()
        }

    return rows_of


def by_number(name: str, rows: list[Any]) -> dict[str, Any]:
    return {f"{name}:{number}": row for number, row in enumerate(rows, 1)}


def delimited(table: Table, delimiter: str, end: str) -> bytes:
    """Return a table as RFC 4180 CSV: strings are quoted, missing values are empty."""

    def cell(value: Any) -> str:
        if value is None:
            return ""
        if isinstance(value, list):
            value = json.dumps(value)
        return '"' + value.replace('"', '""') + '"' if isinstance(value, str) else repr(value)

    lines = [map(cell, table.columns), *(map(cell, row.values()) for row in table.rows)]
    return "".join(delimiter.join(line) + end for line in lines).encode()


@quickly
@given(
    table=tables(without="\0"),
    end=st.sampled_from(["\n", "\r\n"]),
    delimiter=st.sampled_from(",;|"),
    piece_bytes=PIECE_BYTES,
)
def test_csv_round_trips(rows_of, table, end, delimiter, piece_bytes):
    data = delimited(table, delimiter, end)
    with cut_into(piece_bytes):
        rows = rows_of("t.csv", data, columns=table.given, delimiter=delimiter)
    assert rows == by_number("t.csv", table.expected())


@quickly
@given(
    table=tables(),
    end=st.sampled_from(["\n", "\r\n", "\n\n"]),
    ascii_only=st.booleans(),
    leave_out_missing=st.booleans(),
    piece_bytes=PIECE_BYTES,
)
def test_json_lines_round_trip(rows_of, table, end, ascii_only, leave_out_missing, piece_bytes):
    rows = table.rows
    if leave_out_missing:
        rows = [{n: v for n, v in row.items() if v is not None} for row in rows]
    data = "".join(json.dumps(row, ensure_ascii=ascii_only) + end for row in rows)
    with cut_into(piece_bytes):
        assert rows_of("t.jsonl", data.encode()) == by_number("t.jsonl", table.expected())


@quickly
@given(table=tables(), data=st.data(), group=st.integers(1, 10), piece_bytes=PIECE_BYTES)
def test_parquet_round_trips(rows_of, tmp_path_factory, table, data, group, piece_bytes):
    types = {name: data.draw(st.sampled_from(PARQUET[kind])) for name, kind in table.kinds.items()}
    arrays = {name: pa.array(values, types[name]) for name, values in table.columns.items()}
    path = tmp_path_factory.mktemp("parquet") / "t"
    pyarrow.parquet.write_table(pa.table(arrays), path, row_group_size=group)
    with cut_into(piece_bytes):
        rows = rows_of("t.parquet", path.read_bytes())
    assert rows == by_number("t.parquet", table.expected())


@quickly
@given(table=tables(), keys=st.sets(st.text(CHARACTERS, max_size=5), min_size=10), data=st.data())
def test_keyed_json_round_trips(rows_of, table, keys, data):
    labels = data.draw(st.sets(st.sampled_from(sorted(table.columns))))
    entries = {
        key: {
            **{name: value for name, value in row.items() if name not in labels},
            "label": {name: value for name, value in row.items() if name in labels},
        }
        for key, row in zip(sorted(keys), table.rows, strict=False)
    }
    rows = rows_of("t.json", json.dumps(entries).encode(), columns=table.given)
    assert rows == {f"t.json:{k}": row for k, row in zip(entries, table.expected(), strict=True)}
