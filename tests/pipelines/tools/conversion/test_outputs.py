import os

import pytest

from pipelines.tools.conversion.outputs import point_to
from trainer_utils.dataset.location import newest_dataset


def make(tmp_path, number):
    uri = tmp_path / f"out/artifacts/ShardBalancer/balanced_examples/{number}"
    uri.mkdir(parents=True)
    (uri / "manifest.json").write_text("{}")
    return str(uri)


def test_the_link_leads_to_the_newest_and_moves_with_its_folder(tmp_path):
    out = str(tmp_path / "out")
    first, second = make(tmp_path, 3), make(tmp_path, 6)
    point_to(out, first)
    assert newest_dataset(out) == newest_dataset(f"{out}/latest/") == first
    point_to(out, second)
    assert newest_dataset(out) == second
    assert sorted(os.listdir(out)) == ["artifacts", "latest"]
    os.rename(out, tmp_path / "moved")
    assert newest_dataset(str(tmp_path / "moved")) == second.replace("/out/", "/moved/")


@pytest.mark.parametrize("uri", ["gs://bucket/a", "no/such", "/"])
def test_any_other_uri_is_itself(uri):
    assert newest_dataset(uri) == uri


def test_a_dataset_with_a_folder_called_latest_is_itself(tmp_path):
    uri = make(tmp_path, 1)
    os.mkdir(f"{uri}/latest")
    assert newest_dataset(uri) == uri


def test_a_file_system_without_links_is_no_error(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError("no links here")

    monkeypatch.setattr(os, "symlink", refuse)
    uri = make(tmp_path, 1)
    point_to(str(tmp_path / "out"), uri)
    assert os.listdir(tmp_path / "out") == ["artifacts"]


def test_an_output_folder_may_be_a_link_itself(tmp_path):
    target = tmp_path / "out/artifacts/1"
    target.mkdir(parents=True)
    (tmp_path / "out/latest").symlink_to("artifacts/1")
    (tmp_path / "there").symlink_to("out")
    assert newest_dataset(str(tmp_path / "there")) == str(tmp_path / "there/artifacts/1")
