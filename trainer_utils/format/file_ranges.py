"""Record ranges of files as one long list of records, and cuts of it.

    ranges = [FileRange("a", skip=0, take=5), FileRange("b", 0, 5)]
    RecordPositions(ranges).locate(np.array([7]))    # [RecordName(path='b', number=2)]
    RecordPositions(ranges).cut(3, 7)                # the last two records of a, the first two of b

A record's position is its place in that list.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class FileRange(NamedTuple):
    """`take` records of a file, after the first `skip`."""

    path: str
    skip: int
    take: int


class RecordName(NamedTuple):
    """A record: the path of its file, and its number there, from 0."""

    path: str
    number: int


class RecordPositions:
    """Finds the files of any number of positions, each by bisection."""

    def __init__(self, ranges: Sequence[FileRange]) -> None:
        self._ranges = ranges
        takes = np.array([part.take for part in ranges], np.int64)
        self._starts = np.cumsum(takes) - takes
        self._shifts = np.array([part.skip for part in ranges], np.int64) - self._starts

    def cut(self, start: int, stop: int) -> list[FileRange]:
        """The ranges that hold the positions `start` to `stop`, the latter not included."""
        first, last = np.searchsorted(self._starts, (start + 1, stop)).tolist()
        parts = []
        for index in range(max(first - 1, 0), last):
            (path, skip, take), place = self._ranges[index], int(self._starts[index])
            begin, end = max(start - place, 0), min(stop - place, take)
            if begin < end:
                parts.append(FileRange(path, skip + begin, end - begin))
        return parts

    def positions_of(self, name: RecordName) -> list[int]:
        """The positions of a record, in rising order: none, one, or several where ranges repeat."""
        return [
            name.number - int(self._shifts[index])
            for index in self._ranges_of_paths.get(name.path, ())
            if 0 <= name.number - self._ranges[index].skip < self._ranges[index].take
        ]

    @functools.cached_property
    def _ranges_of_paths(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for index, part in enumerate(self._ranges):
            found.setdefault(part.path, []).append(index)
        return found

    def locate(self, positions: npt.NDArray[np.int64]) -> list[RecordName]:
        """Which file, and which record in it, each of `(n,) int64` positions is."""
        indices = np.searchsorted(self._starts, positions, side="right") - 1
        numbers = (positions + self._shifts[indices]).tolist()
        places = zip(indices.tolist(), numbers, strict=True)
        return [RecordName(self._ranges[index].path, number) for index, number in places]
