"""Parts of files as one long list of records, and cuts of it."""

from collections.abc import Sequence

from trainer_utils.dataset import FileRange

__all__ = ["cut"]


def cut(ranges: Sequence[FileRange], start: int, stop: int) -> list[FileRange]:
    """The parts of files that hold the records `start` to `stop` of all those of `ranges`."""
    parts = []
    first = 0
    for part in ranges:
        begin, end = max(start, first), min(stop, first + part.take)
        if begin == first and end == first + part.take:
            parts.append(part)
        elif begin < end:
            to_end = part.to_end and end == first + part.take
            parts.append(FileRange(part.path, part.skip + begin - first, end - begin, to_end))
        first += part.take
    return parts
