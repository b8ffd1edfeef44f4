"""Filters against scipy's Gaussian and Pillow's sharpness."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import ImageEnhance
from scipy.ndimage import gaussian_filter

from tests.trainer_utils.reading.augmentation.images import IMAGES
from tests.trainer_utils.reading.augmentation.test_colours import FACTORS, by_pillow
from trainer_utils.reading.augmentation import filters


@pytest.mark.parametrize("name", IMAGES)
def test_blur_is_scipys(name):
    pixels = IMAGES[name]
    for sigma in (0.1, 0.7, 2.0):
        ours = filters.blur(tf.constant(pixels), tf.constant(sigma), most=2.0).numpy()
        settings = {"mode": "nearest", "truncate": 6 / sigma}
        expected = gaussian_filter(pixels.astype(np.float64), (sigma, sigma, 0), **settings)
        np.testing.assert_allclose(ours, expected, atol=0.501)


@pytest.mark.parametrize("name", IMAGES)
def test_sharpness_is_pillows(name):
    pixels = IMAGES[name]
    for factor in FACTORS:
        expected = by_pillow(pixels, lambda image: ImageEnhance.Sharpness(image).enhance(factor))  # noqa: B023
        np.testing.assert_array_equal(
            filters.enhance_sharpness(tf.constant(pixels), tf.constant(factor)), expected
        )
