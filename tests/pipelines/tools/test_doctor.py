"""The findings of the doctor, and the commands that it suggests as fixes."""

import re
import shlex

import pytest
from click.testing import CliRunner

from components.report.doctor import dataset_checks
from pipelines.cli.app import app
from tests.make import write_rows
from tests.pipelines.rewriting import rewrite


def by_name(checks):
    found = {check.name: check for check in checks}
    assert all(bool(check.cure) == (check.level != "ok") for check in found.values())
    return found


def test_findings_of_a_bad_dataset(dataset, subtests):
    checks = by_name(dataset_checks(str(dataset), workers=2))
    levels = {name: check.level for name, check in checks.items()}
    assert {
        "manifest": "ok",
        "rejects": "warn",
        "classes": "ok",
        "shards of train": "ok",
    }.items() <= (levels.items())
    for labels in ({"cat": 100, "dog": 5}, {"cat": 10, "cow": 0, "dog": 5}):
        with subtests.test(labels=labels):

            def change(manifest, labels=labels):
                manifest["splits"]["train"]["labels"] = labels
                manifest["splits"]["eval"]["labels"] = {}

            rewrite(dataset / "manifest.json", change)
            assert by_name(dataset_checks(str(dataset)))["classes"].level == "warn"
    (dataset / "manifest.json").unlink()
    assert by_name(dataset_checks(str(dataset)))["manifest"].level == "warn"


def test_incomplete_dataset_is_bad(dataset):
    next(dataset.glob("Split-eval/*")).unlink()
    assert by_name(dataset_checks(str(dataset)))["dataset"].level == "bad"


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_fewer_shards_than_workers_is_no_problem(dataset, workers):
    checks = by_name(dataset_checks(str(dataset), workers=workers))
    assert checks["shards of train"].level == "ok"
    said = f"{workers} workers divide its records" in checks["shards of train"].message
    assert said == (2 % workers != 0)


def write_large_gzip(folder):
    rows = ({"data": bytes([n]) * 100} for n in range(20))
    return write_rows(folder, rows, compression="gzip", num_shards={"train": 2})


def write_without_manifest(folder):
    uri = write_rows(folder, ({"data": bytes([n]) * 100} for n in range(20)))
    (folder / "manifest.json").unlink()
    return uri


@pytest.mark.parametrize(
    ("write", "name", "workers"),
    [
        (write_large_gzip, "compression", 1),
        (write_large_gzip, "shards of train", 3),
        (write_without_manifest, "manifest", 1),
    ],
)
def test_printed_fix_is_a_working_command(tmp_path, write, name, workers):
    check = by_name(dataset_checks(write(tmp_path / "in"), workers=workers))[name]
    assert check.level == "warn"
    command = re.search(r"Run tfx-shards (.*? OUT(?: --[\w-]+ \w+)*)", check.cure)[1]
    out = str(tmp_path / "out")
    result = CliRunner().invoke(app, [out if a == "OUT" else a for a in shlex.split(command)])
    assert result.exit_code == 0, result.output
    assert by_name(dataset_checks(result.stdout.strip(), workers=workers))[name].level == "ok"
