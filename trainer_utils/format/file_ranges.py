"""Parts of files as one long list of records, and cuts of it."""

import itertools
from collections.abc import Sequence

from trainer_utils.dataset.opening import FileRange

__all__ = ["cut", "cut_all"]


def cut(ranges: Sequence[FileRange], start: int, stop: int) -> list[FileRange]:
    """The parts of files that hold the records `start` to `stop` of all those of `ranges`."""
    return cut_all(ranges, [start, stop])[0]


def cut_all(ranges: Sequence[FileRange], bounds: Sequence[int]) -> list[list[FileRange]]:
    """The parts of files between each of the rising `bounds` and the next, in one pass."""
    cuts: list[list[FileRange]] = []
    index, first = 0, 0  # of the part that the next cut may begin in
    for start, stop in itertools.pairwise(bounds):
        parts: list[FileRange] = []
        while index < len(ranges) and first < stop:
            part = ranges[index]
            begin, end = max(start, first), min(stop, first + part.take)
            if begin == first and end == first + part.take:
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
