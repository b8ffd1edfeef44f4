"""A dry run says what a run then makes."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("tfx", reason="components needs TFX")
import pipelines
from pipelines.tools.conversion.dry_run import plan_conversion
from pipelines.tools.conversion.settings import prepare
from trainer_utils.dataset.files import read_manifest


def test_a_dry_run_of_images_says_what_a_run_then_makes(pictures, tmp_path):
    planned = plan_conversion(prepare(pictures, num_shards={"train": 3, "eval": 1}, seed=5))
    assert (planned.kind, planned.layout, planned.found) == ("image", "folder", 30)
    assert planned.classes == {"label": 3}
    uri = pipelines.convert(
        pictures, str(tmp_path / "out"), num_shards={"train": 3, "eval": 1}, seed=5
    )
    manifest = read_manifest(uri)
    for name, split in planned.splits.items():
        shards = manifest.shards_of(name)
        assert split.num_shards == len(shards)
        assert split.shard_records == (
            min(s.records for s in shards),
            max(s.records for s in shards),
        )
        assert split.bytes == pytest.approx(sum(shard.bytes for shard in shards), rel=0.1)


def test_a_dry_run_of_texts_counts_rows_and_leaves_nothing(tmp_path, monkeypatch):
    import tempfile

    work, source = tmp_path / "tmp", tmp_path / "source"
    work.mkdir()
    source.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(work))
    rows = "".join(f"text {number},{number % 2}\n" for number in range(100))
    (source / "a.csv").write_text(f"text,label\n{rows}a,b,c\n")
    planned = plan_conversion(prepare(str(source)))
    assert (planned.kind, planned.layout, planned.found) == ("text", "csv", 101)
    assert sum(split.records for split in planned.splits.values()) == 100
    assert sum(split.rejected for split in planned.splits.values()) == 1
    assert planned.features == {"text": "string", "label": "int"}
    assert list(work.iterdir()) == []
    assert os.listdir(source) == ["a.csv"]
    assert "train" in str(planned)


@pytest.mark.parametrize("command", ["{pictures} --kind image", "{table} --splits a=1,b=1"])
def test_a_dry_run_does_without_tfx(pictures, tmp_path, command):
    (tmp_path / "a.csv").write_text("text,label\na,b\nc,d\n")
    arguments = command.format(pictures=pictures, table=tmp_path / "a.csv").split()
    code = (
        "import sys\n"
        "from pipelines.cli.app import main\n"
        f"sys.argv = ['tfx-shards', 'convert', *{arguments!r}, '--dry-run']\n"
        "try:\n    main()\n"
        "except SystemExit as error:\n    assert not error.code, error.code\n"
        "print('heavy:', *({'tfx', 'tensorflow', 'apache_beam', 'ml_metadata'} & {*sys.modules}))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "records a shard" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "heavy:"
