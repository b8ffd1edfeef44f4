"""Values of pixels as Pillow changes them, to the bit."""

import colorsys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance, ImageOps

from tests.trainer_utils.reading.augmentation.images import IMAGES
from trainer_utils.reading.augmentation import colours

FACTORS = (0.0, 0.1, 0.77, 1.0, 1.3, 1.9, 3.7)


def by_pillow(pixels: np.ndarray, change) -> np.ndarray:
    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    return np.asarray(change(image)).reshape(pixels.shape)


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize(
    ("ours", "enhancer"),
    [
        (colours.enhance_brightness, ImageEnhance.Brightness),
        (colours.enhance_contrast, ImageEnhance.Contrast),
        (colours.enhance_colour, ImageEnhance.Color),
    ],
)
def test_enhancing_is_pillows(name, ours, enhancer):
    pixels = IMAGES[name]
    for factor in FACTORS:
        expected = by_pillow(pixels, lambda image, factor=factor: enhancer(image).enhance(factor))
        np.testing.assert_array_equal(ours(pixels, tf.constant(factor)), expected)


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize(
    ("ours", "pillows"),
    [
        (colours.autocontrast, ImageOps.autocontrast),
        (colours.equalize, ImageOps.equalize),
        (colours.to_grey, lambda image: image.convert("L").convert(image.mode)),
        *(
            (
                lambda pixels, bits=bits: colours.posterize(pixels, tf.constant(bits)),
                lambda image, bits=bits: ImageOps.posterize(image, bits),
            )
            for bits in (1, 4, 8)
        ),
        *(
            (
                lambda pixels, level=level: colours.solarize(pixels, tf.constant(float(level))),
                lambda image, level=level: ImageOps.solarize(image, level),
            )
            for level in (0, 100, 256)
        ),
    ],
)
def test_operations_are_pillows(name, ours, pillows):
    pixels = IMAGES[name]
    np.testing.assert_array_equal(ours(tf.constant(pixels)), by_pillow(pixels, pillows))


def test_hues_are_moved_as_colorsys_moves_them():
    pixels = IMAGES["photo"][::9, ::9]
    for turns in (-0.5, -0.1, 0.0, 0.25):
        expected = [
            colorsys.hsv_to_rgb((h + turns) % 1, s, v)
            for h, s, v in (colorsys.rgb_to_hsv(*(rgb / 255.0)) for rgb in pixels.reshape(-1, 3))
        ]
        moved = colours.shift_hue(tf.constant(pixels), tf.constant(turns)).numpy()
        np.testing.assert_allclose(moved, np.reshape(expected, pixels.shape) * 255, atol=0.51)
    grey = IMAGES["grey"]
    np.testing.assert_array_equal(colours.shift_hue(tf.constant(grey), tf.constant(0.3)), grey)
