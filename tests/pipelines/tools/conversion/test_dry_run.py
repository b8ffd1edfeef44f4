"""A dry run reports that a run would fail, before anything is written."""

import json

import pytest

pytest.importorskip("pyarrow")
from click.testing import CliRunner

from pipelines.cli.app import app
from tests.make import jpeg, write_files


def dry_run(source, *flags):
    return CliRunner().invoke(app, ["convert", str(source), "--dry-run", *flags])


def test_dry_run_of_good_photos_exits_with_0(tmp_path):
    files = {f"{'ab'[n % 2]}/{n}.jpg": jpeg(n) for n in range(70)}
    result = dry_run(write_files(tmp_path / "in", files))
    assert result.exit_code == 0, result.output
    assert "64 files opened as a sample: all with a known format. The run reads all files." in (
        result.stdout
    )


def test_dry_run_of_invalid_images_exits_with_1(tmp_path):
    files = {f"{'ab'[n % 2]}/{n}.jpg": b"not an image" for n in range(4)}
    result = dry_run(write_files(tmp_path / "in", files))
    assert result.exit_code == 1
    assert "This run would fail:" in result.stdout
    assert "4 files opened as a sample: none has a known image format" in result.stdout
    assert json.loads(dry_run(tmp_path / "in", "--json").stdout)["opened_bad"] == 4


def test_dry_run_of_too_many_rejects_names_each_on_a_line(tmp_path):
    rows = "".join(f"p{n}.jpg,{'' if n else 'cat'}\n" for n in range(3))
    write_files(tmp_path / "in", {f"p{n}.jpg": jpeg(n) for n in range(3)})
    write_files(tmp_path / "in", {"list.csv": f"filename,label\n{rows}"})
    result = dry_run(tmp_path / "in")
    assert result.exit_code == 1, result.output
    lines = result.stdout.splitlines()
    first = lines.index(
        "2 of 3 inputs were rejected (2 NO_LABEL), more than max_reject_fraction=0.01 allows:"
    )
    assert lines[first + 1].startswith("  p1.jpg: NO_LABEL (")
    assert lines[first + 2].startswith("  p2.jpg: NO_LABEL (")
    assert lines[-1] == "To leave them out: max_reject_fraction=0.67 (--max-reject-fraction 0.67)."
    assert dry_run(tmp_path / "in", "--max-reject-fraction", "0.67").exit_code == 0
