"""Where a step puts its dataset: into the artifact's folder or elsewhere."""

import pytest

from components.kubeflow.dataset_location import find_dataset, place_dataset, write_reference
from trainer_utils.format import ConfigError


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
