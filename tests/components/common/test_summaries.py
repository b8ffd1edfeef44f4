"""What a run that fails has written goes with it; a whole dataset and others' files stay."""

from pathlib import Path

import fsspec
import pytest

from components.common.workspace import removed_on_failure, start_working, working_folder
from trainer_utils.format import ShardName, encode_example
from trainer_utils.storage import join, write_text
from trainer_utils.writing.shards import write_shard

SHARD = ShardName(split="train", shard_index=0, num_shards=1)


class Failure(Exception):
    pass


def fail(uri: str, error: type[BaseException] = Failure) -> None:
    """Like a run that fails after its first shard."""
    with removed_on_failure(uri):
        start_working(uri)
        record = encode_example({"label": 1})
        write_shard(SHARD, lambda writer: writer.write(record), uri=uri)
        write_text(join(working_folder(uri), "run-1"), "", temporary_folder=uri)
        write_text(join(uri, "shard_info.json"), "{}", temporary_folder=uri)
        raise error


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("error", [Failure, KeyboardInterrupt, SystemExit])
def test_nothing_of_a_failed_run_is_left(tmp_path, error):
    (tmp_path / "notes.md").write_text("mine, at the top")
    with pytest.raises(error):
        fail(str(tmp_path), error)
    assert names(tmp_path) == {"notes.md"}


def test_nothing_is_left_in_a_store():
    uri = "memory://failed/out"
    with pytest.raises(Failure):
        fail(uri)
    assert fsspec.filesystem("memory").find("/failed") == []


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_whole_dataset_stays_until_its_files_are_replaced(tmp_path, write_dataset, is_begun):
    write_dataset(tmp_path, {"train": [[{"label": [1]}]]}, {})
    before = names(tmp_path)
    if is_begun:
        (tmp_path / "manifest.json").unlink()
        (tmp_path / ".tfx-shards-tmp").mkdir()
    with pytest.raises(Failure), removed_on_failure(str(tmp_path)):
        raise Failure
    assert names(tmp_path) == (set() if is_begun else before)


def test_files_of_others_stay_and_the_error_is_that_of_the_run(tmp_path):
    start_working(str(tmp_path))
    (tmp_path / "Split-train").mkdir()
    (tmp_path / "Split-train/thesis.pdf").write_text("mine")
    with pytest.raises(Failure), removed_on_failure(str(tmp_path)):
        raise Failure
    assert (tmp_path / "Split-train/thesis.pdf").read_text() == "mine"


def test_a_disk_that_fails_meanwhile_does_not_hide_why_the_run_failed(tmp_path, monkeypatch):
    def refuse(path: str) -> None:
        raise OSError(5, "Input/output error", path)

    start_working(str(tmp_path))
    monkeypatch.setattr("components.common.workspace.remove_tree", refuse)
    with pytest.raises(Failure), removed_on_failure(str(tmp_path)):
        raise Failure
    assert (tmp_path / ".tfx-shards-tmp").exists()
