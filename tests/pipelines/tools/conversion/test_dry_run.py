"""A dry run says what a run then makes."""

import os

import pytest

pytest.importorskip("tfx", reason="components needs TFX")
import pipelines
from pipelines.tools.conversion.dry_run import plan_conversion
from pipelines.tools.conversion.settings import prepare
from trainer_utils.dataset.location import read_manifest


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
