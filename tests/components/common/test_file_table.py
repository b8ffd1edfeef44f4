"""Files as columns are a mapping by path, in one order."""

import random

import numpy as np

from components.common.file_table import FileTable
from trainer_utils.storage import InputFile

FILES = [
    InputFile("b/\udcff.jpg", 3, "v1"),
    InputFile("a.jpg", 2**40, "v2"),
    InputFile("ä/1", 0, "", ("UNREADABLE", "no right \udcfe")),
    InputFile("b", 0, "", ("UNREADABLE", "a folder"), True),
    *(InputFile(f"many/{n}", n, str(n)) for n in range(70_000)),
]


def test_a_table_is_the_files_by_path_whatever_order_they_came_in():
    shuffled = random.Random(0).sample(FILES, len(FILES))
    table = FileTable.of(shuffled)
    ordered = sorted(FILES, key=lambda file: file.path.encode("utf-8", "surrogateescape"))
    assert [*table.values()] == ordered
    assert [*table] == [file.path for file in ordered]
    assert len(table) == len(FILES)
    for file in [*FILES[:4], FILES[-1]]:
        assert table[file.path] == file
    assert "many" not in table
    assert table.get("\ud800") is None
    assert [file.path for file in table.unlisted_folders()] == ["b"]
    some = table.select(np.array([size == 3 for size in table.table.column("size").to_pylist()]))
    assert {*some} == {"b/\udcff.jpg", "many/3"}
    assert not FileTable.of([])
