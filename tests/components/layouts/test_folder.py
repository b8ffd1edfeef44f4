"""What is said where a layout is not there."""

import pytest

from components.common.file_table import FileTable
from components.common.layout_inputs import LayoutInputs
from components.example_gen.settings import ImageSettings
from components.layouts import LOOKED_FOR, read_layout
from trainer_utils.format import ConfigError, InputError
from trainer_utils.format.settings import settings_of

FORCED = [
    name for name in settings_of(ImageSettings)["layout"].choices if name not in ("auto", "folder")
]


@pytest.mark.parametrize("layout", FORCED)
def test_a_layout_that_is_not_there_is_refused_with_what_is(tmp_path, read, write, layout):
    write(tmp_path, **{"notes.txt": "x", "cat/1.jpg": "y"})
    with pytest.raises(InputError) as caught:
        read(tmp_path, layout)
    message = str(caught.value)
    assert f"layout={layout!r}" in message
    assert "at its top: cat, notes.txt." in message


def test_every_layout_is_among_those_looked_for():
    assert [name for name in FORCED if name not in LOOKED_FOR] == []


@pytest.mark.parametrize("layout", ["auto", "folder", "voc", "coco", "segmentation"])
def test_columns_are_for_lists_and_archives(tmp_path, layout):
    inputs = LayoutInputs(
        base=str(tmp_path), root="", files=FileTable.of([]), columns={"age": "int"}
    )
    with pytest.raises(ConfigError, match=r"columns: expected none .*, got age"):
        read_layout(inputs, layout=layout)
