"""Rows of a CSV, from file to columns, against Python's `csv`, whatever is read at a time."""

import csv
import gc
import io
from collections.abc import Iterator
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.tables import delimited, pieces
from components.tables.pieces import Piece, TableOptions
from trainer_utils.format import InputError

NAMES = ("x", "y", "z")
HEADER = "x,y,z\n"
TOKENS = ["a", "bc", "é", "😀", ",", '"', '""', '","', '"\n"', "\n", "\r\n", "\u2028", ',"', '",']
FIELDS = st.lists(st.sampled_from([*"aé ,\n", '"', "\r\n"]), max_size=5).map("".join)
ROWS = st.lists(st.lists(FIELDS, min_size=2, max_size=4), max_size=8)


@pytest.fixture(scope="module", autouse=True)
def frozen() -> Iterator[None]:
    """For each error pyarrow looks through all objects of the process that are not frozen."""
    gc.freeze()
    yield
    gc.unfreeze()


class OneFile:
    """Inputs of one file."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def open(self, _: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def rows_of(data: bytes, *, block_bytes: int, piece_bytes: int) -> list[list[str] | None]:
    """Each row's fields; None for one with too few or too many."""

    def cut(stream, **given):
        return pieces.cut(stream, piece_bytes=piece_bytes, **given)

    whole = Piece(path="t.csv", source="t.csv", layout="csv")
    options = TableOptions(column_names=NAMES)
    found: list[list[str] | None] = []
    with (
        mock.patch.object(pieces, "_BLOCK_BYTES", block_bytes),
        mock.patch.object(delimited, "cut", cut),
    ):
        for piece in delimited.find_pieces(OneFile(data), whole, delimiter=",", options=options):
            rows = delimited.read(data[piece.start : piece.stop], piece)
            columns = [rows.columns[name].to_pylist() for name in NAMES] if rows.columns else []
            good = iter([list(map(as_text, row)) for row in zip(*columns, strict=True)])
            bad = {one.record for one in rows.bad}
            found += [None if n in bad else next(good) for n in range(rows.found)]
            assert next(good, None) is None
    return found


def rows_or_refusal(data: bytes, **sizes: int) -> list[list[str] | None] | str:
    try:
        return rows_of(data, **sizes)
    except InputError as error:
        return str(error)


def as_text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""


def expected(text: str) -> list[list[str] | None]:
    reader = csv.reader(io.StringIO(text, newline=""))
    return [row if len(row) == len(NAMES) else None for row in reader if row]


def written(rows: list[list[str]], end: str, quoting: int) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator=end, quoting=quoting).writerows(rows)
    return stream.getvalue()


SIZES = {"block": st.sampled_from([1, 2, 3, 5, 16, 1 << 20]), "piece": st.sampled_from([1, 9, 99])}
MARK = st.sampled_from(["", "\ufeff"])


@settings(deadline=None, max_examples=200)
@given(
    rows=ROWS,
    end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    mark=MARK,
    **SIZES,
)
def test_what_pythons_writer_wrote_is_read_as_it_stands(rows, end, quoting, mark, block, piece):
    text = written(rows, end, quoting)
    data = (mark + HEADER + text).encode()
    assert rows_of(data, block_bytes=block, piece_bytes=piece) == expected(text)


@settings(deadline=None, max_examples=200)
@given(tokens=st.lists(st.sampled_from(TOKENS), max_size=40), mark=MARK, **SIZES)
def test_quotes_that_stand_anywhere_are_read_as_python_reads_them_or_refused(
    tokens, mark, block, piece
):
    text = "".join(tokens)
    data = (mark + HEADER + text).encode()
    found = rows_or_refusal(data, block_bytes=block, piece_bytes=piece)
    if isinstance(found, str):
        assert "quote" in found
        assert found == rows_or_refusal(data, block_bytes=1 << 20, piece_bytes=1 << 20)
    else:
        assert found == expected(text)
