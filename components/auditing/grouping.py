"""Records that belong together: pairs that may be copies, united to groups.

Source: R. Tarjan, Efficiency of a good but not linear set union algorithm, 1975.
"""

import array
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Pairs = npt.NDArray[np.int64]


def pairs_of_equals(keys: npt.NDArray[Any], *, most: int) -> Iterator[Pairs]:
    """Pairs of indices of equal keys, `(pairs, 2)` at a time.

    Args:
        keys: `(n,)` integers, in any order.
        most: of the indices after it that each is paired with, so that a key which very many share
            does not give the square of them.
    """
    order = np.argsort(keys, kind="stable")
    held = keys[order]
    for distance in range(1, min(most, len(order) - 1) + 1):
        same = np.flatnonzero(held[:-distance] == held[distance:])
        if not len(same):  # then no further ones are
            return
        yield np.stack([order[same], order[same + distance]], axis=1)


class DisjointSets:
    """Numbers from 0 on, each at first alone (union-find); four bytes a member.

    Args:
        count: how many, below 2**31.
    """

    def __init__(self, count: int) -> None:
        self._parents = array.array("i", range(count))  # whose items come ten times as fast

    def find(self, number: int) -> int:
        """The first member of a number's set."""
        parents = self._parents
        root = number
        while parents[root] != root:
            root = parents[root]
        while parents[number] != root:
            parents[number], number = root, parents[number]
        return root

    def unite(self, pairs: Pairs) -> None:
        """Unites the sets of each of `(pairs, 2)` numbers."""
        for one, other in pairs.tolist():
            first, second = sorted((self.find(one), self.find(other)))
            self._parents[second] = first

    def groups(self) -> npt.NDArray[np.int32]:
        """`(count,) int32`, the first member of each number's set."""
        return np.array([self.find(number) for number in range(len(self._parents))], np.int32)
