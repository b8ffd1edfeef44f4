"""Which records a report is made of."""

import pytest

from pipelines.tools.report.sample import spread


@pytest.mark.parametrize(
    ("count", "most", "expected"),
    [(0, 5, []), (3, 5, [0, 1, 2]), (10, 5, [0, 2, 4, 6, 8]), (7, 3, [0, 2, 4])],
)
def test_a_sample_is_spread_over_all(count, most, expected):
    assert spread(count, most) == expected
