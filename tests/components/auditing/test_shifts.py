"""Test distances of samples against scipy's tests."""

import numpy as np
import pytest

from components.auditing.checks import distance_of_counts, distance_of_numbers, total_variation

stats = pytest.importorskip("scipy.stats")


@pytest.mark.parametrize(
    ("offset", "size"), [(0.0, 5), (3.0, 5), (0.5, 100), (0.0, 2000), (0.05, 2000), (0.5, 2000)]
)
def test_distance_of_numbers_is_the_kolmogorov_smirnov_one(offset, size):
    random = np.random.default_rng(size)
    one, other = random.normal(size=size), random.normal(offset, size=2 * size)
    found = distance_of_numbers(one, other)
    test = stats.ks_2samp(one, other, method="asymp")
    by_chance = 1.95 * (1 / size + 1 / (2 * size)) ** 0.5  # the asymptotic quantile of 0.999
    if test.statistic > max(0.1, by_chance):
        assert found == pytest.approx(test.statistic)
        assert test.pvalue < 2e-3
    else:
        assert found == 0


@pytest.mark.parametrize("moved", [0, 30, 300])
def test_distance_of_counts_agrees_with_the_chi_square_test(moved):
    one, other = {"a": 500, "b": 300, "c": 200}, {"a": 500 - moved, "b": 300, "c": 200 + moved}
    test = stats.chi2_contingency([[*one.values()], [*other.values()]])
    found = distance_of_counts(one, other)
    assert (found > 0) == (test.pvalue < 1e-3 and moved >= 100)
    assert not found or found == pytest.approx(moved / 1000)


def test_too_few_values_are_no_shift(subtests):
    for one, other in (({}, {}), ({"a": 1}, {}), ({"a": 1}, {"b": 1})):
        with subtests.test(one=one):
            assert distance_of_counts(one, other) == 0
    assert distance_of_numbers([], [1.0]) == 0


def test_total_variation_is_half_the_difference_of_shares():
    labels = {"a": 3, "b": 1}
    assert total_variation(labels, {"a": 1, "b": 1}) == 0.25
    assert total_variation(labels, labels) == 0
    assert total_variation(labels, {"c": 5}) == 1
    assert total_variation(labels, {}) == 0
