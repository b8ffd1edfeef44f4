"""Decode lists of base-128 integers, whole or in part.

    numbers = VarintList(np.array([0x05, 0x96, 0x01, 0x07], np.uint8))
    len(numbers), numbers.part(1, 3)                            # 3, [150, 7]

Each byte holds seven bits of a number, the lowest first. The last byte of a number is below 128.
Source: https://protobuf.dev/programming-guides/encoding/#varints.
"""

import numpy as np
import numpy.typing as npt

Data = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]

_DECODED_AT_ONCE, _MAX_BYTES = 1 << 15, 10
_BLOCK_BYTES = 1024


def decode_varints(data: Data, stops: Positions) -> npt.NDArray[np.int64]:
    """Return base-128 numbers that follow each other, given the position of the last byte of each.

    They are decoded some thousands at a time, from their last bytes, so that arrays stay in the
    processor's cache.

    Raises:
        ValueError: a number has more than ten bytes.
    """
    values = np.empty(len(stops), np.uint64)
    before = -1
    for first in range(0, len(stops), _DECODED_AT_ONCE):
        stops_of_part = stops[first : first + _DECODED_AT_ONCE]
        sizes = np.diff(stops_of_part, prepend=before)
        before = int(stops_of_part[-1])
        longest = int(sizes.max())
        if longest > _MAX_BYTES:
            raise ValueError(f"expected numbers of at most {_MAX_BYTES} bytes, got {longest}")
        numbers = data[stops_of_part].astype(np.uint64)
        for place in range(1, longest):
            # The bytes of shorter numbers are of others, and not used.
            more = data[np.maximum(stops_of_part - place, 0)] & np.uint8(0x7F)
            numbers = np.where(sizes > place, numbers << np.uint64(7) | more, numbers)
        values[first : first + len(stops_of_part)] = numbers
    return values.view(np.int64)


class VarintList:
    """A list of base-128 integers that can be decoded in part.

    It counts the numbers that end in each kilobyte, which takes a tenth of the time of decoding.

    Args:
        data: `(bytes,) uint8`, the encoded numbers. It is not copied.

    Raises:
        ValueError: the last number is cut off.
    """

    def __init__(self, data: Data) -> None:
        if len(data) and data[-1] > 0x7F:
            raise ValueError("expected the end of a number, got the end of the list")
        self._data = data
        blocks = np.arange(0, len(data), _BLOCK_BYTES)
        counts = np.add.reduceat(data < 0x80, blocks, dtype=np.int64) if len(data) else blocks
        self._ends_before = np.cumsum(np.append(0, counts))  # numbers that end before each block

    def __len__(self) -> int:
        return int(self._ends_before[-1])

    @property
    def num_bytes(self) -> int:
        """Size in memory."""
        return int(self._data.nbytes + self._ends_before.nbytes)

    def copy(self) -> "VarintList":
        """Return a list with a copy of the bytes, so that their buffer can be freed."""
        copy = VarintList.__new__(VarintList)
        copy._data, copy._ends_before = self._data.copy(), self._ends_before
        return copy

    def has_longer_than(self, size: int) -> bool:
        """Return whether a number has more than `size` bytes."""
        is_followed = self._data > 0x7F
        longer = is_followed
        for shift in range(1, size):
            longer = longer[:-1] & is_followed[shift:]
        return bool(longer.any())

    def part(self, begin: int, end: int) -> npt.NDArray[np.int64]:
        """Return the numbers from `begin` to `end`, `(end - begin,) int64`.

        Raises:
            ValueError: a number has more than ten bytes.
        """
        # The number before the first one shows where that begins.
        block = max(int(np.searchsorted(self._ends_before, begin)) - 1, 0)
        stop = int(np.searchsorted(self._ends_before, end)) * _BLOCK_BYTES
        start = block * _BLOCK_BYTES
        stops = start + np.flatnonzero(self._data[start:stop] < 0x80)
        first = begin - int(self._ends_before[block])
        start = int(stops[first - 1]) + 1 if first else 0
        return decode_varints(self._data[start:], stops[first : first + end - begin] - start)
