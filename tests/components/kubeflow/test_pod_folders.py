"""Temporary files and the launcher's document, where a pod lets a step write nearly nowhere."""

import json
import os
import tempfile

import pytest

from components.kubeflow import pod_folders
from components.kubeflow.pod_folders import (
    hand_over,
    hand_over_value,
    temporary_folder,
    writable_file,
)
from trainer_utils.format import ConfigError

DOCUMENT = {"artifacts": {}}


@pytest.fixture
def without_tmp(monkeypatch):
    """Python finds no folder for temporary files, as with a read-only root and no `/tmp`."""
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc/none"])


@pytest.fixture
def refuse(monkeypatch):
    """Makes writes below a folder fail, as on a read-only disk; a superuser has no other."""

    def refuse(folder: str, error: int) -> None:
        makedirs, access = os.makedirs, os.access

        def make(path, *arguments, **settings):
            if str(path).startswith(folder):
                raise OSError(error, os.strerror(error), path)
            makedirs(path, *arguments, **settings)

        monkeypatch.setattr(os, "makedirs", make)
        monkeypatch.setattr(
            os, "access", lambda path, mode: not path.startswith(folder) and access(path, mode)
        )

    return refuse


def test_temporary_files_lie_beside_the_first_output_that_has_room_and_go(tmp_path, without_tmp):
    output = tmp_path / "minio/run/examples"
    with temporary_folder(["/proc/none/examples", str(output)]):
        with tempfile.NamedTemporaryFile() as held:
            assert os.path.dirname(os.path.dirname(held.name)) == str(output.parent)
        assert os.environ["TMPDIR"] == tempfile.gettempdir()  # for processes that are started
        assert not output.exists()
    assert list(output.parent.iterdir()) == []
    assert "TMPDIR" not in os.environ


def test_a_pod_that_has_a_place_keeps_it(tmp_path):
    before = tempfile.gettempdir()
    with temporary_folder([str(tmp_path / "run/examples")]):
        assert tempfile.gettempdir() == before
    assert list(tmp_path.iterdir()) == []


def test_without_any_place_the_step_says_so_and_runs_until_it_needs_one(without_tmp, our_messages):
    with temporary_folder(["/proc/none/examples"]), pytest.raises(FileNotFoundError):
        tempfile.gettempdir()
    assert [message for message in our_messages() if "--scratch /tmp" in message]


@pytest.mark.parametrize("has_tmp", [True, False])
def test_a_user_without_a_home_has_one_in_the_temporary_folder(
    tmp_path, monkeypatch, request, has_tmp
):
    if not has_tmp:
        request.getfixturevalue("without_tmp")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 3)  # whom no machine knows
    assert os.path.expanduser("~/x") == "~/x"
    with temporary_folder([str(tmp_path / "run/examples")]):
        assert os.path.expanduser("~/x") == os.path.join(tempfile.gettempdir(), "x")
    assert "HOME" not in os.environ
    monkeypatch.setenv("HOME", "/home/tfx")
    with temporary_folder([str(tmp_path / "run/examples")]):
        assert os.environ["HOME"] == "/home/tfx"


@pytest.mark.parametrize("error", pod_folders._REFUSED)
def test_a_value_that_cannot_be_handed_over_is_an_error_with_the_cure(tmp_path, refuse, error):
    hand_over_value(str(tmp_path / "kfp/count"), "count", "3")
    assert (tmp_path / "kfp/count").read_text() == "3"
    refuse(str(tmp_path), error)
    with pytest.raises(ConfigError, match=r"kfp/count: .* 'count' .*--scratch /tmp") as raised:
        hand_over_value(str(tmp_path / "kfp/count"), "count", "3")
    assert raised.value.setting == "count"


@pytest.mark.parametrize("error", pod_folders._REFUSED)
def test_metadata_that_cannot_be_handed_over_is_a_warning_with_the_cure(
    tmp_path, refuse, our_messages, error
):
    refuse(str(tmp_path), error)
    hand_over(str(tmp_path / "kfp/metadata.json"), DOCUMENT)
    (message,) = our_messages()
    assert os.strerror(error) in message
    assert "--scratch /tmp" in message
    assert writable_file(str(tmp_path / "kfp/metadata.json")) == os.path.join(
        tempfile.gettempdir(), "metadata.json"
    )


def test_a_full_disk_is_an_error(tmp_path, refuse):
    refuse(str(tmp_path), 28)
    with pytest.raises(OSError, match="No space left"):
        hand_over(str(tmp_path / "kfp/metadata.json"), DOCUMENT)


def test_what_can_be_written_is(tmp_path):
    path = str(tmp_path / "kfp/metadata.json")
    assert writable_file(path) == path
    hand_over(path, DOCUMENT)
    assert json.loads((tmp_path / "kfp/metadata.json").read_text()) == DOCUMENT
