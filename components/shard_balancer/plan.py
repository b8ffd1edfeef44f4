"""Decides where every record of a split goes, from counts alone.

layout = SplitLayout(split="train", num_records=1000, num_shards=8, seed=0, shuffle=True)
layout.places(0, 100)       # the places of the first hundred records
layout.bounds               # where shards begin and end among the places
"""

import dataclasses
import itertools

import numpy as np
import numpy.typing as npt

from components.common.source import SourceShard
from trainer_utils.format import keyed_hash, permute, shard_bounds

__all__ = ["Bucket", "SplitLayout", "plan_buckets"]

_OBJECT_BYTES = 64  # of Python's, beside the framed bytes of a record that is held


@dataclasses.dataclass(frozen=True)
class SplitLayout:
    """Where the records of one split go.

    Args:
        split: its name.
        num_records, num_shards: of the whole split.
        seed: of the permutation, which differs from split to split.
        shuffle: False keeps the order of the input.
    """

    split: str
    num_records: int
    num_shards: int
    seed: int
    shuffle: bool

    def places(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """The places of the records `start` to `stop` of the input: `(records,) int64`."""
        positions = np.arange(start, stop, dtype=np.int64)
        if not self.shuffle:
            return positions
        own_seed = keyed_hash(self.split.encode(), seed=self.seed, purpose="shuffle") % 2**63
        return permute(positions, num_records=self.num_records, seed=own_seed)

    @property
    def bounds(self) -> npt.NDArray[np.int64]:
        """`(num_shards + 1,) int64`: shard i holds the places from bounds[i] to bounds[i + 1]."""
        return shard_bounds(num_records=self.num_records, num_shards=self.num_shards)


@dataclasses.dataclass(frozen=True)
class Bucket:
    """Neighbouring shards that are written together, since their records fit into memory."""

    layout: SplitLayout
    index: int
    first_shard: int
    last_shard: int

    @property
    def key(self) -> str:
        """Its name among all buckets."""
        return f"{self.layout.split}-{self.index:05d}"

    @property
    def first_place(self) -> int:
        """The place of its first record."""
        return int(self.layout.bounds[self.first_shard])

    @property
    def stop_place(self) -> int:
        """The place after its last record."""
        return int(self.layout.bounds[self.last_shard + 1])


def plan_buckets(
    layout: SplitLayout, shards: list[SourceShard], *, memory_bytes: int
) -> list[Bucket]:
    """As few buckets as keep each within `memory_bytes`, or at one shard."""
    held = sum(shard.bytes for shard in shards) + _OBJECT_BYTES * layout.num_records
    number = min(max(1, -(-held // memory_bytes)), layout.num_shards)
    ends = shard_bounds(num_records=layout.num_shards, num_shards=number).tolist()
    return [
        Bucket(layout, index, start, stop - 1)
        for index, (start, stop) in enumerate(itertools.pairwise(ends))
    ]
