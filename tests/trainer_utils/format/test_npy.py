"""Arrays of integers in `.npy` against NumPy's own reader and writer."""

import io

import numpy as np
import pytest

from trainer_utils.format import CorruptShardError
from trainer_utils.format.npy import npy_bytes, parse_npy

ARRAYS = [np.arange(n, dtype=f"<u{width}") for n in (0, 3, 300) for width in (1, 2, 4, 8)]


def test_numpy_writes_and_reads_the_same():
    data, expected = b"", io.BytesIO()
    for array in ARRAYS:
        data += npy_bytes(array)
        np.save(expected, array)
    assert data == expected.getvalue()
    stop = 0
    for array in ARRAYS:
        found, stop = parse_npy(data, path="x", what="numbers", start=stop)
        assert found.dtype == array.dtype
        assert found.tolist() == array.tolist()
    assert stop == len(data)


@pytest.mark.parametrize("array", [np.zeros(3), np.zeros((2, 2), np.uint8), np.array([-1])])
def test_other_arrays_are_refused(array):
    with pytest.raises(CorruptShardError, match="'x': expected numbers, an array of unsigned"):
        parse_npy(npy_bytes(array), path="x", what="numbers")


def test_what_is_cut_short_is_refused():
    data = npy_bytes(ARRAYS[-1])
    for size in (0, 9, 100, len(data) - 1):
        with pytest.raises(CorruptShardError, match="'x': expected numbers"):
            parse_npy(data[:size], path="x", what="numbers")
