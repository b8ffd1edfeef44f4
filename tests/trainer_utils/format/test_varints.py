"""Test lists of base-128 integers against protobuf's own encoder."""

import numpy as np
import pytest
from google.protobuf.internal import encoder
from hypothesis import example, given
from hypothesis import strategies as st

from trainer_utils.format import varints
from trainer_utils.format.varints import VarintList

SIZES = st.sampled_from([1, 7, 8, 14, 21, 28, 35, 63])  # bits
NUMBERS = st.lists(SIZES.flatmap(lambda bits: st.integers(0, 2**bits - 1)) | st.just(-1))


def encoded(numbers: list[int]) -> np.ndarray:
    parts: list[bytes] = []
    for number in numbers:
        encoder._SignedVarintEncoder()(parts.append, number, True)
    return np.frombuffer(b"".join(parts), np.uint8)


@given(NUMBERS, st.sampled_from([1, 2, 3, 8, 1024]))
@example([2**21] * 2000, 1024)
def test_every_part_is_that_of_the_list(numbers, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(varints, "_BLOCK_BYTES", block)
        data = encoded(numbers)
        whole = VarintList(data)
        assert len(whole) == len(numbers)
        random = np.random.default_rng(len(numbers))
        bounds = np.sort(random.integers(0, len(numbers) + 1, (20, 2)), axis=1)
        for one in whole, whole.copy():
            assert one.part(0, len(numbers)).tolist() == numbers
            for begin, end in bounds.tolist():
                assert one.part(begin, end).tolist() == numbers[begin:end]


@given(NUMBERS, st.integers(1, 10))
def test_longest_number_is_known(numbers, size):
    longest = max([len(encoded([number])) for number in numbers], default=0)
    assert VarintList(encoded(numbers)).has_longer_than(size) == (longest > size)


def test_cut_and_overlong_numbers_are_refused():
    with pytest.raises(ValueError, match="end of a number"):
        VarintList(np.array([1, 0x80], np.uint8))
    with pytest.raises(ValueError, match="11"):
        VarintList(np.array([0x80] * 10 + [1], np.uint8)).part(0, 1)


def test_a_copy_does_not_keep_the_buffer():
    data = np.ones(10, np.uint8)
    copy = VarintList(data[2:5]).copy()
    data[:] = 9
    assert copy.part(0, 3).tolist() == [1, 1, 1]
    assert copy.num_bytes < 100
