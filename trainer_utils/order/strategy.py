"""`ShuffleStrategy`: the order in which one worker reads the records of an epoch.

    strategy.positions(epoch=0, step=5)      # of the records in this worker's rows of that step

Three kinds: `Sequential` (`shuffle=False`), `Windowed` (True, or a number of records) and
`GlobalShuffle` (`"global"`). Each says two things that agree: which record a row is, computed for
any step alone, and, in a form of its own, what to read one after the other to get them all.
"""

import abc
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from trainer_utils.format.file_ranges import FileRange
from trainer_utils.format.planning import splitmix64
from trainer_utils.order.layout import BatchLayout

__all__ = [
    "Positions",
    "ShuffleStrategy",
    "as_one_file",
    "random_numbers",
    "random_permutation",
    "signed_64",
]

Positions = npt.NDArray[np.int64]
"""`(records,) int64`: places in the list of all records that an epoch has, from 0."""


class ShuffleStrategy(abc.ABC):
    """One worker's order.

    Args:
        ranges: the parts of files that hold an epoch's records, of all workers.
        layout: of an epoch.
        worker: which one this is.
    """

    def __init__(self, ranges: Sequence[FileRange], *, layout: BatchLayout, worker: int) -> None:
        self.ranges = ranges
        self.layout = layout
        self.worker = worker

    @abc.abstractmethod
    def positions(self, epoch: int, step: int) -> Positions:
        """The records in this worker's rows of a step, in the order of these rows."""

    def read_ahead(self, epoch: int, step: int, *, first: int = 0) -> Positions:
        """The records to have at hand soon, a part with each step: here, those of its rows.

        Where more are shuffled at a time, it is a part of those that are shuffled next.

        Args:
            first: the step that this epoch is read from; all since then were asked for.
        """
        return self.positions(epoch, step)

    @abc.abstractmethod
    def step_of(self, epoch: int, position: int) -> int | None:
        """The step that a record comes at, on whichever worker; None: the epoch drops it.

        It is the inverse of `positions`, and takes no longer for more records, but for those of
        a window.
        """


def as_one_file(ranges: Sequence[FileRange]) -> list[FileRange]:
    """The same parts as if of one file: a record's number in it is its position."""
    numbered, first = [], 0
    for part in ranges:
        numbered.append(FileRange("", first, part.take, part.to_end))
        first += part.take
    return numbered


def random_permutation(count: int, seed: int) -> npt.NDArray[np.int64]:
    """A permutation of so many numbers, `(count,) int64`."""
    return np.argsort(random_numbers(seed, count), kind="stable")


def random_numbers(seed: int, count: int) -> npt.NDArray[np.uint64]:
    """Random numbers of 64 bits, all different, `(count,) uint64`."""
    return splitmix64(np.array(seed % (1 << 64), np.uint64), np.arange(count, dtype=np.uint64))


def signed_64(seed: int) -> int:
    """Any seed as a signed number of 64 bits; those that are one stay as they are."""
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63)
