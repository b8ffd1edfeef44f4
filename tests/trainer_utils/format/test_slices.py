"""Test slices of splits against Datum's, and ranges of files."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_utils.core.errors import ConfigError, TfxShardsError
from trainer_utils.format import SplitRange, resolve_slices
from trainer_utils.format.slices import FileRange, RecordPositions

BOUNDS = [None, 0, 1, 5, 10, -1, -5, -10]
PERCENTS = [None, 0, 1, 33, 50, 66, 99, 100, -1, -50]


def spec(start, stop, unit="") -> str:
    text = ["" if bound is None else f"{bound}{unit}" for bound in (start, stop)]
    return f"train[{text[0]}:{text[1]}]"


@pytest.mark.parametrize("size", [10, 99, 250])
def test_slices_of_numbers_match_python(size, subtests):
    for start, stop in itertools.product(BOUNDS, BOUNDS):
        with subtests.test(start=start):
            expected = range(size)[start:stop]
            if expected or expected.start == expected.stop:
                assert resolve_slices(spec(start, stop), {"train": size}) == [
                    SplitRange("train", expected.start, expected.stop)
                ]


@pytest.mark.parametrize("size", [10, 99, 250])
def test_slices_of_percentages_match_datum(size, subtests):
    pytest.importorskip("datum")  # not installed by `make test-trainer`
    from datum.utils.reader_utils import ReadInstruction

    for start, stop in itertools.product(PERCENTS, PERCENTS):
        with subtests.test(start=start):
            (theirs,) = ReadInstruction.from_spec(spec(start, stop, "%")).to_absolute(
                {"train": size}
            )
            first, last = theirs.from_ or 0, size if theirs.to is None else theirs.to
            first, last = (bound + size if bound < 0 else bound for bound in (first, last))
            if first <= last:
                assert resolve_slices(spec(start, stop, "%"), {"train": size}) == [
                    SplitRange("train", first, last)
                ]


def test_slices_are_joined_in_order():
    sizes = {"train": 100, "eval": 20}
    assert resolve_slices("eval + train[90%:]", sizes) == [
        SplitRange("eval", 0, 20),
        SplitRange("train", 90, 100),
    ]


@pytest.mark.parametrize(("asked", "there"), [("val", "eval"), ("eval", "validation")])
def test_another_spelling_finds_the_split(asked, there):
    assert resolve_slices(asked, {"train": 1, there: 5}) == [SplitRange(there, 0, 5)]


def test_invalid_slice_raises_with_its_text(subtests):
    for wrong, said in {
        "holdout": "'holdout': expected one of train, eval",
        "train[5]": "'train[5]'",
        "train[1:2:3]": "'train[1:2:3]'",
        "train[:101]": "101",
        "train[-101:]": "-101",
        "train[60:40]": "[60:40]",
        "": "''",
        "train+": "''",
        "train[a:b]": "a:b",
    }.items():
        with subtests.test(wrong=wrong):
            with pytest.raises(TfxShardsError, match=re.escape(said)):
                resolve_slices(wrong, {"train": 100, "eval": 20})
    # In any split, not only if rounding a large percentage exceeds the number of records.
    anywhere = ["train[:103%]", "train[-101%:]", "train[200%:]", "train[", 3, ["train"], b"train"]
    for wrong, size in itertools.product(anywhere, [0, 1, 10, 1000]):
        with subtests.test(wrong=wrong):
            with pytest.raises(ConfigError, match=re.escape(f"got {wrong!r}")):
                resolve_slices(wrong, {"train": size})


RANGE = st.builds(
    FileRange, st.sampled_from("abc"), st.integers(0, 5), st.integers(0, 6), kept=st.none()
)
PARTS = st.lists(RANGE, max_size=8)


def records(parts):
    return [(part.path, n) for part in parts for n in range(part.skip, part.skip + part.take)]


@given(PARTS)
def test_positions_are_located_in_their_files(parts):
    numbers = np.arange(len(records(parts)))
    assert RecordPositions(parts).locate(numbers) == records(parts)
