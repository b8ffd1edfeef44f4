"""Random numbers of records: functions of the record's key alone, many records at once.

    uniforms = draw_uniforms(keys, count=5)     # (batch, 2) int64 to (batch, 5) float32 in [0, 1)
    draw_betas(uniforms[:, 0], alpha=0.2)       # (batch,) float32, of Beta(0.2, 0.2)

A key is the hash of a record's bytes and the seed of the epoch, as a random crop's is.
"""

import functools

import numpy as np
import numpy.typing as npt
import tensorflow as tf

__all__ = ["beta_quantiles", "draw_betas", "draw_uniforms"]

_GAMMA = 0x9E3779B97F4A7C15
_FACTORS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_BITS = 24  # as many as a float32 holds
_POINTS = 4097  # of the table of quantiles


def draw_uniforms(keys: tf.Tensor, *, count: int, purpose: int = 0) -> tf.Tensor:
    """Numbers in [0, 1) for each key.

    Args:
        keys: `(batch, 2) int64`.
        count: of numbers for each.
        purpose: other numbers come for another one; from 0.

    Returns:
        `(batch, count) float32`, multiples of 2**-24, the same on every machine.

    Source: splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
    2014), begun at its own hash of the key.
    """
    record, epoch = tf.unstack(tf.bitcast(keys, tf.uint64), axis=-1)
    # The purpose goes into the state, rather than on along one sequence, which would overlap.
    state = _mix(record ^ _mix(epoch + _unsigned(_GAMMA * (purpose + 1))))
    steps = tf.constant([_GAMMA * (n + 1) % 2**64 for n in range(count)], tf.uint64)
    bits = _mix(state[:, tf.newaxis] + steps)
    high = tf.cast(tf.bitwise.right_shift(bits, _unsigned(64 - _BITS)), tf.int32)
    return tf.cast(high, tf.float32) * np.float32(2.0**-_BITS)


def _mix(bits: tf.Tensor) -> tf.Tensor:
    for shift, factor in _FACTORS:
        bits = (bits ^ tf.bitwise.right_shift(bits, _unsigned(shift))) * _unsigned(factor)
    return bits ^ tf.bitwise.right_shift(bits, _unsigned(31))


def _unsigned(number: int) -> tf.Tensor:
    return tf.constant(number % 2**64, tf.uint64)


def draw_betas(uniforms: tf.Tensor, *, alpha: float) -> tf.Tensor:
    """Numbers of Beta(alpha, alpha), one for each uniform one; `float32` in [0, 1]."""
    table = tf.constant(beta_quantiles(alpha), tf.float32)
    place = uniforms * (_POINTS - 1)
    index = tf.minimum(tf.cast(place, tf.int32), _POINTS - 2)
    below, above = tf.gather(table, index), tf.gather(table, index + 1)
    return below + (above - below) * (place - tf.cast(index, tf.float32))


@functools.cache
def beta_quantiles(alpha: float) -> npt.NDArray[np.float64]:
    """Quantiles of Beta(alpha, alpha) at 4097 places from 0 to 1.

    The half below 0.5 is x = t**(1 / alpha) / 2, where t has the density (1 - x)**(alpha - 1),
    which is smooth even where that of x is not; the other half is its mirror image.
    """
    t = np.linspace(0, 1, 1 << 16) ** max(alpha, 1)  # fine where x is near 0.5 for a large alpha
    density = (1 - t ** (1 / alpha) / 2) ** (alpha - 1)
    steps = np.diff(t) * (density[1:] + density[:-1]) / 2
    reached = np.concatenate([[0.0], np.cumsum(steps)])
    halves = np.linspace(0, 1, _POINTS // 2 + 1)
    lower = np.interp(halves, reached / reached[-1], t) ** (1 / alpha) / 2
    return np.concatenate([lower, 1 - lower[-2::-1]])
