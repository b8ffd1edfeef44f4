"""Cutting files where rows end, against an automaton that reads a byte at a time."""

import io
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.tables import pieces
from components.tables.pieces import BadQuote, Piece, cut
from trainer_utils.format import InputError

TOKENS = 'a|bc|é|,|"|""|","|"\n"|\n|\r\n|\r|;'.encode().split(b"|")
DATA = st.lists(st.sampled_from(TOKENS), max_size=40).map(b"".join)
DELIMITERS = st.sampled_from([b",", b";", b"\t"])


def rows_by_hand(data: bytes, delimiter: bytes) -> tuple[list[int], bool, int | None]:
    """Where rows end, whether the data ends between quotes, and where the first stray quote is.

    A quote opens a field only where the field begins. Between quotes, a doubled one is a
    character, and a single one closes; what follows up to the delimiter is text as it stands. A
    quote is stray that closes a field of several lines which goes on all the same.
    """
    ends, state, opened, stray = [], "begin", 0, None
    for place, octet in enumerate(data):
        character = bytes([octet])
        if state == "quoted":
            state = "after quote" if character == b'"' else state
        elif character == b'"' and state in ("begin", "after quote"):
            opened = place if state == "begin" else opened
            state = "quoted"
        elif character in (delimiter, b"\r", b"\n"):
            state = "begin"
            if character == b"\n":
                ends.append(place + 1)
        else:
            if state == "after quote" and b"\n" in data[opened:place] and character not in b" \t":
                stray = place - 1 if stray is None else stray
            state = "plain"
    return ends, state == "quoted", stray


def cut_in_blocks(data: bytes, block_bytes: int, *, start: int = 0, **settings) -> list[Piece]:
    whole = Piece(path="", source="", layout="", start=start)
    with mock.patch.object(pieces, "_BLOCK_BYTES", block_bytes):
        return list(cut(io.BytesIO(data), whole, **settings))


BLOCKS = st.one_of(st.integers(1, 45), st.just(1 << 20))


@given(DATA, DELIMITERS, BLOCKS, st.integers(1, 60), st.data())
def test_a_table_is_cut_or_refused_where_the_automaton_says(data, delimiter, block, size, more):
    ends, is_open, stray = rows_by_hand(data, delimiter)
    if is_open or stray is not None:
        with pytest.raises(BadQuote) as error:
            cut_in_blocks(data, block, delimiter=delimiter)
        assert error.value.is_stray == (stray is not None)
        assert error.value.offset == (max(ends, default=0) if stray is None else stray)
        return
    start = more.draw(st.sampled_from([0, *ends]))
    parts = cut_in_blocks(data, block, start=start, delimiter=delimiter, piece_bytes=size)
    bounds = [(part.start, part.stop) for part in parts]
    assert [begin for begin, _ in bounds] == [start, *(end for _, end in bounds)][: len(bounds)]
    assert (bounds[-1][1] if bounds else start) == len(data)
    assert {end for _, end in bounds} <= {*ends, len(data)}


@pytest.mark.parametrize("before", [b"", b"a,b\n" * 5])
def test_a_row_that_is_too_long_is_refused_with_its_byte(before):
    quoted, plain = b'"' + b"x\n" * 800 + b'"\n', b"x" * 1600 + b"\n"
    for block in (7, 500):
        for delimiter, giant in ((None, plain), (b",", plain), (b",", quoted)):
            with pytest.raises(InputError, match=rf"at most 600 bytes.*byte {len(before)}\)"):
                cut_in_blocks(before + giant, block, delimiter=delimiter, max_row_bytes=600)
