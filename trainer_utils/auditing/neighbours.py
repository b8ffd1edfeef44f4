"""Pairs of records that share a key, for the searches for copies.

next(neighbours_of_equals(np.array([7, 5, 7]), most=8))        # [[0, 2]]
count_bits(np.array([[0b101]], np.uint32))                     # [2]
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["count_bits", "neighbours_of_equals"]


def neighbours_of_equals(keys: npt.NDArray[Any], *, most: int) -> Iterator[npt.NDArray[np.int64]]:
    """Pairs of places of equal keys, `(pairs, 2)` at a time; at most one for each place.

    Args:
        keys: `(n,)`.
        most: of the places after it with the same key that each place is paired with, so that a
            key that very many have does not give the square of them.
    """
    order = np.argsort(keys, kind="stable")
    held = keys[order]
    for distance in range(1, min(most, len(order) - 1) + 1):
        same = np.flatnonzero(held[:-distance] == held[distance:])
        if not len(same):  # then no further ones are
            return
        yield np.stack([order[same], order[same + distance]], axis=1)


def count_bits(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """How many bits of each row of whole numbers are 1."""
    rows = np.ascontiguousarray(values)
    width = math.prod(rows.shape[1:]) * rows.itemsize
    octets = rows.reshape(-1).view(np.uint8).reshape(len(rows), width)
    return np.asarray(np.unpackbits(octets, axis=1).sum(axis=1, dtype=np.int64))
