"""`tfx-shards audit`, in this process."""

import json

import pytest
from click.testing import CliRunner

from pipelines.cli.app import app


@pytest.fixture
def audit(whole_dataset):
    def run(*arguments):
        return CliRunner().invoke(app, ["audit", str(whole_dataset), *map(str, arguments)])

    return run


def test_findings_as_json_and_as_text(audit):
    result = audit("--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["records"] == {"train": 20, "eval": 5}
    assert sum(found["counts"].values()) >= len(found["findings"])
    assert "25 records (train 20, eval 5)" in audit().stdout


def test_the_exit_status_says_whether_kinds_were_found(audit):
    kinds = list(json.loads(audit("--json").stdout)["counts"])
    assert kinds
    result = audit("--fail-on", f"dark,{kinds[0]}")
    assert result.exit_code == 1
    assert kinds[0] in result.stderr
    assert audit("--fail-on", "dark").exit_code == 0


def test_a_misspelt_kind_is_bad_usage(audit):
    result = audit("--fail-on", "leekage")
    assert result.exit_code == 2
    assert "Did you mean 'leakage'" in result.stderr


def test_a_dataset_is_compared_with_itself(audit, whole_dataset):
    shifts = json.loads(audit("--against", whole_dataset, "--json").stdout)
    assert shifts["against"] == str(whole_dataset)
