"""Whether two samples are of one distribution: how far apart they are, if that is not by chance.

Zero means that chance explains it (at one in a thousand), or that it is too small to matter.

Source: the Kolmogorov-Smirnov test's asymptotic bound; Pearson's chi-squared test, its critical
value by Wilson and Hilferty, 1931.
"""

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

_LEAST = 0.1  # distance that matters
_KOLMOGOROV = 1.95  # the quantile of 0.999
_NORMAL = 3.09  # the same of the normal distribution
_LEAST_EXPECTED = 1.0  # of a class in a sample: rarer ones are counted together


def distance_of_numbers(one: npt.ArrayLike, other: npt.ArrayLike) -> float:
    """The largest difference of both distribution functions, in [0, 1]."""
    first, second = (np.sort(np.asarray(values, np.float64)) for values in (one, other))
    if not len(first) or not len(second):
        return 0.0
    points = np.concatenate([first, second])
    shares = [np.searchsorted(v, points, side="right") / len(v) for v in (first, second)]
    distance = float(np.abs(shares[0] - shares[1]).max())
    by_chance = _KOLMOGOROV * math.sqrt(1 / len(first) + 1 / len(second))
    return distance if distance > max(by_chance, _LEAST) else 0.0


def total_variation(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """Half the sum of the differences of all shares, in [0, 1]; 0 where there are no counts."""
    table = _table(one, other)
    totals = table.sum(axis=1, keepdims=True)
    return float(np.abs(np.diff(table / totals, axis=0)).sum() / 2) if totals.all() else 0.0


def distance_of_counts(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """The total variation, in [0, 1]."""
    distance = total_variation(one, other)
    if distance < _LEAST:
        return 0.0
    table = _table(one, other)
    totals = table.sum(axis=1, keepdims=True)
    expected = totals * table.sum(axis=0) / table.sum()
    rare = expected.min(axis=0) < _LEAST_EXPECTED
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    expected = np.column_stack([expected[:, ~rare], expected[:, rare].sum(axis=1)])
    filled = expected.min(axis=0) > 0
    squares = ((table - expected) ** 2)[:, filled] / expected[:, filled]
    freedom = int(filled.sum()) - 1
    if freedom < 1:
        return 0.0
    part = 2 / (9 * freedom)
    by_chance = freedom * (1 - part + _NORMAL * math.sqrt(part)) ** 3
    return distance if float(squares.sum()) > by_chance else 0.0


def _table(one: Mapping[str, int], other: Mapping[str, int]) -> npt.NDArray[np.float64]:
    """`(2, names)`, the counts of both by name."""
    names = sorted({*one, *other})
    return np.array([[counts.get(name, 0) for name in names] for counts in (one, other)], float)
