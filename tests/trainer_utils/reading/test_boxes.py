"""Sides of boxes, mirrored, and what cannot follow its image."""

import numpy as np
import pytest

from trainer_utils import ConfigError
from trainer_utils.format import Feature
from trainer_utils.reading.crops import check_followers, mirror_boxes
from trainer_utils.reading.image_settings import ImageSettings

IMAGE = Feature(type="string", shape=(40, 48, 3))
LABELS = Feature(type="string", shape=(40, 48), extra={"label_map": True})
SIDE = Feature(type="float", shape=(1,), dense=False)
FEATURES = {"image": IMAGE, "segmentation": LABELS, "xmin": SIDE, "xmax": SIDE}
CROP = "random_resized_crop"


def invert(image, rng):
    return 255 - image


def test_boxes_are_mirrored_where_their_images_are():
    left, right = np.float32([0.0, 0.25, 0.5]), np.float32([0.5, 1.0, 0.75])
    made = mirror_boxes(left, right, np.array([True, False, True]))
    np.testing.assert_array_equal(made[0], np.float32([0.5, 0.25, 0.25]))
    np.testing.assert_array_equal(made[1], np.float32([1.0, 1.0, 0.5]))
    assert made[0].dtype == np.float32


@pytest.mark.parametrize(
    ("others", "settings", "message"),
    [
        (["xmin", "xmax"], {"augment": ["rotation"]}, r"'rotation': expected none of xmin, xmax"),
        (["xmin", "xmax"], {"augment": ["randaugment"]}, r"'randaugment': expected none of xmin"),
        (["xmin", "xmax"], {"augment": ["cutmix"]}, r"'cutmix': expected none of xmin, xmax"),
        (["xmin", "xmax"], {"augment": [invert]}, r"'invert': expected none of xmin, xmax"),
        (["segmentation"], {"augment": ["mixup"]}, r"'mixup': expected none of segmentation"),
        (["segmentation"], {"augment": invert}, r"'invert': expected none of segmentation"),
        (["xmin"], {"augment": "flip"}, r"expected both xmin and xmax or neither"),
        (["xmin"], {"augment": CROP}, r"expected none of xmin beside images that are cut"),
        (["xmin", "xmax"], {"resize": "pad"}, r"expected none of xmin, xmax beside images"),
        (["xmin", "xmax"], {"augment": ["flip", "colour"]}, None),
        (["segmentation"], {"augment": [CROP, "flip", "rotation", "blur"]}, None),
        (["xmin"], {"augment": ["cutout"]}, None),
        ([], {"augment": [CROP, invert, "mixup"], "resize": "crop"}, None),
    ],
)
def test_what_cannot_follow_its_image_is_refused(others, settings, message):
    features = {name: FEATURES[name] for name in ("image", *others)}
    chosen = ImageSettings(image_size=(16, 16), **settings)
    if message is None:
        check_followers(features, chosen)
        return
    with pytest.raises(ConfigError, match=message):
        check_followers(features, chosen)
