"""Sketches in temporary files, read back."""

import numpy as np
import pytest

from trainer_utils.auditing.sketch_files import SketchFiles


class Pairs(SketchFiles):
    """A number of each input, and some bytes."""

    def __init__(self) -> None:
        super().__init__("pairs", num_files=2)

    def add(self, number: int, data: bytes) -> None:
        self._write(0, np.array([number]), "<u4")
        self._write(1, np.frombuffer(data, np.uint8), "u1")
        self._ends.append(self._ends[-1] + len(data))

    def numbers(self) -> list[int]:
        return self._mapped(0, "<u4", len(self)).tolist()

    def data(self) -> bytes:
        return self._mapped(1, "u1", self._ends[-1]).tobytes()


def test_each_input_has_its_values_in_each_file_also_after_a_look_between():
    with Pairs() as pairs:
        assert (len(pairs), pairs.numbers(), pairs.data()) == (0, [], b"")
        pairs.add(7, b"abc")
        pairs.add(4_000_000_000, b"")
        assert (pairs.numbers(), pairs.data()) == ([7, 4_000_000_000], b"abc")
        pairs.add(9, b"de")
        assert (pairs.numbers(), pairs.data()) == ([7, 4_000_000_000, 9], b"abcde")
        assert pairs.ends.tolist() == [0, 3, 3, 5]
        assert len(pairs) == 3


def test_nothing_is_taken_in_afterwards():
    with Pairs() as pairs:
        pairs.add(1, b"a")
    with pytest.raises(ValueError, match="closed file"):
        pairs.add(2, b"b")
