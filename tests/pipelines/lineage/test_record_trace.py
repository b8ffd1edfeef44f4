"""A record is traced from the raw file through every dataset."""

import json
import shutil
from pathlib import Path

import pytest

from pipelines.lineage import describe_artifact
from trainer_utils.format import Feature

NAMES = {"filename": Feature(type="string"), "id": Feature(type="string")}

# Along the chain ----------------------------------------------------------------------------------


@pytest.fixture
def chain(tmp_path, make_store, write_dataset) -> Path:
    """Write photos, a table of texts, a dataset of them, a balanced dataset and a schema."""
    photos = tmp_path / "photos"
    (photos / "cat").mkdir(parents=True)
    (photos / "cat/1.jpg").touch()
    (photos / "more.tar").touch()
    names = [b"cat/1.jpg", b"cat/2.jpg", b"more.tar/3.jpg"]
    rows = [{"filename": [name]} for name in names]
    write_dataset(tmp_path / "raw", {"train": [rows[:1]], "eval": [rows[1:]]}, NAMES)
    write_dataset(tmp_path / "balanced", {"train": [[], rows[:1]], "eval": [rows[:0:-1]]}, NAMES)
    (tmp_path / "raw/rejects.jsonl").write_text(
        '{"split": "train", "source": "cat/bad.jpg", "code": "EMPTY_FILE", "detail": "0 bytes"}\n'
    )
    maker = make_store()
    raw = maker.artifact("Examples", str(tmp_path / "raw"))
    balanced = maker.artifact("Examples", str(tmp_path / "balanced"))
    model = maker.artifact("Model", str(tmp_path / "model"))
    maker.execution("ImageExampleGen", outputs={"examples": [raw]}, input_base=str(photos))
    maker.execution("ShardBalancer", {"examples": [raw]}, {"balanced_examples": [balanced]})
    maker.execution("Trainer", {"examples": [balanced]}, {"model": [model]})
    return tmp_path


def record_of(chain: Path, artifact: str, name: str) -> dict:
    found = describe_artifact(str(chain / artifact), metadata=str(chain), record=name)
    told = found.to_json()
    assert json.loads(json.dumps(told)) == told
    return told["record"]


def test_record_is_traced_from_file_through_each_dataset(chain):
    record = record_of(chain, "model", "cat/2.jpg")
    assert [
        (Path(step["uri"]).name, p["split"], p["shard"], p["record"])
        for step in record["steps"]
        for p in step["places"]
    ] == [
        ("raw", "eval", "Split-eval/data_tfrecord-00000-of-00001", 0),
        ("balanced", "eval", "Split-eval/data_tfrecord-00000-of-00001", 1),
    ]
    assert record["source"] == str(chain / "photos/cat/2.jpg")


def test_rejected_file_is_reported_as_rejected(chain):
    record = record_of(chain, "balanced", "cat/bad.jpg")
    assert [step["outcome"] for step in record["steps"]] == ["rejected", "not found"]
    lineage = describe_artifact(str(chain / "balanced"), metadata=str(chain), record="cat/bad.jpg")
    assert "split train: EMPTY_FILE (0 bytes)" in str(lineage)


def test_damaged_dataset_is_unknown_and_others_are_traced(chain, subtests):
    for damage in (
        lambda uri: (uri / "rejects.jsonl").write_text("{"),
        lambda uri: next(uri.rglob("data_*")).write_bytes(b"x"),
        lambda uri: (uri / "manifest.json").write_text("{"),
        lambda uri: shutil.rmtree(uri),
    ):
        with subtests.test(damage=damage):
            damage(chain / "raw")
            step, other = record_of(chain, "balanced", "cat/1.jpg")["steps"]
            assert (step["outcome"], other["outcome"]) == ("unknown", "found")
