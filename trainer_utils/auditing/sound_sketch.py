"""What a sound is like over time, in a quarter of a kilobyte and 500 bytes a second.

    sketch = sketch_sound(samples, 44_100)      # None of silence
    sketch.levels.shape                         # (frames, 16): levels of bands, whatever the gain

The first minute is brought to 8 kHz, and its levels between 200 and 3,400 Hz are taken in 16 bands
every 32 ms, against the sound's own loudness, so that rate, gain, channels and encoding change
little. Sounds are found by keys: signs of random sums of a quarter of a second of levels. Of each
sound those keys are kept that are least by a hash: copies keep the same ones, wherever they begin.

Source: J. Haitsma and T. Kalker, A highly robust audio fingerprinting system, ISMIR 2002; of which
keys are kept: A. Broder, On the resemblance and containment of documents, 1997.
"""

import dataclasses
import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer_utils.auditing.candidates import random_directions
from trainer_utils.auditing.sketch_files import SketchFiles

__all__ = [
    "LEVELS_PER_DECIBEL",
    "MOST_SECONDS",
    "SOUND_BANDS",
    "SOUND_KEYS",
    "SoundSketch",
    "SoundSketches",
    "sketch_sound",
]

MOST_SECONDS = 60  # of a sound that are looked at
SOUND_BANDS = 16
LEVELS_PER_DECIBEL = 4
_RATE, _WINDOW, _HOP = 8000, 2048, 256  # Hz and samples
_LARGEST_RATE = 768_000  # Hz: of what is recorded; a header may say any
_LOWEST, _HIGHEST = 200.0, 3400.0  # Hz: what the narrowest encodings keep
_RANGE_DECIBELS = 40.0  # below the loudest, beneath which encodings differ
_SILENCE = 1e-7  # of full scale, as a power
_BLOCK_SECONDS = 8
_FRAMES_AT_ONCE = 256
_PATCH = 8  # frames that a key is made of
_TABLES, _KEPT, _SIGNS = 4, 16, 20
_OVERALL, _OVERALL_SIGNS = 8, 12  # keys of the mean levels, for sounds that do not change
SOUND_KEYS = _TABLES * _KEPT + _OVERALL

Levels = npt.NDArray[np.uint8]
Samples = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SoundSketch:
    """A sound at a glance.

    Args:
        levels: `(frames, 16) uint8`, in quarters of a decibel; 0 is 40 dB below the loud parts.
        keys: `(72,) uint32`, by which copies are found; 0 stands for none.
        places: `(72,) int32`, the frame where each key was found.
    """

    levels: Levels
    keys: npt.NDArray[np.uint32]
    places: npt.NDArray[np.int32]


class SoundSketches(SketchFiles):
    """Sketches of many sounds, in temporary files."""

    def __init__(self) -> None:
        super().__init__("sounds", num_files=3)

    def add(self, sketch: SoundSketch) -> None:
        """Takes in one sound, numbered on."""
        self._write(0, sketch.levels, "u1")
        self._write(1, sketch.keys, "<u4")
        self._write(2, sketch.places, "<i4")
        self._ends.append(self._ends[-1] + len(sketch.levels))

    @property
    def levels(self) -> Levels:
        """`(frames, 16)` of all sounds, mapped from the disk."""
        return self._mapped(0, "u1", self._ends[-1], SOUND_BANDS)

    @property
    def keys(self) -> npt.NDArray[np.uint32]:
        """`(sounds, 72)`."""
        return self._mapped(1, "<u4", len(self), SOUND_KEYS)

    @property
    def places(self) -> npt.NDArray[np.int32]:
        """`(sounds, 72)`."""
        return self._mapped(2, "<i4", len(self), SOUND_KEYS)


def sketch_sound(samples: npt.NDArray[Any], rate: int) -> SoundSketch | None:
    """Looks at a sound; None where it is silent, or no sound has such a rate.

    Args:
        samples: `(frames, channels)`, in [-1, 1].
        rate: in Hz.
    """
    if not 0 < rate <= _LARGEST_RATE:
        return None
    mono = samples[: MOST_SECONDS * rate].mean(axis=1, dtype=np.float64)
    powers = _band_powers(_resampled(mono, rate))
    loud = float(np.quantile(powers.sum(axis=1), 0.98)) if len(powers) else 0.0
    if not loud > _SILENCE:
        return None
    decibels = 10 * np.log10(np.maximum(powers / loud, 1e-9)) + _RANGE_DECIBELS
    levels = np.clip(np.rint(decibels * LEVELS_PER_DECIBEL), 0, 255).astype(np.uint8)
    keys, places = _keys(levels)
    return SoundSketch(levels=levels, keys=keys, places=places)


def _resampled(mono: Samples, rate: int) -> Samples:
    """The samples at 8 kHz, by the lower part of their spectrum."""
    block = _BLOCK_SECONDS * rate
    parts = [_resampled_block(mono[n : n + block], rate) for n in range(0, len(mono), block)]
    return np.concatenate(parts) if parts else mono


def _resampled_block(samples: Samples, rate: int) -> Samples:
    if rate == _RATE:
        return samples
    step = rate // math.gcd(rate, _RATE)  # samples that last as long as a whole number at 8 kHz
    padded = _smooth(-(-len(samples) // step)) * step
    wished = padded // step * (_RATE // math.gcd(rate, _RATE))
    spectrum = np.fft.rfft(samples, padded)[: wished // 2 + 1]
    resampled = np.fft.irfft(spectrum, wished) * (wished / padded)
    return np.asarray(resampled[: -(-len(samples) * _RATE // rate)])


def _smooth(count: int) -> int:
    """The next number that has no prime factor but 2, 3 and 5, of which transforms are fast."""
    while True:
        rest = count
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest <= 1:
            return count
        count += 1


def _band_powers(samples: Samples) -> Samples:
    """`(frames, 16)`, the power of each band; half a window of silence goes before and after."""
    least = (_PATCH - 1) * _HOP
    around = np.zeros(max(len(samples), least) + _WINDOW)
    around[_WINDOW // 2 : _WINDOW // 2 + len(samples)] = samples
    frames = np.lib.stride_tricks.sliding_window_view(around, _WINDOW)[::_HOP]
    window = np.hanning(_WINDOW) / (_WINDOW / 4)
    edges = np.geomspace(_LOWEST, _HIGHEST, SOUND_BANDS + 1) * _WINDOW / _RATE
    first, last = round(edges[0]), round(edges[-1])
    powers = []
    for start in range(0, len(frames), _FRAMES_AT_ONCE):
        spectrum = np.fft.rfft(frames[start : start + _FRAMES_AT_ONCE] * window)[:, first:last]
        power = spectrum.real**2 + spectrum.imag**2
        powers.append(np.add.reduceat(power, np.rint(edges[:-1]).astype(int) - first, axis=1))
    return np.concatenate(powers)


def _keys(levels: Levels) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int32]]:
    keys, places = np.zeros(SOUND_KEYS, np.uint32), np.zeros(SOUND_KEYS, np.int32)
    moving = levels - levels.mean(axis=0).round()
    patches = np.lib.stride_tricks.sliding_window_view(moving, _PATCH, axis=0)
    vectors = patches.reshape(len(patches), -1)
    strength = (vectors**2).sum(axis=1)
    chosen = np.flatnonzero(strength >= max(1.0, float(np.median(strength))))
    bits = vectors[chosen] @ _directions("moving", _TABLES * _SIGNS, vectors.shape[1]).T > 0
    for table in range(_TABLES):
        of_table = _as_numbers(bits[:, table * _SIGNS : (table + 1) * _SIGNS], table)
        least, first = np.unique(of_table, return_index=True)
        kept = slice(table * _KEPT, table * _KEPT + min(_KEPT, len(least)))
        keys[kept], places[kept] = least[:_KEPT], chosen[first[:_KEPT]]
    overall = levels.mean(axis=0).round()
    signs = _directions("overall", _OVERALL * _OVERALL_SIGNS, SOUND_BANDS) @ overall > 0
    for number, some in enumerate(signs.reshape(_OVERALL, -1)):
        keys[_TABLES * _KEPT + number] = _as_numbers(some[np.newaxis], _TABLES + number)[0]
    return keys, places


def _as_numbers(bits: npt.NDArray[np.bool_], table: int) -> npt.NDArray[np.uint32]:
    """Hashes of rows of bits, one to one in each table, and never 0."""
    weights = 1 << np.arange(bits.shape[1], dtype=np.uint64)
    numbers = bits @ weights + np.uint64((table + 1) << 24)
    mixed = numbers * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray(mixed >> np.uint64(32) | np.uint64(1), np.uint32)


@functools.cache
def _directions(purpose: str, count: int, length: int) -> Samples:
    return random_directions(f"{purpose} sounds", count, length)
