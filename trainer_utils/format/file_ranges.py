"""Parts of files as one long list of records, and cuts of it.

    ranges = [FileRange("a", skip=0, take=5, to_end=True), FileRange("b", 0, 5, True)]
    cut(ranges, 3, 7)                                # the last two records of a, the first two of b
    RecordPositions(ranges).locate(np.array([7]))    # [RecordName(path='b', number=2)]
    RecordPositions(ranges).cut(3, 7)                # as `cut`, for many cuts of a long list

A record's position is its place in that list.
"""

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["FileRange", "RecordName", "RecordPositions", "cut", "cut_all"]


@dataclasses.dataclass(frozen=True)
class FileRange:
    """`take` records of a file, after the first `skip`; `to_end`: it should have no more."""

    path: str
    skip: int
    take: int
    to_end: bool


class RecordName(NamedTuple):
    """A record: the path of its file, and its number there, from 0."""

    path: str
    number: int


def cut(ranges: Sequence[FileRange], start: int, stop: int) -> list[FileRange]:
    """The parts of files that hold the positions `start` to `stop`, the latter not included."""
    return cut_all(ranges, [start, stop])[0]


def cut_all(ranges: Sequence[FileRange], bounds: Sequence[int]) -> list[list[FileRange]]:
    """The parts of files between each of the rising `bounds` and the next, in one pass.

    None of them is empty."""
    cuts: list[list[FileRange]] = []
    index, first = 0, 0  # of the part that the next cut may begin in
    for start, stop in itertools.pairwise(bounds):
        parts: list[FileRange] = []
        while index < len(ranges) and first < stop:
            part = ranges[index]
            begin, end = max(start, first), min(stop, first + part.take)
            if part.take and begin == first and end == first + part.take:
                parts.append(part)
            elif begin < end:
                to_end = part.to_end and end == first + part.take
                parts.append(FileRange(part.path, part.skip + begin - first, end - begin, to_end))
            if first + part.take > stop:
                break
            first += part.take
            index += 1
        cuts.append(parts)
    return cuts


class RecordPositions:
    """Finds the files of positions, of any number of them, in no order.

    Each is found by bisection, so that thousands of workers can ask for their part of a hundred
    thousand shards.

    Args:
        ranges: the list that they are places in.
    """

    def __init__(self, ranges: Sequence[FileRange]) -> None:
        self._ranges = ranges
        self._paths = [part.path for part in ranges]
        takes = np.array([part.take for part in ranges], np.int64)
        self._starts = np.cumsum(takes) - takes
        self._shifts = np.array([part.skip for part in ranges], np.int64) - self._starts

    def cut(self, start: int, stop: int) -> list[FileRange]:
        """The same parts as `cut` has, of the list as a whole."""
        first, last = np.searchsorted(self._starts, (start + 1, stop)).tolist()
        first = max(first - 1, 0)
        before = int(self._starts[first]) if first < len(self._ranges) else 0
        return cut(self._ranges[first:last], start - before, stop - before)

    def positions_of(self, name: RecordName) -> list[int]:
        """The positions of a record, in rising order: none, one, or several where parts repeat."""
        found = []
        for index in self._parts_of_paths.get(name.path, ()):
            part = self._ranges[index]
            if part.skip <= name.number < part.skip + part.take:
                found.append(name.number - int(self._shifts[index]))
        return found

    @functools.cached_property
    def _parts_of_paths(self) -> dict[str, list[int]]:
        parts: dict[str, list[int]] = {}
        for index, path in enumerate(self._paths):
            parts.setdefault(path, []).append(index)
        return parts

    def runs(self, positions: npt.NDArray[np.int64]) -> list[tuple[str, int, int]]:
        """Records of rising positions as parts of files: path, first record, and how many."""
        indices = np.searchsorted(self._starts, positions, side="right") - 1
        numbers = positions + self._shifts[indices]
        is_new = (np.diff(indices, prepend=-1) != 0) | (np.diff(numbers, prepend=-2) != 1)
        begins = np.flatnonzero(is_new)
        counts = np.diff(begins, append=len(positions))
        return [
            (self._paths[index], number, count)
            for index, number, count in zip(
                indices[begins].tolist(), numbers[begins].tolist(), counts.tolist(), strict=True
            )
        ]

    def locate(self, positions: npt.NDArray[np.int64]) -> list[RecordName]:
        """Which file, and which record in it, each of `(n,) int64` positions is."""
        indices = np.searchsorted(self._starts, positions, side="right") - 1
        numbers = positions + self._shifts[indices]
        return [
            RecordName(self._paths[index], number)
            for index, number in zip(indices.tolist(), numbers.tolist(), strict=True)
        ]
