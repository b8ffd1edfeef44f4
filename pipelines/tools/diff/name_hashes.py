"""Hashes of many names at once, 128 bits each, by numpy.

hash_names(data, begins, ends)      # (names,) V16, the same for the same name wherever it lies

Chance gives two of a billion names the same hash once in 10^20 cases; they are not meant against
names that somebody makes up to have the same.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["hash_names"]

Numbers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_WORD_BYTES = 8
# Of two lanes. Odd and without pattern: parts of pi and of the golden ratio, and splitmix64's.
_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB), (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)
_STARTS = 0x243F6A8885A308D3, 0x9E3779B97F4A7C15


def hash_names(data: Any, begins: Numbers, ends: Numbers) -> npt.NDArray[np.void]:
    """The hashes of names.

    Args:
        data: bytes that names lie in.
        begins, ends: `(names,) int64`, where each lies.

    Returns:
        `(names,) V16`.

    Source: the mixing is splitmix64's finalizer (Steele, Lea and Flood, 2014), after each word.
    """
    lengths = ends - begins
    lanes = [np.uint64(start) ^ lengths.astype(np.uint64) for start in _STARTS]
    longest = int(lengths.max(initial=0))
    left = np.arange(len(begins))
    for place in range(0, max(longest, 1), _WORD_BYTES):
        if place:
            left = left[lengths[left] > place]
        words = _words(data, begins[left] + place, lengths[left] - place)
        for number, (lane, factors) in enumerate(zip(lanes, _FACTORS, strict=True)):
            lanes[number][left] = _mixed(lane[left] ^ words, *factors)
    hashes: npt.NDArray[np.void] = np.stack(lanes, axis=1).reshape(-1).view("V16")
    return hashes


def _mixed(values: Words, first: int, second: int) -> Words:
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ values >> np.uint64(30)) * np.uint64(first)
    values = (values ^ values >> np.uint64(27)) * np.uint64(second)
    return values ^ values >> np.uint64(31)


def _words(data: Any, begins: Numbers, lengths: Numbers) -> Words:
    """The next eight bytes of each name, with zeros behind its end."""
    octets = np.frombuffer(data, np.uint8)
    columns = begins[:, np.newaxis] + np.arange(_WORD_BYTES)
    if len(octets):
        found = octets[np.minimum(columns, len(octets) - 1)]
    else:
        found = np.zeros(columns.shape, np.uint8)
    words: Words = np.ascontiguousarray(found).view("<u8").reshape(-1).astype(np.uint64)
    missing = np.clip(_WORD_BYTES - lengths, 0, _WORD_BYTES).astype(np.uint64) * np.uint64(8)
    kept = np.where(missing == 64, np.uint64(0), ~np.uint64(0) >> (missing % np.uint64(64)))
    words &= kept
    return words
