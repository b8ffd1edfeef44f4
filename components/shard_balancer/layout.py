"""Decides where every record of a split goes, and what a worker holds at a time.

layout = SplitLayout(split="train", num_records=1000, bounds=(0, 500, 1000), seed=0, shuffle=True)
layout.places(0, 100)                            # the places of the first hundred records
plan_tasks(layout, held, memory_bytes=1 << 30)   # which shards are written together, and how

A record's place is its position in the new order of the whole split; a shard holds the places
between two bounds. Places come from a formula, so that workers need not receive them; only where
labels decide are they a table, kept as a file.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from trainer_utils.format import ShardName, keyed_hash, permute
from trainer_utils.storage import open_for_reading

__all__ = ["Cells", "SplitLayout", "Task", "plan_tasks"]

Ints = npt.NDArray[np.int64]

_MOST_CELLS = 1 << 16
_PLACE_BYTES = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitLayout:
    """Where the records of one split go.

    Args:
        bounds: shard i holds the places from bounds[i] to bounds[i + 1].
        seed: of the permutation, which differs from split to split.
        shuffle: False keeps the order of the input.
        places_path: a file of all places, int64, in the order of the input; None: as the seed
            has it.
    """

    split: str
    num_records: int
    bounds: tuple[int, ...]
    seed: int
    shuffle: bool
    places_path: str | None = None

    @property
    def num_shards(self) -> int:
        """How many shards it has."""
        return len(self.bounds) - 1

    def shard_name(self, shard_index: int, *, gzip: bool) -> ShardName:
        """The name of one of its shards."""
        return ShardName(
            split=self.split, shard_index=shard_index, num_shards=self.num_shards, gzip=gzip
        )

    def places(self, start: int, stop: int) -> Ints:
        """The places of the records `start` to `stop` of the input: `(records,) int64`."""
        if self.places_path is not None:
            with open_for_reading(self.places_path) as stream:
                stream.seek(start * _PLACE_BYTES)
                return np.frombuffer(stream.read((stop - start) * _PLACE_BYTES), np.int64)
        positions = np.arange(start, stop, dtype=np.int64)
        if not self.shuffle:
            return positions
        own_seed = keyed_hash(self.split.encode(), seed=self.seed, purpose="shuffle") % 2**63
        return permute(positions, num_records=self.num_records, seed=own_seed)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cells:
    """How many bytes lie between which places.

    Args:
        bounds: `(cells + 1,) int64`: cell i holds the places from bounds[i] to bounds[i + 1].
        held: `(cells,) int64`: bytes of memory that its records take.
    """

    bounds: Ints
    held: Ints

    @classmethod
    def of_layout(cls, layout: SplitLayout) -> "Cells":
        """Empty cells: the shards, cut further where there are few."""
        step = max(1, -(-layout.num_records // _MOST_CELLS))
        grid = np.arange(0, layout.num_records + 1, step, dtype=np.int64)
        bounds = np.union1d(np.array(layout.bounds, np.int64), grid)
        return cls(bounds=bounds, held=np.zeros(len(bounds) - 1, np.int64))

    def add(self, places: Ints, held: Ints) -> None:
        """Takes in records that take `held` bytes each."""
        cells = np.searchsorted(self.bounds, places, side="right") - 1
        self.held[:] += np.bincount(cells, weights=held, minlength=len(self.held)).astype(np.int64)

    def fill(self, held: int) -> None:
        """Takes in that all records together take `held` bytes, and each about the same."""
        per_record = held / max(int(self.bounds[-1]), 1)
        self.held[:] = np.ceil(np.diff(self.bounds) * per_record).astype(np.int64)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """Neighbouring shards that are written by one worker, one after the other.

    Args:
        first_shard, last_shard: which; the last is part of it.
        bounds: of the places that are held in memory at a time: all at once, or, where a single
            shard is larger than memory, some of them after the others.
    """

    layout: SplitLayout
    first_shard: int
    last_shard: int
    bounds: tuple[int, ...]

    @property
    def key(self) -> str:
        """Its name among all tasks."""
        return f"{self.layout.split}-{self.first_shard:05d}"


def plan_tasks(layout: SplitLayout, cells: Cells, *, memory_bytes: int) -> list[Task]:
    """As few tasks as there can be with each bucket within `memory_bytes`, in order of place.

    A cell that is larger by itself, such as one record, is a bucket of its own.
    """
    ends = np.concatenate([[0], np.cumsum(cells.held)])
    shard_cells = np.searchsorted(cells.bounds, layout.bounds).tolist()
    tasks = []
    shard = 0
    while shard < layout.num_shards:
        first_cell = shard_cells[shard]
        reach = ends[first_cell] + memory_bytes
        fitting = int(np.searchsorted(ends, reach, side="right")) - 1
        stop_shard = max(int(np.searchsorted(shard_cells, fitting, side="right")) - 1, shard + 1)
        stop_shard = min(stop_shard, layout.num_shards)
        cuts = _packed(ends, first_cell, shard_cells[stop_shard], memory_bytes)
        tasks.append(
            Task(
                layout=layout,
                first_shard=shard,
                last_shard=stop_shard - 1,
                bounds=tuple(cells.bounds[cuts].tolist()),
            )
        )
        shard = stop_shard
    return tasks


def _packed(ends: Ints, first: int, stop: int, memory_bytes: int) -> list[int]:
    """Cuts the cells `first` to `stop` into as few runs within `memory_bytes` as there can be."""
    cuts = [first]
    while cuts[-1] < stop:
        fitting = int(np.searchsorted(ends, ends[cuts[-1]] + memory_bytes, side="right")) - 1
        cuts.append(min(max(fitting, cuts[-1] + 1), stop))
    return cuts if len(cuts) > 1 else [first, stop]
