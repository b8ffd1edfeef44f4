"""Figures of a report, computed by hand."""

from pipelines.tools.report.charts import balance_of, shift_of


def test_shift_and_balance():
    labels = {"train": {"a": 3, "b": 1}, "eval": {"a": 1, "b": 1}, "test": {"c": 5}}
    assert shift_of(labels, "train", "eval") == 0.25
    assert shift_of(labels, "train", "train") == 0
    assert shift_of(labels, "train", "test") == 1
    assert balance_of([2, 2, 2]) == 1
    assert balance_of([1, 3]) == 1.5
    assert balance_of([]) is None
