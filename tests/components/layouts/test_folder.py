"""Messages about a layout that the inputs do not have."""

import pytest

from components.example_gen.settings import ImageSettings
from tests.components.layouts.layout_files import read
from tests.make import write_files
from trainer_utils.core.errors import InputError
from trainer_utils.core.settings import settings_of

FORCED = [
    name for name in settings_of(ImageSettings)["layout"].choices if name not in ("auto", "folder")
]


def test_missing_layout_is_refused_with_the_names_at_the_top(tmp_path, subtests):
    write_files(tmp_path, {"notes.txt": "x", "cat/1.jpg": "y"})
    for layout in FORCED:
        with (
            subtests.test(layout=layout),
            pytest.raises(InputError, match=rf"layout='{layout}'.*at its top: cat, notes\.txt"),
        ):
            read(tmp_path, layout)
