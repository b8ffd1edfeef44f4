"""Tables of delimited texts: headers, delimiters, quotes and empty fields."""

import gc
import itertools
from collections.abc import Iterator

import pytest

from components.tables.delimited import read
from components.tables.pieces import Piece


def test_the_first_row_names_the_columns_whatever_stands_round_it(convert):
    dataset = convert({"t.csv": '\n\r\n text ,"the ""best"" label",größe\na,b,1\n'})
    assert dataset.by_id() == {
        "t.csv:1": {"text": [b"a"], 'the "best" label': [b"b"], "größe": [1]}
    }


@pytest.mark.parametrize("delimiter", [";", "\x01"])
def test_a_table_may_have_any_delimiter(convert, delimiter):
    text = f'text{delimiter}n\n"a{delimiter}b"{delimiter}1\nc,d{delimiter}2\n'
    dataset = convert({"t.csv": text}, delimiter=delimiter)
    assert dataset.by_id() == {
        "t.csv:1": {"text": [f"a{delimiter}b".encode()], "n": [1]},
        "t.csv:2": {"text": [b"c,d"], "n": [2]},
    }


def test_an_empty_field_is_missing_and_a_quoted_one_is_an_empty_text(convert):
    dataset = convert({"t.csv": 'a,b,n\n,x,1\n"",y,2\n'})
    assert dataset.by_id() == {
        "t.csv:1": {"b": [b"x"], "n": [1]},
        "t.csv:2": {"a": [b""], "b": [b"y"], "n": [2]},
    }


@pytest.fixture
def frozen() -> Iterator[None]:
    """For each error pyarrow looks through all objects of the process that are not frozen."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("frozen")
def test_rows_that_are_wrong_in_several_ways_are_bad_rows_and_the_others_are_read():
    kinds = {
        b"a,b": None,
        '"ü",b'.encode(): None,
        b"a": "WRONG_COLUMNS",
        b"a,b,c": "WRONG_COLUMNS",
        b"\xff,b,c": "WRONG_COLUMNS",
        b'"\xfc\n",\xff,"\0"': "WRONG_COLUMNS",
        b"a,\xc3": "NOT_UTF8",
        b"a,\0": "NUL_BYTE",
    }
    piece = Piece(
        path="t", source="t", layout="csv", details={"names": ["x", "y"], "delimiter": ","}
    )
    for some in itertools.permutations(kinds, 3):
        rows = read(b"".join(row + b"\n" for row in some), piece)
        assert rows.found == 3, some
        bad = {row.record: row.code for row in rows.bad}
        assert bad == {n: kinds[row] for n, row in enumerate(some) if kinds[row]}, some
        good = [row.decode().replace('"', "").split(",") for row in some if not kinds[row]]
        texts = zip(rows.columns["x"].to_pylist(), rows.columns["y"].to_pylist(), strict=True)
        assert [list(text) for text in texts] == good, some
