"""Where a step puts its dataset: into the artifact's folder or elsewhere."""

import pytest

from components.kubeflow.dataset_location import (
    check_fetched,
    find_dataset,
    find_datasets,
    place_dataset,
    write_reference,
)
from trainer_utils.format import ConfigError, DatasetError


def test_a_dataset_is_kept_in_the_artifact_or_elsewhere(tmp_path):
    uri, path = "minio://b/run/examples", str(tmp_path)
    assert place_dataset(path, uri, "") == path
    assert place_dataset(path, uri, "/mnt/data") == "/mnt/data/b/run/examples"
    assert place_dataset(path, uri, "gs://c/d") == "gs://c/d/b/run/examples"
    assert place_dataset(path, uri, "minio://c/d") == "minio://c/d/b/run/examples"
    assert find_dataset(path) == path
    write_reference(path, "gs://c/d/b/run/examples")
    assert find_dataset(path) == "gs://c/d/b/run/examples"


@pytest.mark.parametrize("root", ["data", "./data", "https://b", "hf://b"])
def test_a_place_that_no_step_could_write_to_is_refused(root):
    with pytest.raises(ConfigError, match=f"dataset_root: .* got '{root}'"):
        place_dataset("/x", "gs://b/x", root)


def test_an_artifact_may_stand_for_several_datasets(tmp_path):
    path = str(tmp_path)
    assert find_datasets(path) == [path]
    write_reference(path, "gs://b/1")
    assert find_datasets(path) == ["gs://b/1"]
    write_reference(path, ["gs://b/1", "gs://b/2"])
    assert find_datasets(path) == ["gs://b/1", "gs://b/2"]
    with pytest.raises(DatasetError, match=r"expected one dataset, got 2\. Make them one by"):
        find_dataset(path)


def test_an_artifact_whose_files_are_gone_is_not_taken_for_an_empty_one(tmp_path):
    check_fetched("examples", str(tmp_path), "s3://b/x")
    with pytest.raises(DatasetError, match=r"examples: expected the files of s3://b/x, found none"):
        check_fetched("examples", str(tmp_path / "x"), "s3://b/x")
