"""Random numbers of records against numpy's unsigned arithmetic and scipy's distributions."""

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from trainer_utils.reading.augmentation.draws import beta_quantiles, draw_betas, draw_uniforms


def splitmix(state: int) -> int:
    """Its finalizer, by Python's integers."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ (state >> shift)) * factor % 2**64
    return state ^ (state >> 31)


GAMMA = 0x9E3779B97F4A7C15


def test_numbers_are_splitmix64s_of_the_key():
    assert splitmix(GAMMA) == 0xE220A8397B1DCDAF  # the first of Java's SplittableRandom(0)
    keys = [(1, 2), (2**62 - 1, 0), (0, -1), (7, -(2**63))]
    for purpose in (0, 3):
        drawn = draw_uniforms(tf.constant(keys, tf.int64), count=3, purpose=purpose).numpy()
        for row, (record, epoch) in zip(drawn, keys, strict=True):
            state = splitmix(record ^ splitmix((epoch + GAMMA * (purpose + 1)) % 2**64))
            expected = [splitmix((state + GAMMA * (n + 1)) % 2**64) >> 40 for n in range(3)]
            np.testing.assert_array_equal(row, np.float32(expected) / 2**24)


def test_numbers_of_neighbouring_keys_are_uniform_and_unlike():
    keys = np.stack([np.arange(4000), np.full(4000, 5)], axis=1)
    numbers = draw_uniforms(tf.constant(keys), count=4).numpy()
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert scipy.stats.kstest(numbers.ravel(), "uniform").pvalue > 0.001
    correlations = np.corrcoef(np.concatenate([numbers[1:], numbers[:-1]], axis=1).T)
    assert np.abs(correlations - np.eye(8)).max() < 0.08


@pytest.mark.parametrize("alpha", [0.01, 0.2, 1.0, 3.5, 100.0])
def test_betas_have_scipys_quantiles(alpha):
    expected = scipy.stats.beta.ppf(np.linspace(0, 1, 4097), alpha, alpha)
    np.testing.assert_allclose(beta_quantiles(alpha), expected, atol=1e-4)
    uniforms = draw_uniforms(tf.constant([[n, 0] for n in range(5000)], tf.int64), count=1)[:, 0]
    drawn = draw_betas(uniforms, alpha=alpha).numpy()
    assert drawn.min() >= 0
    assert drawn.max() <= 1
    assert drawn.var() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.06)
