"""What is said of one feature in several datasets."""

import pytest

from trainer_utils.dataset.selection import merge_descriptions
from trainer_utils.format import Feature


@pytest.mark.parametrize(
    ("extras", "expected"),
    [
        ([{"sizes": "fixed"}, {"sizes": "fixed"}], {"sizes": "fixed"}),
        ([{"sizes": "fixed"}, {}], {}),
        ([{}, {"sizes": "mixed"}], {"sizes": "mixed"}),
        ([{"formats": ["JPEG"]}, {"formats": ["PNG"]}], {"formats": ["JPEG", "PNG"]}),
        ([{"formats": ["BMP"]}, {}], {"formats": ["BMP", "GIF", "JPEG", "PNG"]}),
        ([{"sample_rate": 8, "channels": 1}, {"sample_rate": 4, "channels": 1}], {"channels": 1}),
        ([{"label_map": True}, {}, {"label_map": True}], {}),
        ([{"sizes": "fixed", "formats": ["PNG"]}], {"sizes": "fixed", "formats": ["PNG"]}),
    ],
)
def test_what_is_said_holds_in_all(extras, expected):
    features = [Feature(type="string", shape=(4, 5, 3), extra=extra) for extra in extras]
    assert merge_descriptions(features) == Feature(type="string", shape=(4, 5, 3), extra=expected)


def test_shapes_that_differ_make_sizes_mixed():
    features = [
        Feature(type="string", shape=(height, 5, 3), extra={"sizes": "fixed"}) for height in (4, 6)
    ]
    assert merge_descriptions(features).extra == {"sizes": "mixed"}
