"""When each record is read next: what a cache needs to know to let the right one go.

    future = FutureUses(epoch=0, lanes=strategy.reads(0, 0).lanes, next_lanes=…)
    future.next_use("data_tfrecord-00000-of-00008", 0, 100)      # 0.0, then 5120.0

The order is a pure function of seed and epoch, so the future is known. All lanes of a worker go on
alike, hence a position is a number of records of one lane, counted from the first epoch's start.

Source: L. A. Belady, "A study of replacement algorithms for a virtual-storage computer" (1966).
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from trainer_utils.format.file_ranges import FileRange

__all__ = ["FutureUse", "FutureUses"]


class FutureUse(NamedTuple):
    """A part of a file, and the position that its first record is read at."""

    position: float
    part: FileRange


class FutureUses:
    """What one worker reads from now on, to the end of its next epoch.

    Args:
        epoch: the number of the first.
        lanes: what is left of it, lane by lane.
        next_lanes: what the epoch after it reads; empty where that is not known.
    """

    def __init__(
        self,
        epoch: int,
        lanes: Sequence[Sequence[FileRange]],
        next_lanes: Sequence[Sequence[FileRange]] = (),
    ) -> None:
        left = max((sum(part.take for part in lane) for lane in lanes), default=0)
        whole = max((sum(part.take for part in lane) for lane in next_lanes), default=left)
        self.length = max(whole, left, 1)
        """Positions of an epoch."""
        self.start = float((epoch + 1) * self.length - left)
        """The position of the first record."""
        uses = [_uses(lane, self.start) for lane in lanes]
        self._lanes = uses
        later = [_uses(lane, float((epoch + 1) * self.length)) for lane in next_lanes]
        self._by_path: dict[str, list[FutureUse]] = {}
        for use in sorted(itertools.chain(*uses, *later), key=lambda use: use.position):
            self._by_path.setdefault(use.part.path, []).append(use)

    def next_use(self, path: str, first: int, stop: int, *, after: float = -1.0) -> float | None:
        """The first position after `after` that a record of `[first, stop)` of a file is read at.

        Returns:
            Infinity where none is any more; None where none ever was.
        """
        is_known = False
        for position, part in self._by_path.get(path, ()):
            begin = max(first, part.skip)
            if begin < min(stop, part.skip + part.take):
                is_known = True
                found = position + begin - part.skip
                if found > after:
                    return found
        return math.inf if is_known else None

    def lanes(self) -> list[list[FutureUse]]:
        """What is left of the first epoch, lane by lane, each in its order."""
        return self._lanes


def _uses(lane: Sequence[FileRange], start: float) -> list[FutureUse]:
    uses = []
    for part in lane:
        uses.append(FutureUse(start, part))
        start += part.take
    return uses
