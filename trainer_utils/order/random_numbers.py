"""Random numbers that are functions of a seed alone, without state.

random_permutation(5, seed=0)      # the numbers 0 to 4 in another order
"""

import numpy as np
import numpy.typing as npt

from trainer_utils.format.planning import splitmix64

__all__ = ["random_numbers", "random_permutation", "signed_64"]


def random_permutation(count: int, seed: int) -> npt.NDArray[np.int64]:
    """A permutation of so many numbers, `(count,) int64`."""
    return np.argsort(random_numbers(seed, count), kind="stable")


def random_numbers(seed: int, count: int) -> npt.NDArray[np.uint64]:
    """Random numbers of 64 bits, all different, `(count,) uint64`."""
    return splitmix64(np.array(seed % (1 << 64), np.uint64), np.arange(count, dtype=np.uint64))


def signed_64(seed: int) -> int:
    """Any seed as a signed number of 64 bits; those that are one stay as they are."""
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63)
