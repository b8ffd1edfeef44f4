"""Random numbers that are functions of a seed alone, without state.

permuted(5, seed=0)      # the numbers 0 to 4 in another order
"""

import numpy as np
import numpy.typing as npt

__all__ = ["permuted", "random_numbers", "signed_64"]


def permuted(count: int, seed: int) -> npt.NDArray[np.int64]:
    """A permutation of so many numbers, `(count,) int64`."""
    return np.argsort(random_numbers(seed, count), kind="stable")


def random_numbers(seed: int, count: int) -> npt.NDArray[np.uint64]:
    """Random numbers of 64 bits, all different, `(count,) uint64`.

    Source: splitmix64 (Steele, Lea and Flood, 2014), which needs no state.
    """
    start = np.array(seed % (1 << 64), np.uint64)
    value = start + np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        value ^= value >> np.uint64(shift)
        value *= np.uint64(factor)
    value ^= value >> np.uint64(31)
    return value


def signed_64(seed: int) -> int:
    """Any seed as a signed number of 64 bits; those that are one stay as they are."""
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63)
