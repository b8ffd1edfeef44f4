"""Framed records held in memory, and brought into the order of their places.

    held = PlacedRecords()
    held.add(block, places)
    held.arrange()
    for chunk in held.chunks(block_bytes=4 << 20): stream.write(chunk.frames)

Records stay in their frames: nothing is parsed, copied record by record, or checked twice.
"""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from trainer_utils.format import RecordBlock

__all__ = ["OBJECT_BYTES", "Chunk", "PlacedRecords"]

Ints = npt.NDArray[np.int64]

# Of Python's and numpy's, for each record that is held, beside its framed bytes: an object's head,
# the reference to it, its place, length and sum, and these again while they are sorted.
OBJECT_BYTES = 128


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Some neighbouring records in order: frames, as `ShardWriter` takes them, and their facts."""

    frames: bytes | list[memoryview]
    places: Ints
    lengths: Ints
    payload_crcs: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.places)


class PlacedRecords:
    """Records, each with its place."""

    def __init__(self) -> None:
        self._frames: list[bytes | memoryview] = []
        self._places: list[Ints] = []
        self._lengths: list[Ints] = []
        self._crcs: list[npt.NDArray[np.uint32]] = []
        self.held_bytes = 0

    def add(self, block: RecordBlock, places: Ints) -> None:
        """Takes the records of a block in; `places`: `(records,) int64`."""
        self._frames += block.frames()
        self._places.append(places)
        self._lengths.append(block.lengths)
        self._crcs.append(block.payload_crcs)
        self.held_bytes += len(block.data) + OBJECT_BYTES * len(block)

    def arrange(self) -> Ints:
        """Brings the records into the order of their places; returns the places, ascending.

        Nothing can be added after this.
        """
        places = _emptied(self._places)
        self._order = np.argsort(places, kind="stable")
        self.places = places[self._order]
        del places
        self.lengths = _emptied(self._lengths)[self._order]
        self._payload_crcs = _emptied(self._crcs)[self._order].astype(np.uint32)
        return self.places

    def chunks(self, cuts: Ints | None = None, *, block_bytes: int) -> Iterator[Chunk]:
        """All records in order of place, about `block_bytes` at a time; after `arrange`.

        Args:
            cuts: places that no chunk reaches across, such as the bounds of shards.
        """
        bounds = self._bounds(cuts, block_bytes)
        for start, stop in itertools.pairwise(bounds):
            frames = [self._frames[i] for i in self._order[start:stop].tolist()]
            yield Chunk(
                _joined_if_short(frames),
                self.places[start:stop],
                self.lengths[start:stop],
                self._payload_crcs[start:stop],
            )

    def _bounds(self, cuts: Ints | None, block_bytes: int) -> list[int]:
        ends = np.cumsum(self.lengths)
        steps = np.arange(block_bytes, ends[-1:].sum(), block_bytes)
        bounds: list[Any] = [[0], np.searchsorted(ends, steps) + 1, [len(ends)]]
        if cuts is not None:
            bounds.append(np.searchsorted(self.places, cuts))
        return cast(list[int], np.unique(np.concatenate(bounds)).tolist())


def _joined_if_short(frames: list[Any]) -> bytes | list[memoryview]:
    """Records that a block has as views are large: a copy would cost more than a write for each."""
    if all(isinstance(frame, memoryview) for frame in frames):
        return frames
    return b"".join(frames)


def _emptied(arrays: list[Any]) -> Ints:
    """The arrays as one, in place of the list's: both together would take twice the memory."""
    whole: Ints = np.concatenate([np.zeros(0, np.int64), *arrays])
    arrays.clear()
    return whole
