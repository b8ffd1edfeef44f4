"""Rows of boxes, put together by image."""

import pytest

from tests.components.example_gen.list_files import folder, found, listed
from trainer_utils.format import InputError

BOXES = """TRAIN,1.jpg,cat,0.25,0.5,,,0.75,1,,
TRAIN,1.jpg,dog,0,0,0.5,0,0.5,0.25,0,0.25
TEST,2.jpg,,,,,,,,,
"""


def test_rows_of_boxes_are_put_together_by_image(tmp_path):
    listing = listed(folder(tmp_path, list__csv=BOXES))
    assert [column.name for column in listing.columns] == [
        "xmin",
        "xmax",
        "ymin",
        "ymax",
        "area",
        "labels",
    ]
    assert all(column.is_list and column.length is None for column in listing.columns)
    assert found(listing) == {
        "1.jpg": (
            "train",
            (0.25, 0.0),
            (0.75, 0.5),
            (0.5, 0.0),
            (1.0, 0.25),
            (0.25, 0.125),
            ("cat", "dog"),
        ),
        "2.jpg": ("test", (), (), (), (), (), ()),
    }


def test_a_box_that_is_none_is_refused_with_its_line(tmp_path):
    for row in (
        "TRAIN,1.jpg,cat,0.75,0.5,,,0.25,1,,",
        "TRAIN,1.jpg,cat,0.25,0.5,,,1.25,1,,",
        "TRAIN,1.jpg,cat,0.25,0.5,,,0.5,,,",
        "TRAIN,1.jpg,,0.25,0.5,,,0.5,1,,",
        "TRAIN,1.jpg,cat,nan,0.5,,,0.5,1,,",
    ):
        with pytest.raises(InputError, match=r"'list.csv'.*\(line 4\)"):
            listed(folder(tmp_path, list__csv=f"{BOXES}{row}\n"))
