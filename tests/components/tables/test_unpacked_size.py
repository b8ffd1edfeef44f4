"""Pieces are limited in rows and in unpacked bytes, even for highly compressed files."""

import io
import random
from unittest import mock

import pandas as pd
import pyarrow as pa
import pytest

from components.tables import parquet, pieces, reading
from components.tables.pieces import Piece, TableOptions
from components.tables.reading import PieceReader
from components.tables.row_ends import CutLimits, cut
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
    found = [*cut(io.BytesIO(data), limits=CutLimits(piece_rows=300))]
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


class CountedFile(io.FileIO):
    """A file that counts the bytes read from it."""

    num_bytes = 0

    def read(self, size: int = -1) -> bytes:
        data = super().read(size)
        CountedFile.num_bytes += len(data)
        return data


@pytest.mark.parametrize("is_repeated", [False, True])
def test_parts_of_a_row_group_are_read_once(tmp_path, monkeypatch, is_repeated, subtests):
    """Compare with one reader for each part, which reads the rows before it as well."""
    monkeypatch.setattr(parquet, "_HELD_BYTES", 400_000)
    texts = [random.Random(n // 20 if is_repeated else n).randbytes(500).hex() for n in range(4000)]
    (tmp_path / "t.parquet").write_bytes(
        parquet_of({"text": texts, "n": [*range(4000)]}, write_batch_size=100)
    )
    whole = Piece(path="t.parquet", source="t.parquet", layout="parquet")
    found = [*parquet.find_pieces(OneFile((tmp_path / "t.parquet").read_bytes()), whole)]
    assert len(found) > 4
    monkeypatch.setattr(reading, "open_for_reading", lambda path, root: CountedFile(path))
    counts, options = [], TableOptions()
    for is_shared in (False, True):
        with subtests.test(is_shared=is_shared):
            CountedFile.num_bytes = 0
            values = []
            with PieceReader(str(tmp_path), options) as reader:
                for piece in found:
                    alone = PieceReader(str(tmp_path), options)
                    with alone:
                        rows = (reader if is_shared else alone).read(piece)
                    values += zip(
                        *(rows.columns[n].to_pylist() for n in ("text", "n")), strict=True
                    )
            assert values == [*zip(texts, range(4000), strict=True)]
            counts.append(CountedFile.num_bytes)
    assert counts[1] < 0.6 * counts[0]
