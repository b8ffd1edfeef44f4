"""Decides where every record of a split goes, and what a worker holds at a time.

A record's output position is its place in the new order of the whole split; a shard holds those
between two bounds. They come from a formula, so that workers need not receive them; only where
labels decide are they a table, kept as a file.
"""

import dataclasses
from collections.abc import Iterable

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardTask:
    """Neighbouring shards that are written by one worker, one after the other."""

    first_shard: int
    stop_shard: int  # the first that is not part of it
    # bounds of the output positions that are held in memory at a time: all at once, or, where a
    # single shard is larger than memory, some of them after the others
    cuts: tuple[int, ...]


def plan_tasks(
    layout: SplitLayout, record_bytes: float | Iterable[Ints], *, memory_bytes: int
) -> tuple[ShardTask, ...]:
    """As few tasks as there can be that hold `memory_bytes` at a time, in order of position.

    What is larger by itself, such as one record, is held alone.

    Args:
        record_bytes: of memory that each record takes, in the order of the input, some of them
            after the others; or about that many each.
    """
    step = max(1, -(-layout.num_records // _MOST_CELLS))
    grid = np.arange(0, layout.num_records + 1, step, dtype=np.int64)
    cells = np.union1d(np.array(layout.bounds, np.int64), grid)  # output positions
    held, first = np.zeros(len(cells) - 1), 0
    if isinstance(record_bytes, float):
        held = np.ceil(np.diff(cells) * record_bytes)
    else:
        for some in record_bytes:
            owners = np.searchsorted(cells, layout.positions(first, first + len(some)), "right") - 1
            held += np.bincount(owners, weights=some, minlength=len(held))
            first += len(some)
    ends = np.concatenate([[0], np.cumsum(held)])
    places = np.searchsorted(cells, layout.bounds).tolist()  # of the shards, among the cells
    tasks, shard = list[ShardTask](), 0
    while shard < layout.num_shards:
        stop = shard + 1
        limit = ends[places[shard]] + memory_bytes
        while stop < layout.num_shards and ends[places[stop + 1]] <= limit:
            stop += 1
        cuts = [places[shard]]
        while cuts[-1] < places[stop]:
            limit = ends[cuts[-1]] + memory_bytes
            fitting = int(np.searchsorted(ends, limit, side="right")) - 1
            cuts.append(min(max(fitting, cuts[-1] + 1), places[stop]))
        bounds = tuple(cells[cuts].tolist())
        tasks.append(ShardTask(first_shard=shard, stop_shard=stop, cuts=bounds))
        shard = stop
    return tuple(tasks)
