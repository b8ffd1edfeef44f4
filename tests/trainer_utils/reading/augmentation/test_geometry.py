"""Moved pixels as Pillow moves them, where nothing comes from outside."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tests.trainer_utils.reading.augmentation.images import IMAGES
from trainer_utils.reading.augmentation import geometry

PHOTO = IMAGES["photo"]
HEIGHT, WIDTH = PHOTO.shape[:2]


def is_inner(move) -> np.ndarray:
    """Which pixels of the result come from the inside: those that stay white, shrunk by two."""
    white = np.zeros_like(PHOTO)
    white[3:-3, 3:-3] = 255
    return np.asarray(move(Image.fromarray(white), Image.Resampling.NEAREST)) == 255


def check(ours, pillows) -> None:
    inner = is_inner(pillows)
    assert inner.mean() > 0.4
    moved = ours(tf.constant(PHOTO)).numpy().astype(int)
    expected = np.asarray(pillows(Image.fromarray(PHOTO), Image.Resampling.BILINEAR))
    assert np.abs(moved - expected)[inner].max() <= 1
    labels = PHOTO[..., :1] // 64
    nearest = ours(tf.constant(labels), nearest=True).numpy()
    assert set(np.unique(nearest)) <= set(np.unique(labels)) | {0}
    whole = Image.fromarray(labels[..., 0])
    expected = np.asarray(pillows(whole, Image.Resampling.NEAREST))
    assert (nearest[..., 0] != expected)[inner[..., 0]].mean() < 0.01  # at ties


@pytest.mark.parametrize("degrees", [0.0, 17.0, 90.0, -33.0, 180.0])
def test_rotation_is_pillows(degrees):
    check(
        lambda pixels, **how: geometry.rotate(pixels, tf.constant(degrees), **how),
        lambda image, how: image.rotate(degrees, how),
    )


@pytest.mark.parametrize(("x", "y"), [(0.3, 0.0), (0.0, -0.27)])
def test_shears_are_pillows(x, y):
    check(
        lambda pixels, **how: geometry.shear(pixels, tf.constant(x), tf.constant(y), **how),
        lambda image, how: image.transform(image.size, Image.AFFINE, (1, x, 0, y, 1, 0), how),
    )


@pytest.mark.parametrize(("x", "y"), [(0.2, 0.0), (-0.31, 0.1)])
def test_shifts_are_numpys(x, y):
    moved = geometry.translate(tf.constant(PHOTO), tf.constant(x), tf.constant(y)).numpy()
    across, down = round(x * WIDTH), round(y * HEIGHT)
    padded = np.pad(PHOTO, ((HEIGHT, HEIGHT), (WIDTH, WIDTH), (0, 0)))
    expected = padded[HEIGHT + down : 2 * HEIGHT + down, WIDTH + across : 2 * WIDTH + across]
    np.testing.assert_array_equal(moved, expected)


def test_a_square_is_cut_out_and_nothing_else():
    for side, y, x in ((0.5, 0.5, 0.5), (0.25, 0.0, 0.999), (1.0, 0.2, 0.2), (0.0, 0.5, 0.5)):
        cut = geometry.cut_out(tf.constant(PHOTO), side, tf.constant(y), tf.constant(x)).numpy()
        length = round(side * min(HEIGHT, WIDTH))
        top, left = (
            int(np.float32(y) * HEIGHT) - length // 2,
            int(np.float32(x) * WIDTH) - length // 2,
        )
        expected = PHOTO.copy()
        expected[max(top, 0) : max(top + length, 0), max(left, 0) : max(left + length, 0)] = 0
        np.testing.assert_array_equal(cut, expected)
