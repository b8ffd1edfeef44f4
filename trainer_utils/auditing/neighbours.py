"""Pairs of records that share a key, for the searches for copies.

next(neighbours_of_equals(np.array([7, 5, 7]), most=8))        # [[0, 2]]
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["neighbours_of_equals"]

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def neighbours_of_equals(keys: npt.NDArray[Any], *, most: int) -> Iterator[npt.NDArray[np.int64]]:
    """Pairs of places of equal keys, `(pairs, 2)` at a time; at most one for each place.

    Args:
        keys: `(n,)` whole numbers, fewer than 2**31; they are sorted before this returns.
        most: of the places after it with the same key that each place is paired with, so that a
            key that very many have does not give the square of them.
    """
    shared = _may_be_shared(keys)
    order = shared[np.argsort(keys[shared], kind="stable")]
    return _pairs(order, keys[order], most)


def _pairs(
    order: npt.NDArray[np.int64], held: npt.NDArray[Any], most: int
) -> Iterator[npt.NDArray[np.int64]]:
    for distance in range(1, min(most, len(order) - 1) + 1):
        same = np.flatnonzero(held[:-distance] == held[distance:])
        if not len(same):  # then no further ones are
            return
        yield np.stack([order[same], order[same + distance]], axis=1)


def _may_be_shared(keys: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The places of keys that are not alone, and of some others: most need not be sorted."""
    bits = len(keys).bit_length() + 1
    slots = (keys.astype(np.uint64) * _MULTIPLIER >> np.uint64(64 - bits)).astype(np.int64)
    last = np.empty(1 << bits, np.int32)
    last[slots] = places = np.arange(len(keys), dtype=np.int32)
    is_shared = np.zeros(1 << bits, bool)
    is_shared[slots[last[slots] != places]] = True
    return np.flatnonzero(is_shared[slots])
