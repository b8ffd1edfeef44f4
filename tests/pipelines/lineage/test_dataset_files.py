"""Datasets below a folder, and what each says of itself."""

import pytest

from pipelines.lineage.dataset_files import dataset_folders, read_dataset
from trainer_utils.dataset import open_dataset
from trainer_utils.format import DatasetError

ROWS = {"train": [[{"label": [1]}]]}


def test_folders_with_a_manifest_are_found_and_links_are_not_followed(tmp_path, write_dataset):
    for place in ("a/1", "b/c/2"):
        write_dataset(tmp_path / place, ROWS, {})
    (tmp_path / "latest").symlink_to(tmp_path / "a/1")
    (tmp_path / "a/1/inner").mkdir()
    (tmp_path / "a/1/inner/manifest.json").touch()  # of its own: a dataset holds no other
    found = [str(tmp_path / place) for place in ("a/1", "b/c/2")]
    assert list(dataset_folders(str(tmp_path))) == found
    assert list(dataset_folders(found[0])) == found[:1]
    assert list(dataset_folders(str(tmp_path / "nowhere"))) == []


def test_those_in_a_bucket_are_found(tmp_path, write_dataset, in_memory):
    for place in ("a/1", "b/c/2"):
        write_dataset(tmp_path / place, ROWS, {})
    root = in_memory(tmp_path, "dataset-folders")
    assert sorted(dataset_folders(root)) == [f"{root}/a/1", f"{root}/b/c/2"]
    assert list(dataset_folders(f"{root}/a/1")) == [f"{root}/a/1"]


def test_a_dataset_is_known_by_its_manifests_digest(tmp_path, write_dataset):
    uri = write_dataset(tmp_path / "d", ROWS, {})
    found = read_dataset(uri)
    assert found.digest == open_dataset(uri).digest
    assert found.summary.num_shards == {"train": 1}
    assert read_dataset(str(tmp_path)) is None
    (tmp_path / "d/lineage.json").write_text("no JSON")
    with pytest.raises(DatasetError, match=r"lineage\.json"):
        read_dataset(uri)
