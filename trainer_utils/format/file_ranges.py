"""Parts of files as one long list of records, and cuts of it.

    ranges = [FileRange("a", skip=0, take=5, to_end=True), FileRange("b", 0, 5, True)]
    RecordPositions(ranges).locate(np.array([7]))    # [RecordName(path='b', number=2)]
    RecordPositions(ranges).cut(3, 7)                # the last two records of a, the first two of b

A record's position is its place in that list.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["FileRange", "RecordName", "RecordPositions"]


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
        """The parts of files that hold the positions `start` to `stop`, the latter not included."""
        first, last = np.searchsorted(self._starts, (start + 1, stop)).tolist()
        parts = []
        for index in range(max(first - 1, 0), last):
            part, place = self._ranges[index], int(self._starts[index])
            begin, end = max(start - place, 0), min(stop - place, part.take)
            if begin < end:
                to_end = part.to_end and end == part.take
                parts.append(FileRange(part.path, part.skip + begin, end - begin, to_end))
        return parts

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

    def locate(self, positions: npt.NDArray[np.int64]) -> list[RecordName]:
        """Which file, and which record in it, each of `(n,) int64` positions is."""
        indices = np.searchsorted(self._starts, positions, side="right") - 1
        numbers = positions + self._shifts[indices]
        return [
            RecordName(self._paths[index], number)
            for index, number in zip(indices.tolist(), numbers.tolist(), strict=True)
        ]
