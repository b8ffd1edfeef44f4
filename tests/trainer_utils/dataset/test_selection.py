"""Test how the descriptions of a feature in several datasets are merged."""

import pytest

from trainer_utils.dataset.selection import merge_descriptions
from trainer_utils.format import Feature


@pytest.mark.parametrize(
    ("extras", "heights", "expected"),
    [
        ([{"sizes": "fixed"}, {"sizes": "fixed"}], (4, 4), {"sizes": "fixed"}),
        ([{"sizes": "fixed"}, {"sizes": "fixed"}], (4, 6), {"sizes": "mixed"}),
        ([{"sizes": "fixed"}, {}], (4, 4), {}),
        ([{}, {"sizes": "mixed"}], (4, 4), {"sizes": "mixed"}),
        ([{"formats": ["JPEG"]}, {"formats": ["PNG"]}], (4, 4), {"formats": ["JPEG", "PNG"]}),
        ([{"formats": ["BMP"]}, {}], (4, 4), {"formats": ["BMP", "GIF", "JPEG", "PNG"]}),
        ([{"rate": 8, "channels": 1}, {"rate": 4, "channels": 1}], (4, 4), {"channels": 1}),
        ([{"label_map": True}, {}], (4, 4), {}),
    ],
)
def test_merged_description_holds_for_all(extras, heights, expected):
    features = [
        Feature(type="string", shape=(height, 5, 3), extra=extra)
        for height, extra in zip(heights, extras, strict=True)
    ]
    assert merge_descriptions(features) == Feature(type="string", shape=(4, 5, 3), extra=expected)
