"""Order the records of an epoch: as in the files, shuffled in blocks, or shuffled globally.

    order = BlockShuffle(layout, seed=7, block_records=10_000)
    order.batch(epoch=2, step=1, first=0, stop=8)     # positions of rows 0 to 7 of that batch

`epoch_key` derives the seed of each epoch. docs/order.md specifies all three orders. None depends
on the number of workers.
"""

import functools
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from trainer_utils.format.hashing import keyed_hash, splitmix64
from trainer_utils.order.batch_layout import BatchLayout
from trainer_utils.order.permutation import permute

Positions = npt.NDArray[np.int64]
"""`(records,) int64`: indices into the list of all records of an epoch, from 0."""

_CHUNKS_PER_BLOCK = 256  # a block of 256 MiB consists of chunks of 1 MiB
_BLOCKS_KEPT = 3  # the current block, the next one, and one for a validation in between


class FileOrder:
    """The order of the files, for `shuffle=False`.

    With `remainder="drop"`, each epoch starts later by the number of records that one drops.
    """

    def __init__(self, layout: BatchLayout) -> None:
        self._layout = layout

    def batch(self, epoch: int, step: int, first: int, stop: int) -> Positions:
        """Return the records in rows `first` to `stop` (exclusive) of a global batch."""
        records = self._layout.num_records
        begin = (self._layout.begin(step) + epoch * self._layout.num_dropped) % records
        return np.arange(begin + first, begin + stop) % records

    def sequence(self, epoch: int, places: Positions) -> Positions:
        """Return the records at neighbouring places of an epoch whose batches are single records.

        Records that are shuffled together may come in any order. A worker, which takes the first
        ones of each batch, therefore reads neighbours.
        """
        return places


class GlobalShuffle:
    """A true permutation of all records, a different one each epoch, for `shuffle="global"`."""

    def __init__(self, layout: BatchLayout, *, seed: int) -> None:
        self._layout, self._seed = layout, seed

    def batch(self, epoch: int, step: int, first: int, stop: int) -> Positions:
        """Return the records in rows `first` to `stop` (exclusive) of a global batch."""
        begin = self._layout.begin(step)
        return self.sequence(epoch, np.arange(begin + first, begin + stop))

    def sequence(self, epoch: int, places: Positions) -> Positions:
        """Return the records at neighbouring places; see `FileOrder.sequence`."""
        seed = epoch_key(self._seed, epoch, "global") >> 1
        return permute(places, num_records=self._layout.num_records, seed=seed)


class _Block(NamedTuple):
    """Consecutive steps whose records are shuffled together.

    Attributes:
        steps: the number of full batches.
        first_place: the place of its first record in the epoch's sequence of chunks.
        left: `(records,) int64`, evenly spread places within the block that its full batches leave
            over. They form the batches that are not full, or are dropped.
        chunks: `(chunks,) int64`, the position at which each of its chunks begins.
    """

    steps: int
    first_place: int
    left: Positions
    chunks: Positions


class BlockShuffle:
    """Chunks of neighbours in random order, shuffled within blocks: `shuffle=True` or a number.

    An epoch starts at a random record and takes the chunks, each 1/256 of a block, in random order.
    Blocks of consecutive chunks hold at least `block_records` records. The records of a block are
    divided into one stratum per row of a batch: row r of each batch is a record of stratum r, and
    the records of a stratum come in random order. A worker has neighbouring rows, so it reads
    neighbouring chunks, for any number of workers.
    """

    def __init__(self, layout: BatchLayout, *, seed: int, block_records: int) -> None:
        self._layout, self._seed = layout, seed
        self._num_blocks = max(1, layout.full_steps // -(-block_records // layout.batch_size))
        block_steps = layout.full_steps // self._num_blocks
        self._chunk = max(1, block_steps * layout.batch_size // _CHUNKS_PER_BLOCK)
        self._chunks = layout.num_records // self._chunk  # a last, shorter chunk comes at the end
        self._block = functools.lru_cache(maxsize=_BLOCKS_KEPT)(self._make_block)
        self._rows = functools.lru_cache(maxsize=_BLOCKS_KEPT)(self._row_order)

    def batch(self, epoch: int, step: int, first: int, stop: int) -> Positions:
        """Return the records in rows `first` to `stop` (exclusive) of a global batch."""
        layout, number = self._layout, self._block_at(step)
        block = self._block(epoch, number)
        if step < layout.full_steps:
            order = self._rows(epoch, number, first, stop)[:, step - self._first_step(number)]
            within = np.arange(first, stop) * block.steps + order
            # `left[k] - k` places that are not left over come before the k-th one that is.
            before = block.left - np.arange(len(block.left))
            within += np.searchsorted(before, within, side="right")
        else:
            within = block.left[step - layout.full_steps :: len(layout.rest)][first:stop]
        return self._records(block, within)

    def sequence(self, epoch: int, places: Positions) -> Positions:
        """Return the records at neighbouring places; see `FileOrder.sequence`."""
        records = []
        numbers = ((places + 1) * self._num_blocks - 1) // self._layout.num_records
        for number in np.unique(numbers).tolist():
            order = self._rows(epoch, number, 0, 1)[0]
            within = np.sort(order[places[numbers == number] - self._first_step(number)])
            records.append(self._records(self._block(epoch, number), within.astype(np.int64)))
        return np.concatenate(records)

    def _records(self, block: _Block, within: Positions) -> Positions:
        chunk, place = np.divmod(within + block.first_place, self._chunk)
        positions: Positions = block.chunks[chunk - block.first_place // self._chunk] + place
        return positions % self._layout.num_records

    def _block_at(self, step: int) -> int:
        """Return the block of a step. Batches that are not full belong to the last block."""
        full, blocks = self._layout.full_steps, self._num_blocks
        return ((step + 1) * blocks - 1) // full if step < full else blocks - 1

    def _first_step(self, number: int) -> int:
        return number * self._layout.full_steps // self._num_blocks

    def _make_block(self, epoch: int, number: int) -> _Block:
        """Return a block of an epoch: its chunks in random order, and the places left over."""
        layout = self._layout
        first_step, stop_step = self._first_step(number), self._first_step(number + 1)
        steps, first_place = stop_step - first_step, first_step * layout.batch_size
        is_last = number == self._num_blocks - 1
        stop_place = layout.num_records if is_last else stop_step * layout.batch_size
        places = stop_place - first_place
        left = places - steps * layout.batch_size
        chunks = np.arange(first_place // self._chunk, -(-stop_place // self._chunk))
        full = chunks < self._chunks
        seed = epoch_key(self._seed, epoch, "chunks") >> 1
        chunks[full] = permute(chunks[full], num_records=self._chunks, seed=seed)
        spread = (2 * np.arange(left) + 1) * places // max(2 * left, 1)
        begin = epoch_key(self._seed, epoch, "begin") % layout.num_records
        return _Block(steps, first_place, spread, chunks * self._chunk + begin)

    def _row_order(self, epoch: int, number: int, first: int, stop: int) -> npt.NDArray[np.int32]:
        """Return, for each row of each step of a block, the record's index in its stratum.

        Returns:
            `(rows, steps) int32`.
        """
        steps = self._block(epoch, number).steps
        index = np.arange(first * steps, stop * steps, dtype=np.uint64)
        start = np.uint64(epoch_key(self._seed, epoch, "block", number))
        numbers = splitmix64(start, index + np.uint64(1)).reshape(stop - first, steps)
        return np.argsort(numbers, axis=1).astype(np.int32)


Order: TypeAlias = FileOrder | GlobalShuffle | BlockShuffle


def epoch_key(seed: int, epoch: int, purpose: str, number: int = 0) -> int:
    """Return a 64-bit hash of a seed, an epoch, a purpose and a number.

    Source: BLAKE2b (RFC 7693), keyed with the seed and personalised with the purpose.
    """
    identity = epoch.to_bytes(8, "little", signed=True) + number.to_bytes(8, "little")
    return keyed_hash(identity, seed=wrapped_seed(seed), purpose=purpose) % (1 << 64)


def wrapped_seed(seed: int) -> int:
    """Wrap a seed around to a signed 64-bit integer."""
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63)
