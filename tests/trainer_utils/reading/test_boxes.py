"""Sides of boxes, mirrored, and what cannot follow its image."""

import numpy as np
import pytest

from tests.trainer_utils.reading.jpegs import image_options
from trainer_utils import ConfigError
from trainer_utils.format import Feature
from trainer_utils.reading.crops import check_followers, mirror_boxes

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


BOTH = ["xmin", "xmax"]


def check(others, **settings):
    features = {name: FEATURES[name] for name in ("image", *others)}
    check_followers(features, image_options(image_size=(16, 16), label="y", **settings))


def test_what_cannot_follow_its_image_is_refused():
    for augment in ("rotation", "randaugment", "cutmix", invert):
        with pytest.raises(ConfigError, match="xmin, xmax"):
            check(BOTH, augment=[augment])
    for augment in ("mixup", invert):
        with pytest.raises(ConfigError, match="segmentation"):
            check(["segmentation"], augment=augment)
    for others, settings in ((["xmin"], {"augment": "flip"}), (["xmin"], {"augment": CROP})):
        with pytest.raises(ConfigError, match="xmin"):
            check(others, **settings)
    with pytest.raises(ConfigError, match="xmin"):
        check(BOTH, resize="pad")
    check(BOTH, augment=["flip", "colour"])
    check(["segmentation"], augment=[CROP, "flip", "rotation", "blur"])
    check(["xmin"], augment=["cutout"])
    check([], augment=[CROP, invert, "mixup"], resize="crop")
