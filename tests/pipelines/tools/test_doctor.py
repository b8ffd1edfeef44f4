"""What the doctor finds amiss in a dataset."""

import pytest

from components.report.doctor import dataset_checks
from tests.pipelines.rewriting import rewrite


def by_name(checks):
    found = {check.name: check for check in checks}
    assert all(bool(check.cure) == (check.level != "ok") for check in found.values())
    return found


@pytest.mark.parametrize(
    ("change", "name", "level", "said"),
    [
        (lambda d: None, "manifest", "ok", "whole by its manifest"),
        (lambda d: (d / "manifest.json").unlink(), "manifest", "warn", "written by Datum"),
        (lambda d: next(d.glob("Split-eval/*")).unlink(), "dataset", "bad", "is missing from"),
        (lambda d: None, "rejects", "warn", "1 of 27 inputs were left out: 1 EMPTY_FILE"),
        (lambda d: None, "classes", "ok", "2, of 12 to 13 examples"),
        (lambda d: None, "compression", "ok", "none"),
    ],
)
def test_what_is_amiss_in_a_dataset(dataset, change, name, level, said):
    change(dataset)
    check = by_name(dataset_checks(str(dataset)))[name]
    assert check.level == level
    assert said in check.message


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"cat": 100, "dog": 5}, "100 of 'cat' for 5 of 'dog'"),
        ({"cat": 10, "cow": 0, "dog": 5}, "'cow' never occurs in train"),
    ],
)
def test_classes_out_of_balance_are_told(dataset, labels, said):
    def change(manifest):
        manifest["splits"]["train"]["labels"] = labels
        manifest["splits"]["eval"]["labels"] = {}

    rewrite(dataset / "manifest.json", change)
    assert said in by_name(dataset_checks(str(dataset)))["classes"].message


@pytest.mark.parametrize(
    ("workers", "level", "said"),
    [
        (1, "ok", "2 of"),
        (2, "ok", "2 of"),
        (3, "warn", "2 for 3 workers"),
        (8, "warn", "8 workers"),
    ],
)
def test_too_few_shards_for_the_workers(whole_dataset, workers, level, said):
    check = by_name(dataset_checks(str(whole_dataset), workers=workers))["shards of train"]
    assert check.level == level
    assert said in check.message
