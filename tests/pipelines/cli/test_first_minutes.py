"""What a new user does on a bad day: each ends in one sentence and a status."""

import os
import shlex

import pytest
from click.testing import CliRunner

pytest.importorskip("tfx", reason="convert needs TFX")
from pipelines.cli.app import app


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.csv").write_text("text,label\n" + "".join(f"t{n},a\n" for n in range(9)))
    (tmp_path / "empty/folder").mkdir(parents=True)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/1.jpg").write_bytes(b"\xff\xd8\xff")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "status", "value"),
    [
        ("convert none out", 1, "'none'"),
        ("convert empty out", 1, "'empty'"),
        ("convert photos/1.jpg out", 1, "got an image"),
        ("convert '' out", 2, "''"),
        ("convert photos ''", 2, "out: expected a folder, local or in a bucket, got ''"),
        ("convert photos texts.csv", 2, "'texts.csv'"),
        ("convert photos texts.csv/x", 2, "'texts.csv/x'"),
        ("convert photos photos/out", 2, "'photos/out'"),
        ("convert photos https://bucket/out", 2, "'https://bucket/out'"),
        ("convert photos out --metadata empty", 2, "'empty'"),
        ("inspect texts.csv", 1, "texts.csv'"),
        ("verify photos", 1, "photos'"),
        ("plan none", 1, "none'"),
    ],
)
def test_a_wrong_place_is_told(here, arguments, status, value):
    result = CliRunner().invoke(app, shlex.split(arguments))
    assert (result.exit_code, result.stdout) == (status, ""), result.output
    assert value in result.stderr
    assert "Traceback" not in result.stderr
    assert not (here / "out").exists()


def test_a_place_without_permission_is_told_before_tfx_starts(here, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    result = CliRunner().invoke(app, ["convert", "photos", "out"])
    assert result.exit_code == 2
    assert "got 'out'" in result.stderr
    assert "Starting TFX" not in result.stderr
