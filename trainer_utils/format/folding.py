"""A sum of a record's bytes beside its CRC-32C, at the speed of memory.

    fold_bytes(b"payload")                           # 64 bits
    fold_frames(frames, starts, stops)               # of many records at once

The fold is the exclusive or of the record's length and of its bytes, eight at a time, as
little-endian integers; zeros fill up the last of these.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["fold_bytes", "fold_frames"]

_WORD_BYTES = 8
_WORD = np.dtype("<u8")
_BITS = np.uint64(64)
_FEW = 64  # records that are folded one by one sooner than all together


def fold_bytes(data: Any) -> int:
    """The fold of one record; `data`: anything that holds bytes."""
    view = memoryview(data)
    words = len(view) // _WORD_BYTES
    whole = int(np.bitwise_xor.reduce(np.frombuffer(view, _WORD, words))) if words else 0
    return len(view) ^ whole ^ int.from_bytes(view[words * _WORD_BYTES :], "little")


def fold_frames(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    """The folds of records that lie in one buffer.

    Args:
        data: `(bytes,) uint8`, framed records.
        starts, stops: `(records,) int64`, of each payload, in order.
    """
    words = data[: len(data) // _WORD_BYTES * _WORD_BYTES].view(_WORD)
    if len(starts) < _FEW:
        octets, places = data.data, zip(starts.tolist(), stops.tolist(), strict=True)
        return np.array([_fold_at(octets, words, *place) for place in places], np.uint64)
    firsts, lasts = starts >> 3, stops - 1 >> 3  # a division takes five times as long
    folds = (stops - starts).astype(np.uint64)
    is_inner = (starts < stops) & (lasts + 1 < len(words))
    inner = np.flatnonzero(is_inner)
    if len(inner):
        first, last = firsts[inner], lasts[inner]
        bounds = np.stack([first, last + 1], axis=1).reshape(-1)
        found = np.bitwise_xor.reduceat(words, bounds)[::2]
        begins, ends = ((n[inner] & 7).astype(np.uint64) << np.uint64(3) for n in (starts, stops))
        # What the first and the last word have of the frames before and behind goes out again.
        found ^= words[first] & ((np.uint64(1) << begins) - np.uint64(1))
        found ^= words[last] & np.where(ends == 0, np.uint64(0), ~np.uint64(0) << ends)
        folds[inner] ^= found >> begins | found << ((_BITS - begins) & np.uint64(63))
    for number in np.flatnonzero(~is_inner & (starts < stops)).tolist():  # at the buffer's end
        folds[number] = fold_bytes(data[starts[number] : stops[number]])
    return folds


def _fold_at(octets: memoryview, words: npt.NDArray[np.uint64], start: int, stop: int) -> int:
    """The fold of one record, by the words of the buffer: others are read at half the pace."""
    first, last = (start + _WORD_BYTES - 1) // _WORD_BYTES, stop // _WORD_BYTES
    if first >= last:
        return fold_bytes(octets[start:stop])
    shift = start % _WORD_BYTES * 8
    fold = int(np.bitwise_xor.reduce(words[first:last]))
    fold ^= int.from_bytes(octets[start : first * _WORD_BYTES], "little") << shift
    fold ^= int.from_bytes(octets[last * _WORD_BYTES : stop], "little")
    return (stop - start) ^ (fold >> shift | fold << (64 - shift) & 0xFFFFFFFFFFFFFFFF)
