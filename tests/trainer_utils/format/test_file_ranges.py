"""Cuts of parts of files against a plain list of their records."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainer_utils.format.slices import FileRange, RecordPositions

PARTS = st.lists(
    st.builds(FileRange, st.sampled_from("abc"), st.integers(0, 5), st.integers(0, 6)), max_size=8
)


def records(parts):
    return [(part.path, n) for part in parts for n in range(part.skip, part.skip + part.take)]


@given(PARTS, st.lists(st.integers(0, 50), min_size=2, max_size=6).map(sorted))
def test_cuts_hold_the_records_between_their_bounds(parts, bounds):
    positions = RecordPositions(parts)
    cuts = [positions.cut(start, stop) for start, stop in itertools.pairwise(bounds)]
    expected = [records(parts)[start:stop] for start, stop in itertools.pairwise(bounds)]
    assert [records(one) for one in cuts] == expected
    assert all(part.take for one in cuts for part in one)


@given(PARTS)
def test_positions_are_found_in_their_files(parts):
    numbers = np.arange(len(records(parts)))
    assert RecordPositions(parts).locate(numbers) == records(parts)
