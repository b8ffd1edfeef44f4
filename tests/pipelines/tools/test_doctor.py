"""What the doctor finds amiss in a dataset."""

from components.report.doctor import dataset_checks
from tests.pipelines.rewriting import rewrite


def by_name(checks):
    found = {check.name: check for check in checks}
    assert all(bool(check.cure) == (check.level != "ok") for check in found.values())
    return found


def test_what_is_amiss_in_a_dataset(dataset):
    checks = by_name(dataset_checks(str(dataset), workers=2))
    levels = {name: check.level for name, check in checks.items()}
    assert {
        "manifest": "ok",
        "rejects": "warn",
        "classes": "ok",
        "shards of train": "ok",
    }.items() <= (levels.items())
    found = by_name(dataset_checks(str(dataset), workers=3))
    assert found["shards of train"].level == "warn"
    for labels in ({"cat": 100, "dog": 5}, {"cat": 10, "cow": 0, "dog": 5}):

        def change(manifest, labels=labels):
            manifest["splits"]["train"]["labels"] = labels
            manifest["splits"]["eval"]["labels"] = {}

        rewrite(dataset / "manifest.json", change)
        assert by_name(dataset_checks(str(dataset)))["classes"].level == "warn"
    (dataset / "manifest.json").unlink()
    assert by_name(dataset_checks(str(dataset)))["manifest"].level == "warn"


def test_a_dataset_that_is_not_whole_is_bad(dataset):
    next(dataset.glob("Split-eval/*")).unlink()
    assert by_name(dataset_checks(str(dataset)))["dataset"].level == "bad"
