"""Cutting files where rows end, against an automaton that reads a byte at a time."""

import io
import itertools
from unittest import mock

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from components.tables import pieces
from components.tables.pieces import RowTooLong, StrayQuote, UnclosedQuote, cut

TOKENS = [
    b"a",
    b"bc",
    "é".encode(),
    b",",
    b'"',
    b'""',
    b'","',
    b'"\n"',
    b"\n",
    b"\r\n",
    b"\r",
    b";",
]
DATA = st.lists(st.sampled_from(TOKENS), max_size=40).map(b"".join)
DELIMITERS = st.sampled_from([b",", b";", b"\t"])


def ends_by_hand(data: bytes, delimiter: bytes) -> tuple[list[int], bool]:
    """Where rows end, and whether the data ends between quotes.

    A quote opens a field only where the field begins. Between quotes, a doubled one is a
    character, and a single one closes; what follows up to the delimiter is text as it stands.
    """
    ends, state = [], "begin"
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
            state = "plain"
    return ends, state == "quoted"


def cut_in_blocks(data: bytes, block_bytes: int, **settings) -> list:
    with mock.patch.object(pieces, "_BLOCK_BYTES", block_bytes):
        return list(cut(io.BytesIO(data), **settings))


def bytes_of(part: tuple[int, int] | RowTooLong) -> tuple[int, int]:
    return (part.start, part.stop) if isinstance(part, RowTooLong) else part


def check_parts(parts: list, data: bytes, ends: list[int], *, start: int, most: int) -> None:
    """The parts lie end to end, end where rows do, and every row is too long or in a piece."""
    bounds = [bytes_of(part) for part in parts]
    assert [begin for begin, _ in bounds] == [start, *(end for _, end in bounds)][: len(bounds)]
    assert (bounds[-1][1] if bounds else start) == len(data)
    assert {end for _, end in bounds} <= {*ends, len(data)}
    rows = itertools.pairwise([start, *(end for end in ends if end > start), len(data)])
    too_long = [(begin, end) for begin, end in rows if end - begin > most]
    assert [bytes_of(part) for part in parts if isinstance(part, RowTooLong)] == too_long


@given(DATA, DELIMITERS, st.integers(1, 45), st.integers(1, 60), st.data())
def test_a_table_is_cut_where_the_automaton_says_rows_end(data, delimiter, block, size, more):
    ends, is_open = ends_by_hand(data, delimiter)
    assume(not is_open)
    start = more.draw(st.sampled_from([0, *ends]))
    most = more.draw(st.integers(block, 60))
    parts = cut_in_blocks(
        data, block, start=start, delimiter=delimiter, piece_bytes=size, max_row_bytes=most
    )
    check_parts(parts, data, ends, start=start, most=most)


@given(DATA, DELIMITERS, st.integers(1, 45))
def test_an_unclosed_quote_is_reported_with_the_beginning_of_its_row(data, delimiter, block):
    ends, is_open = ends_by_hand(data, delimiter)
    if not is_open:
        data += b'\n"'
        ends, is_open = ends_by_hand(data, delimiter)
        assert is_open
    with pytest.raises(UnclosedQuote) as error:
        cut_in_blocks(data, block, delimiter=delimiter)
    assert error.value.offset == max(ends, default=0)


def first_stray_quote(data: bytes) -> int | None:
    """Where a field of several lines is closed and goes on all the same, a byte at a time."""
    state, opened = "begin", 0
    for place, octet in enumerate(data):
        character = bytes([octet])
        if state == "quoted":
            state = "after quote" if character == b'"' else state
        elif character == b'"' and state in ("begin", "after quote"):
            opened = place if state == "begin" else opened
            state = "quoted"
        elif character in (b",", b"\r", b"\n"):
            state = "begin"
        else:
            if state == "after quote" and b"\n" in data[opened:place] and character not in b" \t":
                return place - 1
            state = "plain"
    return None


@given(DATA, st.one_of(st.integers(1, 45), st.just(1 << 20)))
def test_a_stray_quote_is_found_where_the_automaton_finds_it(data, block):
    _, is_open = ends_by_hand(data, b",")
    assume(not is_open)
    found = None
    try:
        cut_in_blocks(data, block, delimiter=b",", refuse_stray=True)
    except StrayQuote as error:
        found = error.offset
    assert found == first_stray_quote(data)


@pytest.mark.parametrize("place", ["first", "middle", "last", "last without an end", "alone"])
def test_a_row_that_is_too_long_stands_by_itself(place):
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
            assert parts == [*pieces_before, RowTooLong(start, stop), *pieces_after]
