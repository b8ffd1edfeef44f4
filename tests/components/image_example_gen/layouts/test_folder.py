"""What is said where a layout is not there."""

import pytest

from components.image_example_gen.layouts import LAYOUTS, what_was_looked_for
from trainer_utils.format import InputError

FORCED = [name for name in LAYOUTS if name not in ("auto", "folder")]


@pytest.mark.parametrize("layout", FORCED)
def test_a_layout_that_is_not_there_is_refused_with_what_is(tmp_path, read, write, layout):
    write(tmp_path, **{"notes.txt": "x", "cat/1.jpg": "y"})
    with pytest.raises(InputError) as caught:
        read(tmp_path, layout)
    message = str(caught.value)
    assert f"layout={layout!r}" in message
    assert "at its top: cat, notes.txt." in message


def test_every_layout_is_among_those_looked_for():
    sentence = what_was_looked_for(["b", "a"])
    assert [name for name in FORCED if name not in sentence] == []
    assert sentence.endswith("at its top: a, b.")
