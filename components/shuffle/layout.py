"""Decides where every record of a split goes, and what a worker holds at a time.

A record's output position is its place in the new order of the whole split; a shard holds those
between two bounds. They come from a formula, so that workers need not receive them; only where
labels decide are they a table, kept as a file.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from trainer_utils.format import ShardName, keyed_hash, permute
from trainer_utils.storage import open_for_reading

Ints = npt.NDArray[np.int64]

_MOST_CELLS = 1 << 16
_POSITION_BYTES = 8


def shuffle_seed(split: str, seed: int) -> int:
    """The seed of a split's own permutation."""
    return keyed_hash(split.encode(), seed=seed, purpose="shuffle") % 2**63


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitLayout:
    """Where the records of one split go."""

    split: str
    bounds: tuple[int, ...]  # shard i holds the positions from bounds[i] to bounds[i + 1]
    seed: int | None  # of the permutation; None keeps the order of the input
    # of all positions, in the order of the input, or the path of a file of it, as int64; None: as
    # the seed has it
    table: Ints | str | None = dataclasses.field(default=None, repr=False)
    gzip: bool = False

    @property
    def num_records(self) -> int:
        """How many records it has."""
        return self.bounds[-1]

    @property
    def num_shards(self) -> int:
        """How many shards it has."""
        return len(self.bounds) - 1

    def shard_name(self, shard_index: int) -> ShardName:
        """The name of one of its shards."""
        return ShardName(
            split=self.split, shard_index=shard_index, num_shards=self.num_shards, gzip=self.gzip
        )

    def positions(self, start: int, stop: int) -> Ints:
        """The output positions of the records `start` to `stop` of the input: `(n,) int64`."""
        if isinstance(self.table, str):
            with open_for_reading(self.table) as stream:
                stream.seek(start * _POSITION_BYTES)
                return np.frombuffer(stream.read((stop - start) * _POSITION_BYTES), np.int64)
        if self.table is not None:
            return self.table[start:stop]
        numbers = np.arange(start, stop, dtype=np.int64)
        if self.seed is None:
            return numbers
        return permute(numbers, num_records=self.num_records, seed=self.seed)


class Cells:
    """How many bytes of memory the records between which output positions take.

    Attributes:
        bounds: `(cells + 1,) int64`: the bounds of the shards, and more where there are few.
        held: `(cells,) int64`, in bytes.
    """

    def __init__(self, layout: SplitLayout, num_bytes: int = 0) -> None:
        """Cells of a layout, of whose records each takes the same of `num_bytes`."""
        step = max(1, -(-layout.num_records // _MOST_CELLS))
        grid = np.arange(0, layout.num_records + 1, step, dtype=np.int64)
        self.bounds = np.union1d(np.array(layout.bounds, np.int64), grid)
        share = np.diff(self.bounds) * (num_bytes / max(layout.num_records, 1))
        self.held = np.ceil(share).astype(np.int64)

    def add(self, positions: Ints, held: Ints) -> None:
        """Takes in records that take `held` bytes each."""
        cells = np.searchsorted(self.bounds, positions, side="right") - 1
        self.held += np.bincount(cells, weights=held, minlength=len(self.held)).astype(np.int64)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardTask:
    """Neighbouring shards that are written by one worker, one after the other."""

    first_shard: int
    stop_shard: int  # the first that is not part of it
    # bounds of the output positions that are held in memory at a time: all at once, or, where a
    # single shard is larger than memory, some of them after the others
    cuts: tuple[int, ...]


def plan_tasks(layout: SplitLayout, cells: Cells, *, memory_bytes: int) -> tuple[ShardTask, ...]:
    """As few tasks as there can be that hold `memory_bytes` at a time, in order of position.

    A cell that is larger by itself, such as one record, is held alone.
    """
    ends = np.concatenate([[0], np.cumsum(cells.held)])
    shard_cells = np.searchsorted(cells.bounds, layout.bounds).tolist()
    tasks, shard = [], 0
    while shard < layout.num_shards:
        first = shard_cells[shard]
        fitting = _fitting(ends, first, memory_bytes)
        stop = max(int(np.searchsorted(shard_cells, fitting, side="right")) - 1, shard + 1)
        stop = min(stop, layout.num_shards)
        cuts = [first]
        while cuts[-1] < shard_cells[stop]:
            fitting = _fitting(ends, cuts[-1], memory_bytes)
            cuts.append(min(max(fitting, cuts[-1] + 1), shard_cells[stop]))
        bounds = cells.bounds[cuts].tolist()
        tasks.append(ShardTask(first_shard=shard, stop_shard=stop, cuts=tuple(bounds)))
        shard = stop
    return tuple(tasks)


def _fitting(ends: Ints, first: int, memory_bytes: int) -> int:
    """The last cell to which those from the first fit."""
    return int(np.searchsorted(ends, ends[first] + memory_bytes, side="right")) - 1
