"""`shuffle="global"`: a true permutation of all records each epoch, with no shuffle buffer.

strategy = GlobalShuffle(ranges, layout=layout, worker=0, seed=0)
strategy.records(epoch=0, step=5)        # [RecordName(path='…', number=17), …]

Where the n-th record of an epoch lies is computed, and it is read there.
"""

from collections.abc import Sequence

import numpy as np

from trainer_utils.format import ConfigError, keyed_hash, permute
from trainer_utils.format.file_ranges import FileRange, RecordName, RecordPositions
from trainer_utils.format.planning import unpermute
from trainer_utils.order.layout import BatchLayout
from trainer_utils.order.strategy import Positions, ShuffleStrategy, signed_64

__all__ = ["GlobalShuffle"]

_CHUNK_RECORDS = 8192  # 1 ms; fewer would cost nearly as much


class GlobalShuffle(ShuffleStrategy):
    """A permutation of all records, worked out some thousand places at a time.

    Args:
        ranges, layout, worker: as of `ShuffleStrategy`.
        seed: of all orders.

    Raises:
        ConfigError: a shard is a gzip file, of which no single record can be read.
    """

    def __init__(
        self, ranges: Sequence[FileRange], *, layout: BatchLayout, worker: int, seed: int
    ) -> None:
        super().__init__(ranges, layout=layout, worker=worker)
        for part in ranges:
            if part.path.endswith(".gz"):
                raise ConfigError(
                    "shuffle: expected True or a number for gzip files, got 'global' "
                    f"({part.path}). Write the dataset without gzip.",
                    setting="shuffle",
                )
        self._files = RecordPositions(ranges)
        self._seed = signed_64(seed)
        self._kept = (-1, 0, np.zeros(0, np.int64))  # epoch, first place, records

    def positions(self, epoch: int, step: int) -> Positions:
        """As of `ShuffleStrategy`."""
        begin = self.layout.begin(step)
        first, last = self.layout.rows(self.worker, step=step)
        return self._between(epoch, begin + first, begin + last)

    def step_of(self, epoch: int, position: int) -> int | None:
        """As of `ShuffleStrategy`."""
        (place,) = unpermute(
            np.array([position], np.int64),
            num_records=self.layout.num_records,
            seed=self._epoch_seed(epoch),
        ).tolist()
        return self.layout.step_of(place)

    def records(self, epoch: int, step: int) -> list[RecordName]:
        """What to read: the same records by their files."""
        return self._files.locate(self.positions(epoch, step))

    def _between(self, epoch: int, start: int, stop: int) -> Positions:
        kept_epoch, first, records = self._kept
        if kept_epoch != epoch or not first <= start <= stop <= first + len(records):
            first = start // _CHUNK_RECORDS * _CHUNK_RECORDS
            last = min(-(-stop // _CHUNK_RECORDS) * _CHUNK_RECORDS, self.layout.num_records)
            records = self._permuted(epoch, np.arange(first, last))
            self._kept = epoch, first, records
        return records[start - first : stop - first]

    def _permuted(self, epoch: int, places: Positions) -> Positions:
        return permute(places, num_records=self.layout.num_records, seed=self._epoch_seed(epoch))

    def _epoch_seed(self, epoch: int) -> int:
        identity = epoch.to_bytes(8, "little", signed=True)
        return keyed_hash(identity, seed=self._seed, purpose="epoch") % (1 << 63)
