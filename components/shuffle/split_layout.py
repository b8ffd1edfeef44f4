"""The output positions of the records of a split, and the seed that permutes them."""

import dataclasses

import numpy as np
import numpy.typing as npt

from trainer_utils import storage
from trainer_utils.format import ShardName, keyed_hash
from trainer_utils.order.permutation import permute

Ints = npt.NDArray[np.int64]
POSITION_BYTES = 8  # of an int64


def shuffle_seed(split: str, seed: int) -> int:
    """Return the seed of a split's permutation."""
    return keyed_hash(split.encode(), seed=seed, purpose="shuffle") % 2**63


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitLayout:
    """The output positions of the records of one split."""

    split: str
    bounds: tuple[int, ...]  # shard i holds the positions from bounds[i] to bounds[i + 1]
    seed: int | None  # the seed of the permutation; None keeps the order of the input
    # All positions in the order of the input, or the path of a file of them, as int64; None: the
    # permutation of the seed
    table: Ints | str | None = dataclasses.field(default=None, repr=False)
    gzip: bool = False

    @property
    def num_records(self) -> int:
        """Number of records."""
        return self.bounds[-1]

    @property
    def num_shards(self) -> int:
        """Number of shards."""
        return len(self.bounds) - 1

    def shard_name(self, shard_index: int) -> ShardName:
        """Return the name of a shard."""
        return ShardName(
            split=self.split, shard_index=shard_index, num_shards=self.num_shards, gzip=self.gzip
        )

    def positions(self, start: int, stop: int) -> Ints:
        """Return the output positions of input records `start` to `stop`, `(n,) int64`."""
        if isinstance(self.table, str):
            with storage.open_for_reading(self.table) as stream:
                stream.seek(start * POSITION_BYTES)
                return np.frombuffer(stream.read((stop - start) * POSITION_BYTES), np.int64)
        if self.table is not None:
            return self.table[start:stop]
        numbers = np.arange(start, stop, dtype=np.int64)
        if self.seed is None:
            return numbers
        return permute(numbers, num_records=self.num_records, seed=self.seed)
