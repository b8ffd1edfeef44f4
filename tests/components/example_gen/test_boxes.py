"""Rows of boxes, as AutoML Vision had them, are refused: their corners are no labels."""

import pytest

from tests.components.example_gen.list_files import folder, listed
from trainer_utils.format import InputError


def test_rows_of_boxes_are_refused(tmp_path):
    rows = "TRAIN,1.jpg,cat,0.25,0.5,,,0.75,1,,\nTEST,2.jpg,,,,,,,,,\n"
    with pytest.raises(InputError, match=r"list.csv.*boxes.*COCO"):
        listed(folder(tmp_path, list__csv=rows))
