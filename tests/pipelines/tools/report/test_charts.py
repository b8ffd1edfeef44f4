"""Figures of a report, computed by hand."""

from pipelines.tools.report.charts import balance_of


def test_balance():
    assert balance_of([2, 2, 2]) == 1
    assert balance_of([1, 3]) == 1.5
    assert balance_of([]) is None
