"""Pairs that were compared in vain, so that they are not compared again.

    compared = ComparedPairs()
    compared.add(np.array([[3, 17]]))
    compared.new(np.array([[3, 17], [3, 18]]))        # [[3, 18]]

Those that share one key share others. A table of fixed size: where another pair has taken a pair's
place it is compared once more, which changes nothing but the time.
"""

import numpy as np
import numpy.typing as npt

__all__ = ["ComparedPairs"]

_PLACE_BITS = 20  # of the table: 8 MiB
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)

Pairs = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]


class ComparedPairs:
    """Some of the pairs that were added, the last ones first of all."""

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
