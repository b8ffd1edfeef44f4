"""Which sounds are copies of one recording: encoded anew, resampled, louder, cut a little shorter.

    with SoundSketches() as sketches:
        sketches.add(sketch_sound(samples, rate))
        sets = DisjointSets(len(sketches))
        unite_similar_sounds(sketches, sets)

Candidates share a key, which also says how much later one begins. Of these the levels of all bands
are compared over the time that both last, at least four fifths of the longer one: they are copies
where the levels differ by a little more than noise and far less than they change over time.
"""

import numpy as np
import numpy.typing as npt

from trainer_utils.auditing.candidates import neighbours_of_equals
from trainer_utils.auditing.disjoint_sets import DisjointSets
from trainer_utils.auditing.sound_sketch import (
    LEVELS_PER_DECIBEL,
    SOUND_KEYS,
    Levels,
    SoundSketches,
)

__all__ = ["are_copies", "unite_similar_sounds"]

_NEIGHBOURS = 16  # of equal keys that a sound is compared with
_MOST_AT_ONCE = 1 << 22  # keys that are sorted at a time
_LEAST_COMMON = 0.78  # of the longer sound: a tenth less at either end, and the frames at the edges
_NEAR = 2  # frames around where keys say that one begins in the other
_REMEMBERED = 1 << 18  # pairs that are not compared again
_EDGE = 4  # frames at either end that see what the other one lacks
_NOISE_DECIBELS = 0.6
_SHARE_OF_CHANGE = 0.4
_MOST_OVERALL_DECIBELS = 4.0  # that the mean levels differ by, their own mean apart
_FAR = 2.5  # times what copies may differ by, at a place that is a frame or two from the right one

Numbers = npt.NDArray[np.int64]


def unite_similar_sounds(sketches: SoundSketches, sets: DisjointSets) -> None:
    """Unites sounds that are copies of one another.

    Args:
        sketches: of the sounds.
        sets: of the sounds' numbers.
    """
    if not len(sketches):
        return
    keys, places = sketches.keys.reshape(-1), sketches.places.reshape(-1)
    levels, ends = sketches.levels, sketches.ends
    overall = np.add.reduceat(levels, ends[:-1], axis=0, dtype=np.int64)
    overall = overall / np.diff(ends)[:, np.newaxis] / LEVELS_PER_DECIBEL
    refused = _Refused()
    parts = -(-len(keys) // _MOST_AT_ONCE)
    for part in range(parts):
        slots = np.flatnonzero((keys % (2 * parts) // 2 == part) & (keys > 0))
        for pairs in neighbours_of_equals(keys[slots], most=_NEIGHBOURS):
            held = slots[pairs]
            sounds = held // SOUND_KEYS
            shifts = places[held[:, 0]] - places[held[:, 1]]
            likely = _may_be_copies(ends, overall, sounds)
            for pair, shift in zip(sounds[likely], shifts[likely].tolist(), strict=True):
                if sets.apart(pair.reshape(1, 2))[0] and not refused.has(pair, shift):
                    one, other = (levels[ends[n] : ends[n + 1]] for n in pair.tolist())
                    if are_copies(one, other, shift):
                        sets.unite(pair.reshape(1, 2))
                    else:
                        refused.add(pair, shift)


class _Refused:
    """Pairs that were compared in vain, and at what shift: those that share a key share others."""

    def __init__(self) -> None:
        self._held: list[tuple[int, int, int] | None] = [None] * _REMEMBERED

    def has(self, pair: Numbers, shift: int) -> bool:
        """Whether a pair was, and nothing has taken its place."""
        one = self._key(pair, shift)
        return self._held[hash(one) % _REMEMBERED] == one

    def add(self, pair: Numbers, shift: int) -> None:
        """Remembers a pair."""
        one = self._key(pair, shift)
        self._held[hash(one) % _REMEMBERED] = one

    def _key(self, pair: Numbers, shift: int) -> tuple[int, int, int]:
        one, other = pair.tolist()
        return one, other, shift // (_NEAR + 1)


def _may_be_copies(
    ends: Numbers, overall: npt.NDArray[np.float64], pairs: Numbers
) -> npt.NDArray[np.bool_]:
    """Which pairs last about as long, and are about as loud in each band."""
    lengths = ends[pairs + 1] - ends[pairs]
    last_alike = lengths.min(axis=1) >= _LEAST_COMMON * lengths.max(axis=1)
    differences = (overall[pairs[:, 0]] - overall[pairs[:, 1]]).std(axis=1)
    return np.asarray(last_alike & (differences <= _MOST_OVERALL_DECIBELS))


def are_copies(one: Levels, other: Levels, shift: int) -> bool:
    """Whether two sounds are one recording.

    Args:
        one, other: `(frames, 16) uint8`, as `sketch_sound` makes them.
        shift: about so many frames of the first one pass before the second one begins.
    """
    first = one.astype(np.float32) / LEVELS_PER_DECIBEL
    second = other.astype(np.float32) / LEVELS_PER_DECIBEL
    if _difference(first, second, shift) > _FAR:
        return False
    between = (second[:-1] + second[1:]) / 2  # half a frame later
    return any(
        _difference(first, view, shift + off) <= 1
        for off in sorted(range(-_NEAR, _NEAR + 1), key=abs)
        for view in (second, between)
    )


def _difference(one: npt.NDArray[np.float32], other: npt.NDArray[np.float32], shift: int) -> float:
    """How much two sounds differ, as a part of what copies may; infinite where they part."""
    start, stop = max(0, shift), min(len(one), shift + len(other))
    if stop - start < _LEAST_COMMON * max(len(one), len(other)) - 1:
        return np.inf
    one, other = one[start:stop], other[start - shift : stop - shift]
    if len(one) > 4 * _EDGE:
        one, other = one[_EDGE:-_EDGE], other[_EDGE:-_EDGE]
    heard = (one > 0) | (other > 0)
    if not heard.any():
        return np.inf
    spread = min(float((side - side.mean(axis=0))[heard].std()) for side in (one, other))
    most = _NOISE_DECIBELS + _SHARE_OF_CHANGE * spread
    return float((one - other)[heard].std()) / most
