"""Layouts look at the first bytes of files without failing on one that its reader reports."""

import errno

import pytest

from components.inputs.listing import FileTable, LayoutInputs
from tests.make import write_files
from trainer_utils import storage
from trainer_utils.core.errors import DatasetError
from trainer_utils.storage import list_files


@pytest.fixture
def inputs(tmp_path) -> LayoutInputs:
    base = str(write_files(tmp_path, {"a.txt": b"some text", "b.txt": b""}))
    return LayoutInputs(base=base, root="", files=FileTable.of(list_files(base)))


def test_head_is_cut_to_its_size(inputs):
    assert inputs.head("a.txt", 4) == b"some"
    assert inputs.head("b.txt", 4) == b""


def test_head_of_a_file_removed_since_listing_is_empty(inputs, tmp_path):
    (tmp_path / "a.txt").unlink()
    assert inputs.head("a.txt", 4) == b""


def test_head_raises_if_the_machine_fails(inputs, monkeypatch):
    def fail(*args: object, **keywords: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(storage, "open_for_reading", fail)
    with pytest.raises(DatasetError, match=r"a\.txt"):
        inputs.head("a.txt", 4)
