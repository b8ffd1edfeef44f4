"""What the searches for copies have in common: which records are to be compared at all.

keys = np.array([7, 5, 7])                       # signs of sums over random directions
next(neighbours_of_equals(keys, most=8))         # [[0, 2]]: records that share a key
compared = ComparedPairs()
compared.add(np.array([[3, 17]]))                # those that share one key share others
compared.new(np.array([[3, 17], [3, 18]]))       # [[3, 18]]
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ComparedPairs", "neighbours_of_equals", "random_directions", "random_order"]

_PLACE_BITS = 20  # of the table: 8 MiB
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)

Pairs = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]


def random_order(purpose: str, count: int) -> npt.NDArray[np.int64]:
    """The numbers below `count` in an order that the purpose alone decides, on every machine."""
    noise = hashlib.shake_128(f"tfx-shards {purpose}".encode()).digest(8 * count)
    return np.argsort(np.frombuffer(noise, "<u8"), kind="stable")


def random_directions(purpose: str, count: int, length: int) -> npt.NDArray[np.float64]:
    """`(count, length)` of 1 and -1, as many of each, so that the mean plays no part."""
    orders = np.stack([random_order(f"{purpose} {row}", length) for row in range(count)])
    return np.where(orders < length // 2, 1.0, -1.0)


def neighbours_of_equals(keys: npt.NDArray[Any], *, most: int) -> Iterator[Pairs]:
    """Pairs of places of equal keys, `(pairs, 2)` at a time; at most one for each place.

    Args:
        keys: `(n,)` whole numbers, in any order.
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


class ComparedPairs:
    """Some of the pairs that were added, the last ones first of all.

    A table of fixed size: where another pair has taken a pair's place it is compared once more,
    which changes nothing but the time.
    """

    def __init__(self) -> None:
        self._held = np.zeros(1 << _PLACE_BITS, np.uint64)  # no pair is of twice the number 0

    def new(self, pairs: Pairs) -> Pairs:
        """Those of `(pairs, 2)` numbers below 2**31, the lesser first, that are not held."""
        keys, places = _placed(pairs)
        return np.asarray(pairs[self._held[places] != keys])

    def add(self, pairs: Pairs) -> None:
        """Takes in `(pairs, 2)` numbers, as `new` has them."""
        keys, places = _placed(pairs)
        self._held[places] = keys


def _placed(pairs: Pairs) -> tuple[Keys, Keys]:
    keys = (pairs[:, 0] << 32 | pairs[:, 1]).astype(np.uint64)
    return keys, keys * _MULTIPLIER >> np.uint64(64 - _PLACE_BITS)
