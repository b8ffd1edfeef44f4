"""Records of datasets below a `dataset_root`, and the versions that hang on them."""

import shutil
from pathlib import Path

import pytest

from components.kubeflow.dataset_records import (
    DatasetRecord,
    current_version,
    is_whole,
    record_dataset,
    records_by_span,
    split_versions,
)
from trainer_utils import DatasetWriter


def make_dataset(root: Path, name: str) -> str:
    uri = str(root / name)
    with DatasetWriter(uri) as writer:
        for number in range(3):
            writer.write("train", {"n": number})
    return uri


def shard_of(uri: str) -> Path:
    return next(Path(uri).glob("Split-*/*tfrecord*"))


def cut(uri: str) -> None:
    shard_of(uri).write_bytes(shard_of(uri).read_bytes()[:-1])


DAMAGES = {
    "the folder": shutil.rmtree,
    "the manifest": lambda uri: Path(uri, "manifest.json").unlink(),
    "a shard": lambda uri: shard_of(uri).unlink(),
    "the end of a shard": cut,
    "the manifest's sense": lambda uri: Path(uri, "manifest.json").write_text("{}"),
}


@pytest.mark.parametrize("gone", DAMAGES)
def test_a_version_is_another_once_a_dataset_of_it_is_gone(tmp_path, gone):
    root = str(tmp_path)
    assert current_version(root, "f") == "f", "nothing was made yet"
    uris = [make_dataset(tmp_path, name) for name in ("examples", "balanced")]
    for uri in uris:
        record_dataset(root, DatasetRecord(uri=uri), input_versions=["f"])
    assert current_version(root, "f") == "f"
    DAMAGES[gone](uris[1])
    assert not is_whole(uris[1])
    second = current_version(root, "f")
    assert second != "f"
    assert current_version(root, "f") == second, "until it is made again"
    again = make_dataset(tmp_path, "again")
    record_dataset(root, DatasetRecord(uri=again), input_versions=[second])
    assert current_version(root, "f") == second
    shutil.rmtree(again)
    assert current_version(root, "f") not in ("f", second)
    assert current_version(root, "another") == "another"


def test_records_are_found_by_span_and_one_dataset_has_one(tmp_path):
    root = str(tmp_path)
    assert records_by_span(root) == {}
    for span, uri in ((10, "/a"), (9, "/b"), (10, "/c"), (10, "/a")):
        record = DatasetRecord(uri=uri, span=span, source="s", seconds=1.5)
        record_dataset(root, record, input_versions=["v/..\n", ""])
    found = {span: {one.uri for one in each} for span, each in records_by_span(root).items()}
    assert list(found.items()) == [(9, {"/b"}), (10, {"/a", "/c"})]
    assert records_by_span(root)[9] == [
        DatasetRecord(uri="/b", span=9, source="s", version=None, seconds=1.5)
    ]


def test_versions_travel_as_one_text():
    assert split_versions(["a b\nc", "c"]) == ["a b", "c"]
    assert split_versions([""]) == []
