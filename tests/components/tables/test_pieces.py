"""Files are cut between rows, like an automaton that reads one byte at a time."""

import io
import itertools
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.tables import pieces
from components.tables.pieces import BadQuote, Piece, cut

TOKENS = 'a|bc|é|,|"|""|","|"\n"|\n|\r\n|\r|;| |\t'.encode().split(b"|")
DATA = st.lists(st.sampled_from(TOKENS), max_size=40).map(b"".join)
DELIMITERS = st.sampled_from([b",", b";", b"\t", b" "])


def rows_by_hand(data: bytes, delimiter: bytes) -> tuple[list[int], bool, int | None]:
    """Return the ends of rows, whether the data ends inside quotes, and the first stray quote.

    A quote opens a field only at the beginning of the field. Inside quotes, a doubled quote is a
    character, and a single one closes the field. A closing quote is stray if text follows it.
    """
    ends, state, closing, stray = [], "begin", 0, None
    for place, octet in enumerate(data):
        character = bytes([octet])
        if state == "quoted":
            state = "after quote" if character == b'"' else state
        elif character == b'"' and state in ("begin", "after quote"):
            state = "quoted"
        elif character in (delimiter, b"\r", b"\n"):
            state = "begin"
            if character == b"\n":
                ends.append(place + 1)
        else:
            is_after = state in ("after quote", "space after quote")
            closing = place - 1 if state == "after quote" else closing
            is_space = is_after and character in b" \t"
            if is_after and not is_space:
                stray = closing if stray is None else stray
            state = "space after quote" if is_space else "plain"
    return ends, state == "quoted", stray


def cut_in_blocks(data: bytes, block_bytes: int, *, start: int = 0, **settings) -> list[Piece]:
    whole = Piece(path="", source="", layout="", start=start)
    with mock.patch.object(pieces, "_BLOCK_BYTES", block_bytes):
        return list(cut(io.BytesIO(data), whole, **settings))


def check_parts(parts: list, data: bytes, ends: list[int], *, start: int, most: int) -> None:
    """Assert that the parts are contiguous and end between rows, and that long rows are alone."""
    bounds = [(part.start, part.stop) for part in parts]
    assert [begin for begin, _ in bounds] == [start, *(end for _, end in bounds)][: len(bounds)]
    assert (bounds[-1][1] if bounds else start) == len(data)
    assert {end for _, end in bounds} <= {*ends, len(data)}
    rows = itertools.pairwise([start, *(end for end in ends if end > start), len(data)])
    too_long = [(begin, end) for begin, end in rows if end - begin > most]
    assert [(part.start, part.stop) for part in parts if part.too_long] == too_long


BLOCKS = st.one_of(st.integers(1, 45), st.just(1 << 20))


@settings(max_examples=500)
@given(DATA, DELIMITERS, BLOCKS, st.integers(1, 60), st.data())
def test_tables_are_cut_or_refused_like_the_automaton(data, delimiter, block, size, more):
    ends, is_open, stray = rows_by_hand(data, delimiter)
    if is_open or stray is not None:
        with pytest.raises(BadQuote) as error:
            cut_in_blocks(data, block, delimiter=delimiter)
        assert error.value.is_stray == (stray is not None)
        assert error.value.offset == (max(ends, default=0) if stray is None else stray)
        return
    start = more.draw(st.sampled_from([0, *ends]))
    most = more.draw(st.integers(min(block, 60), 60))
    rows = more.draw(st.sampled_from([1, 2, 3, 1 << 18]))
    sizes = {"piece_bytes": size, "piece_rows": rows, "max_row_bytes": most}
    parts = cut_in_blocks(data, block, start=start, delimiter=delimiter, **sizes)
    check_parts(parts, data, ends, start=start, most=most)
    for part in parts:
        inside = [end for end in [*ends, len(data)] if part.start < end <= part.stop]
        assert len({*inside}) <= part.rows <= rows


@pytest.mark.parametrize("place", ["first", "middle", "last", "last without an end", "alone"])
def test_row_that_is_too_long_is_a_separate_piece(place):
    few = b"a,b\n" * 5
    quoted, plain = b'"' + b"x\n" * 400 + b'"\n', b"x" * 800 + b"\n"
    for block in (7, 500):
        for delimiter, giant in ((None, plain), (b",", plain), (b",", quoted)):
            giant = giant[:-1] if place == "last without an end" else giant
            before = b"" if place in ("first", "alone") else few
            after = few if place in ("first", "middle") else b""
            data = before + giant + after
            parts = cut_in_blocks(data, block, delimiter=delimiter, max_row_bytes=600)
            start, stop = len(before), len(before) + len(giant)
            pieces_before = [(0, start)] if before else []
            pieces_after = [(stop, stop + len(after))] if after else []
            assert [(part.start, part.stop) for part in parts] == [
                *pieces_before,
                (start, stop),
                *pieces_after,
            ]
            assert [part.start for part in parts if part.too_long] == [start]


@pytest.mark.parametrize(
    ("data", "code", "advice"),
    [
        (b"PAR1\x15\0\0", "UNSUPPORTED_FORMAT", "a Parquet file. Read it as one: layout='parquet'"),
        (b"\x89PNG\r\n\x1a\n\0\0", "UNSUPPORTED_FORMAT", "a PNG image"),
        (b"\x1f\x8b\x08\0\0", "UNSUPPORTED_FORMAT", "Unpack it first"),
        ("words".encode("utf-16"), "NUL_BYTE", "encoding='utf-16'"),
        ("words".encode("utf-16-be"), "NUL_BYTE", "encoding='utf-16'"),
        (b"words\0of C", "NUL_BYTE", "Remove such bytes"),
        (b"caf\xe9", "NOT_UTF8", "encoding='latin-1'"),
    ],
)
def test_binary_data_is_named_with_a_fitting_fix(data, code, advice):
    found = pieces.text_problem(data)
    assert found is not None
    assert found[0] == code
    assert advice in found[1]
