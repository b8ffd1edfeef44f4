"""Fixtures: a small dataset with labels, rejects and an index."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from trainer_utils import DatasetWriter
from trainer_utils.format import Accounting, Manifest
from trainer_utils.format.manifest import FileDigest

LABELS = ["cat", "dog"]


@pytest.fixture(scope="session")
def whole_dataset(tmp_path_factory) -> Path:
    """Write a dataset as an ImageExampleGen does: 20 train records in 2 shards, 5 also in eval."""
    uri = tmp_path_factory.mktemp("whole") / "dataset"
    shards = {"train": 2, "eval": 1}
    with DatasetWriter(str(uri), num_shards=shards, vocabulary={"label": LABELS}) as writer:
        for number in range(25):
            split = "train" if number < 20 else "eval"
            writer.write(split, {"data": bytes([number % 20]) * 100, "label": LABELS[number % 2]})
    rejects = json.dumps({"code": "EMPTY_FILE", "source": "a"}) + "\n"
    (uri / "rejects.jsonl").write_text(rejects)
    path = uri / "manifest.json"
    manifest = Manifest.from_json(path.read_text(), path="")
    manifest = dataclasses.replace(
        manifest,
        producer="ImageExampleGen",
        accounting={
            "train": Accounting(found=22, written=20, rejected=1, skipped=1),
            "eval": Accounting(found=5, written=5),
        },
        files={**manifest.files, "rejects.jsonl": FileDigest.of(rejects.encode())},
        reject_counts={"EMPTY_FILE": 1},
    )
    path.write_text(manifest.to_json())
    return uri


@pytest.fixture
def dataset(whole_dataset, tmp_path) -> Path:
    """Return a copy of the dataset that a test may damage."""
    return Path(shutil.copytree(whole_dataset, tmp_path / "dataset"))
