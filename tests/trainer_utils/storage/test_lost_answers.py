"""Test calls that succeed but lose their answers, as on NFS, so that a retry finds them done."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainer_utils import storage
from trainer_utils.storage import MachineError


@pytest.fixture
def lose_answer(monkeypatch) -> Callable[[str], list[Any]]:
    """Make the first call of a method of local files succeed and then raise."""
    monkeypatch.setattr("time.sleep", lambda _: None)

    def lose(method: str) -> list[Any]:
        make, calls = getattr(storage.LOCAL, method), []

        def call(*given: Any) -> Any:
            calls.append(given)
            made = make(*given)
            if len(calls) == 1:
                raise OSError(errno.EIO, "Input/output error")
            return made

        monkeypatch.setattr(storage.LOCAL, method, call)
        return calls

    return lose


def test_rename_with_a_lost_answer_succeeds(tmp_path, lose_answer):
    Path(tmp_path, "new").write_text("new")
    Path(tmp_path, "final").write_text("old")
    calls = lose_answer("rename")
    storage.rename(str(tmp_path / "new"), str(tmp_path / "final"))
    assert len(calls) == 2
    assert Path(tmp_path, "final").read_text() == "new"


def test_folder_rename_with_a_lost_answer_succeeds(tmp_path, lose_answer):
    Path(tmp_path, "new").mkdir()
    Path(tmp_path, "new", "file").write_text("new")
    lose_answer("rename")
    storage.rename(str(tmp_path / "new"), str(tmp_path / "final"))
    assert Path(tmp_path, "final", "file").read_text() == "new"


def test_atomic_write_survives_a_lost_answer(tmp_path, lose_answer):
    lose_answer("rename")
    storage.write_text(str(tmp_path / "file"), "text", temporary_folder=str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert Path(tmp_path, "file").read_text() == "text"


def test_removal_with_a_lost_answer_succeeds(tmp_path, lose_answer):
    Path(tmp_path, "file").write_text("text")
    lose_answer("remove")
    storage.remove_file(str(tmp_path / "file"))
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("is_there", [True, False])
def test_source_removed_by_somebody_else_raises(tmp_path, monkeypatch, is_there):
    source, target = Path(tmp_path, "new"), Path(tmp_path, "final")
    source.write_text("new")
    if is_there:
        target.write_text("of an earlier run")
    monkeypatch.setattr("time.sleep", lambda _: None)
    rename = storage.LOCAL.rename

    def fail(*given: str) -> None:
        if source.exists():
            source.unlink()
            raise OSError(errno.EIO, "Input/output error")
        rename(*given)

    monkeypatch.setattr(storage.LOCAL, "rename", fail)
    with pytest.raises(FileNotFoundError):
        storage.rename(str(source), str(target))


def test_missing_file_raises_without_a_retry(tmp_path, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("it is tried again"))
    with pytest.raises(FileNotFoundError):
        storage.remove_file(str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError):
        storage.rename(str(tmp_path / "none"), str(tmp_path / "final"))


def test_rename_that_always_fails_raises_machine_error(tmp_path, monkeypatch):
    Path(tmp_path, "new").write_text("new")
    monkeypatch.setattr("time.sleep", lambda _: None)

    def fail(*_: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(storage.LOCAL, "rename", fail)
    with pytest.raises(MachineError, match="final"):
        storage.rename(str(tmp_path / "new"), str(tmp_path / "final"))
