"""Pieces are limited in rows and in unpacked bytes, even for highly compressed files."""

import io
from unittest import mock

import pandas as pd
import pyarrow as pa
import pytest

from components.tables import parquet, pieces
from components.tables.pieces import Piece, TableOptions, cut
from tests.components.tables.table_files import parquet_of

ROWS = 3000


class OneFile:
    """Inputs with a single file."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def open(self, _: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def repetitive(kind: str) -> dict[str, list]:
    """Return columns that unpack to a few hundred times their size in the file."""
    long = [f"{number}" * 2000 for number in range(3)]
    columns = {
        "one": [long[0]] * ROWS,
        "some": [None if number % 7 == 0 else long[number % 3] for number in range(ROWS)],
        "lists": [[long[1]] * (number % 3) for number in range(ROWS)],
        "one long": [long[2] * 50 if number == 1500 else "x" for number in range(ROWS)],
    }
    return {kind: columns[kind], "n": [*range(ROWS)]}


def pieces_of(data: bytes) -> list[Piece]:
    whole = Piece(path="t.parquet", source="t.parquet", layout="parquet")
    return [*parquet.find_pieces(OneFile(data), whole)]


@pytest.mark.parametrize("kind", ["one", "some", "lists", "one long"])
@pytest.mark.parametrize("groups", [ROWS, 1000])
def test_repetitive_columns_are_read_in_bounded_pieces(kind, groups):
    columns, held = repetitive(kind), 1 << 17
    data = parquet_of(columns, row_group_size=groups)
    expected = pd.DataFrame(columns)
    with (
        mock.patch.object(parquet, "_HELD_BYTES", held),
        mock.patch.object(parquet, "PIECE_BYTES", held),
    ):
        found = pieces_of(data)
        parts = [parquet.read(io.BytesIO(data), piece, TableOptions()) for piece in found]
    assert sum(piece.rows for piece in found) == ROWS
    assert [len(part.records) for part in parts] == [piece.rows for piece in found]
    largest_row = max(len(str(value)) for value in columns[kind])
    for part in parts:
        size = part.columns[kind].nbytes
        assert size <= 2 * held + largest_row + 16 * len(part.records), len(part.records)
    for name in columns:
        values = [value for part in parts for value in part.columns[name].to_pylist()]
        assert values == expected[name].where(expected[name].notna(), None).tolist()


def test_short_rows_are_cut_by_row_count():
    data = b"a\n" * 1000
    whole = Piece(path="t", source="t", layout="lines")
    found = [*cut(io.BytesIO(data), whole, piece_rows=300)]
    assert [(piece.start, piece.stop, piece.rows) for piece in found[:3]] == [
        (0, 600, 300),
        (600, 1200, 300),
        (1200, 1800, 300),
    ]
    assert found[-1].stop == len(data)


def test_row_groups_of_short_rows_are_cut_by_row_count():
    data = parquet_of({"n": pa.array(range(1000))}, row_group_size=100)
    with mock.patch.object(parquet, "PIECE_ROWS", 250):
        found = pieces_of(data)
    assert [(piece.start, piece.stop, piece.rows) for piece in found] == [
        (0, 2, 200),
        (2, 4, 200),
        (4, 6, 200),
        (6, 8, 200),
        (8, 10, 200),
    ]
    assert pieces.PIECE_ROWS < 1 << 20
