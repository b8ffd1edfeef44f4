"""RandAugment: what it chooses, how strong, and what becomes of label maps."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import ImageEnhance, ImageOps

from tests.trainer_utils.reading.augmentation.images import IMAGES
from tests.trainer_utils.reading.augmentation.test_colours import by_pillow
from trainer_utils.reading.augmentation.randaugment import NAMES, RandAugment

PHOTO = IMAGES["photo"]
# At magnitude 5 of 10: half of AutoAugment's range.
PILLOWS = {
    "identity": lambda image: image,
    "autocontrast": ImageOps.autocontrast,
    "equalize": ImageOps.equalize,
    "posterize": lambda image: ImageOps.posterize(image, 6),
    "solarize": lambda image: ImageOps.solarize(image, 128),
    "colour": lambda image: ImageEnhance.Color(image).enhance(0.55),
    "contrast": lambda image: ImageEnhance.Contrast(image).enhance(0.55),
    "brightness": lambda image: ImageEnhance.Brightness(image).enhance(0.55),
    "sharpness": lambda image: ImageEnhance.Sharpness(image).enhance(0.55),
}


@pytest.fixture(scope="module")
def apply():
    """One operation at magnitude 5, on a photo and on its label map."""
    made = RandAugment(1, 5)

    @tf.function(autograph=False)
    def apply(pixels, labels, uniforms):
        return made.apply(pixels, uniforms), made.apply(labels, uniforms, label_map=True)

    return apply


def choose(name: str, sign: float) -> tf.Tensor:
    return tf.constant([(NAMES.index(name) + 0.5) / len(NAMES), 0.25 if sign < 0 else 0.75])


def test_there_are_the_papers_fourteen_operations():
    assert len(set(NAMES)) == 14
    assert set(PILLOWS) < set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_operation_is_pillows_at_the_strength_of_the_magnitude(apply, name):
    labels = PHOTO[..., :1] // 64
    changed, moved = apply(tf.constant(PHOTO), tf.constant(labels), choose(name, -1))
    if name in PILLOWS:
        np.testing.assert_array_equal(changed, by_pillow(PHOTO, PILLOWS[name]))
        np.testing.assert_array_equal(moved, labels)
    else:
        assert (changed.numpy() != PHOTO).mean() > 0.5
        assert set(np.unique(moved)) <= set(np.unique(labels)) | {0}
        still = tf.reduce_all(changed == 0, axis=-1, keepdims=True)
        assert (moved.numpy() != labels).mean() > 0.1
        assert not np.any(moved.numpy()[still.numpy()])
    other, _ = apply(tf.constant(PHOTO), tf.constant(labels), choose(name, 1))
    has_signs = name not in ("identity", "autocontrast", "equalize", "posterize", "solarize")
    assert (other.numpy() != changed.numpy()).any() == has_signs


def test_magnitudes_of_the_paper_up_to_30_have_a_meaning():
    strong = tf.function(RandAugment(2, 30).apply, autograph=False)
    for name in NAMES:
        uniforms = tf.concat([choose(name, -1), choose("identity", 1)], 0)
        changed = strong(tf.constant(PHOTO), uniforms)
        assert changed.shape == PHOTO.shape
        assert changed.dtype == tf.uint8


def test_no_operations_change_nothing():
    none = RandAugment(0, 9).apply(tf.constant(PHOTO), tf.zeros(0))
    np.testing.assert_array_equal(none, PHOTO)
