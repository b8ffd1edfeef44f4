"""Keep which records of a file are selected, in one bit for each, and find the n-th of them.

    bits = RecordBits.of(np.array([True, False, True]))
    len(bits), bits.count, bits.mask()          # 3, 2, [True, False, True]
    blocks = SelectedBlocks([bits], firsts=np.array([0]))
    blocks.select(np.array([1]), files=np.array([0]))      # [2]: the second one is number 2

Source: rank and select by a directory of counts (Jacobson, "Space-efficient static trees and
graphs", 1989), here with the count before each block of 64 records: two bits for a record.
"""

import functools
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

_BLOCK_BYTES = 8
_BLOCK = 8 * _BLOCK_BYTES  # records of a block
_ORDER: Literal["little"] = "little"  # of the bits in a byte

Positions = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class RecordBits:
    """A selection of consecutive records.

    Args:
        bits: `(bytes,) uint8`, a bit for each record, the lowest of a byte first.
        num_records: the number of records.
    """

    def __init__(self, bits: npt.NDArray[np.uint8], num_records: int) -> None:
        self.bits, self._num_records = bits, num_records

    @classmethod
    def of(cls, mask: Bools) -> "RecordBits":
        """Return the selection of a mask."""
        return cls(np.packbits(mask, bitorder=_ORDER), len(mask))

    def __len__(self) -> int:
        return self._num_records

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecordBits):
            return NotImplemented
        return len(self) == len(other) and np.array_equal(self.bits, other.bits)

    def __hash__(self) -> int:
        return hash((self._num_records, self.bits.tobytes()))

    def __repr__(self) -> str:
        return f"RecordBits({self.count} of {self._num_records})"

    @functools.cached_property
    def count(self) -> int:
        """Number of selected records."""
        return int(_COUNTS[self.bits].sum(dtype=np.int64))

    def mask(self) -> Bools:
        """Return the selection as `(records,) bool`."""
        mask: Bools = np.unpackbits(self.bits, count=self._num_records, bitorder=_ORDER).view(
            np.bool_
        )
        return mask

    def part(self, begin: int, end: int) -> "RecordBits":
        """Return the selection of the records from `begin` to `end` (exclusive)."""
        return RecordBits.of(self.mask()[begin:end])


class SelectedBlocks:
    """The selected records of several files, found by their place in the list of all of them.

    Args:
        selections: the selection of each file.
        firsts: `(files,) int64`, the place of the first selected record of each file, ascending.
    """

    def __init__(self, selections: Sequence[RecordBits], firsts: Positions) -> None:
        counts = [-(-len(selection) // _BLOCK) for selection in selections]
        self._first_blocks = np.cumsum([0, *counts[:-1]])
        padded = [np.zeros((count, _BLOCK_BYTES), np.uint8) for count in counts]
        for blocks, selection in zip(padded, selections, strict=True):
            blocks.reshape(-1)[: len(selection.bits)] = selection.bits
        self._bits = np.concatenate(padded)
        selected = _COUNTS[self._bits].sum(axis=1, dtype=np.int64)
        before = np.cumsum(selected) - selected
        # Places of the blocks' first selected records. Blocks of other files do not count.
        file_of = np.repeat(np.arange(len(counts)), counts)
        file_firsts = np.append(before, 0)[self._first_blocks] if len(before) else before
        self._places = firsts[file_of] + before - file_firsts[file_of]

    def select(self, places: Positions, *, files: Positions) -> Positions:
        """Return the number of a record in its file, for each place in the list of all files.

        Args:
            places: `(n,) int64`, places in the list of the selected records of all files.
            files: `(n,) int64`, the file of each.
        """
        blocks = np.searchsorted(self._places, places, side="right") - 1
        ranks = places - self._places[blocks]
        rows = self._bits[blocks]
        counts = _COUNTS[rows].cumsum(axis=1, dtype=np.uint8)
        byte = (counts <= ranks[:, np.newaxis]).sum(axis=1)
        every = np.arange(len(rows))
        here = rows[every, byte]
        ranks = ranks - (counts[every, byte] - _COUNTS[here])
        within = 8 * byte + _SELECT[here, ranks]
        numbers: Positions = (blocks - self._first_blocks[files]) * _BLOCK + within
        return numbers

    def place(self, file: int, number: int) -> int | None:
        """Return the place of a record, given by its number in its file; None if not selected."""
        block, within = divmod(number, _BLOCK)
        block += int(self._first_blocks[file])
        bits = np.unpackbits(self._bits[block], bitorder=_ORDER)
        if not bits[within]:
            return None
        return int(self._places[block]) + int(bits[:within].sum())


def _tables() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Return by byte the number of its bits that are set, and the place of the n-th of them."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, np.newaxis], axis=1, bitorder=_ORDER)
    places = np.argsort(1 - bits, axis=1, kind="stable")
    return bits.sum(axis=1, dtype=np.uint8), places.astype(np.uint8)


_COUNTS, _SELECT = _tables()
