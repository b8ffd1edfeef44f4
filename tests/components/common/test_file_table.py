"""A table of files is what a dict of them would be, in the order of their paths' bytes."""

import os
import random

import numpy as np
import pytest

from components.common import file_table
from components.common.file_table import FileTable
from trainer_utils.storage import InputFile, list_files, walk_files

NAMES = ["a", "a.b", "a/b", "a-b", "é/ü.jpg", "not utf-8 \udce9", "𐍈", "", " ", "z" * 300]


def files_of(names: list[str]) -> list[InputFile]:
    """One file each, every third of them with a problem."""
    return [
        InputFile(
            name,
            number * 7,
            f"{number}-x",
            ("UNREADABLE", "no") if number % 3 == 0 else None,
            is_folder=number % 6 == 0,
        )
        for number, name in enumerate(names)
    ]


@pytest.mark.parametrize("chunk", [1, 3, 1 << 15])
def test_a_table_holds_every_file_sorted_by_the_bytes_of_its_path(monkeypatch, chunk):
    monkeypatch.setattr(file_table, "_CHUNK", chunk)
    files = files_of(NAMES)
    random.Random(0).shuffle(files)
    table = FileTable.of(iter(files))
    expected = sorted(files, key=lambda file: os.fsencode(file.path))
    assert list(table.values()) == expected
    assert list(table) == [file.path for file in expected]
    assert dict(table) == {file.path: file for file in files}


@pytest.mark.parametrize("chunk", [1, 3, 1 << 15])
def test_files_without_problems_come_as_they_were_given(monkeypatch, chunk):
    monkeypatch.setattr(file_table, "_CHUNK", chunk)
    files = [InputFile(name, number * 7, f"{number}-x") for number, name in enumerate(NAMES)]
    expected = sorted(files, key=lambda file: os.fsencode(file.path))
    assert list(FileTable.of(files).values()) == expected
    mask = np.arange(len(files)) % 2 == 1
    assert list(FileTable.of(files).select(mask).values()) == expected[1::2]


def test_what_is_not_there_is_not_found():
    table = FileTable.of(files_of(NAMES))
    for path in ("b", "a/", "a/b/c", "zz" * 300, "\ud800", "\0"):
        assert path not in table
        assert table.get(path) is None
    assert not FileTable.of([])
    assert "a" not in FileTable.of([])


def test_a_selection_keeps_problems_with_their_files():
    files = sorted(files_of(NAMES), key=lambda file: os.fsencode(file.path))
    mask = np.array([number % 2 == 0 for number in range(len(files))])
    table = FileTable.of(files).select(mask)
    assert list(table.values()) == files[::2]
    assert table[files[2].path] == files[2]


def test_a_folder_is_walked_to_the_same_table_as_its_list(tmp_path):
    for number in range(300):
        file = tmp_path / f"{number % 7}" / f"{number * 31 % 97}" / f"{number}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * number)
    (tmp_path / "link").symlink_to(tmp_path / "0" / "0" / "0.jpg")
    (tmp_path / "out").symlink_to("/etc/passwd")
    table = FileTable.of(walk_files(str(tmp_path)))
    assert list(table.values()) == list_files(str(tmp_path))
    assert len(table) == 302
    assert table["out"].problem[0] == "OUTSIDE_INPUT_BASE"
