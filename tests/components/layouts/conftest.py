"""Reading a folder as a layout."""

from pathlib import Path

import pytest

from components.common.entry import InputTable
from components.common.layout_inputs import FileTable, LayoutInputs
from components.common.rejects import Reject, render_rejects
from components.layouts import read_layout
from trainer_utils.storage import list_files


@pytest.fixture
def read():
    """Reads the files of a folder; the images may be stand-ins, since no layout opens them.

    Every reject can be written, whatever the bytes of its name.
    """

    def read(base: Path, layout: str = "auto", root: str = "", **names: str) -> InputTable:
        files = FileTable.of(list_files(str(base)))
        inputs = LayoutInputs(base=str(base), root=root, files=files, names=names)
        listing = read_layout(inputs, layout=layout)
        rejects = [Reject("train", o.name, o.code, o.detail) for o in listing.excluded if o.code]
        assert len(render_rejects(rejects).encode().splitlines()) == len(rejects)
        return listing

    return read


@pytest.fixture
def write():
    """Writes files: their content by path."""

    def write(base: Path, **contents: str | bytes) -> Path:
        for name, content in contents.items():
            path = base / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return base

    return write
