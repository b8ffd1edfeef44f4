"""Test the place of a step's dataset or page: in the artifact or in another root."""

from pathlib import Path

import pytest

from components.kubeflow.artifacts import (
    find_dataset,
    page_folder,
    place_dataset,
    write_reference,
)
from trainer_utils.core.errors import ConfigError, DatasetError

URI = "minio://b/run/examples"


def test_dataset_is_stored_in_the_artifact_or_dataset_root(tmp_path, subtests):
    for number, root in enumerate(("", "/mnt/data", "gs://c/d")):
        with subtests.test(number=number):
            path = str(tmp_path / f"{number}")
            place = place_dataset(path, URI, root)
            assert place == (f"{root}/b/run/examples" if root else path)
            if root:
                write_reference(path, place)
                assert find_dataset(path, URI) == place
    for root in ("data", "https://b"):  # which no step could write to
        with subtests.test(root=root):
            with pytest.raises(ConfigError) as refused:
                place_dataset("/x", "gs://b/x", root)
            assert (refused.value.setting, refused.value.value) == ("dataset_root", root)


def test_artifact_whose_files_are_gone_raises(tmp_path):
    with pytest.raises(DatasetError, match="enable_caching=False") as gone:
        find_dataset(str(tmp_path / "x"), URI)
    assert gone.value.path == URI


def test_page_becomes_a_file_and_a_failure_leaves_nothing(tmp_path):
    def make(error: Exception | None = None) -> None:
        with page_folder(str(tmp_path / "run/report")) as folder:
            Path(folder, "report.html").write_text("page")
            if error:
                raise error

    with pytest.raises(KeyError):
        make(KeyError())
    assert not list((tmp_path / "run").iterdir())
    make()
    assert [path.read_text() for path in (tmp_path / "run").iterdir()] == ["page"]
