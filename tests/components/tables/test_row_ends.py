"""Files are cut between rows, like an automaton that reads one byte at a time.

`csv` is another oracle, in `test_delimited.py`.
"""

import io
import itertools
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.tables import quotes, row_ends
from components.tables.quotes import BadQuote
from components.tables.row_ends import CutLimits, RowSpan, cut, cut_range, first_row, join_cuts

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


def cut_in_blocks(
    data: bytes, block_bytes: int, *, start: int = 0, delimiter: bytes | None, **limits: int
) -> list[RowSpan]:
    with mock.patch.object(row_ends, "_BLOCK_BYTES", block_bytes):
        given = CutLimits(**limits)
        return list(cut(io.BytesIO(data), start, delimiter=delimiter, limits=given))


def cut_in_ranges(
    data: bytes, bounds: list[int], *, start: int = 0, delimiter: bytes, **limits: int
) -> list[RowSpan]:
    """Cut each range by itself, and join the results."""
    given, cuts = CutLimits(**limits), []
    for first, stop in itertools.pairwise([start, *bounds, None]):
        found = cut_range(
            io.BytesIO(data),
            first,
            stop,
            delimiter=delimiter,
            is_first=first == start,
            limits=given,
        )
        assert found is not None
        cuts.append(found)
    return [*join_cuts(cuts, limits=given)]


def check_parts(parts: list, data: bytes, ends: list[int], *, start: int, most: int) -> None:
    """Assert that the parts are contiguous and end between rows, and that long rows are alone."""
    bounds = [(part.start, part.stop) for part in parts]
    assert [begin for begin, _ in bounds] == [start, *(end for _, end in bounds)][: len(bounds)]
    assert (bounds[-1][1] if bounds else start) == len(data)
    assert {end for _, end in bounds} <= {*ends, len(data)}
    rows = itertools.pairwise([start, *(end for end in ends if end > start), len(data)])
    too_long = [(begin, end) for begin, end in rows if end - begin > most]
    assert [(part.start, part.stop) for part in parts if part.is_too_long] == too_long


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


@settings(max_examples=500)
@given(DATA, DELIMITERS, BLOCKS, st.integers(1, 60), st.data())
def test_ranges_are_cut_like_the_whole_file(data, delimiter, block, size, more):
    ends, is_open, stray = rows_by_hand(data, delimiter)
    places = st.lists(st.integers(1, max(len(data), 1)), max_size=6, unique=True).map(sorted)
    bounds = more.draw(places)
    steps = more.draw(st.sampled_from([0, 1, 32]))
    with (
        mock.patch.multiple(row_ends, _BLOCK_BYTES=block, _SEARCH_BYTES=3),
        mock.patch.multiple(quotes, _STEPS=steps, _TRIES=steps, _SEARCH_BYTES=2),
    ):
        if is_open or stray is not None:
            with pytest.raises(BadQuote) as error:
                cut_in_ranges(data, bounds, delimiter=delimiter)
            assert error.value.is_stray == (stray is not None)
            assert error.value.offset == (max(ends, default=0) if stray is None else stray)
            return
        most = more.draw(st.integers(min(block, 60), 60))
        rows = more.draw(st.sampled_from([1, 2, 3, 1 << 18]))
        sizes = {"piece_bytes": size, "piece_rows": rows, "max_row_bytes": most}
        parts = cut_in_ranges(data, bounds, delimiter=delimiter, **sizes)
    check_parts(parts, data, ends, start=0, most=most)
    for part in parts:
        inside = [end for end in [*ends, len(data)] if part.start < end <= part.stop]
        assert len({*inside}) <= part.rows <= rows


@pytest.mark.parametrize("is_first_inside", [False, True])
def test_range_without_a_line_feed_has_no_rows(is_first_inside):
    data = b'a,"' + b"x" * 100 + b'"\n' if is_first_inside else b"x" * 100 + b"\n"
    assert cut_in_ranges(data, [10, 20, 60], delimiter=b",") == [RowSpan(0, len(data), 1)]


def test_range_in_a_very_long_row_is_not_searched_to_the_end():
    stream = io.BytesIO(b"x" * 100 + b"\n")
    with mock.patch.multiple(row_ends, _SEARCH_BYTES=4, _MAX_SEARCHES=5):
        assert cut_range(stream, 10, 20, delimiter=b",") is None
        assert cut_range(stream, 0, 90, delimiter=b",", is_first=True) is not None


@settings(max_examples=300)
@given(DATA, DELIMITERS)
def test_first_row_ends_where_the_automaton_ends_it(data, delimiter):
    ends, is_open, stray = rows_by_hand(data, delimiter)
    if stray is None:
        assert first_row(data, delimiter) == ((ends[0], False) if ends else (len(data), is_open))


@pytest.mark.parametrize("place", ["first", "middle", "last", "last without an end", "alone"])
def test_row_that_is_too_long_is_a_separate_piece(place, subtests):
    few = b"a,b\n" * 5
    quoted, plain = b'"' + b"x\n" * 400 + b'"\n', b"x" * 800 + b"\n"
    for block in (7, 500):
        for delimiter, giant in ((None, plain), (b",", plain), (b",", quoted)):
            with subtests.test(delimiter=delimiter):
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
                assert [part.start for part in parts if part.is_too_long] == [start]
