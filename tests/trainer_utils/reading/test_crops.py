"""The geometry of crops against brute force."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import tensorflow as tf

from trainer_utils.reading.crops import (
    DCT_RATIOS,
    CropBox,
    are_mirrored,
    centre_box,
    dct_ratio_index,
    inner_extent,
    is_mirrored,
    random_box,
    random_boxes,
)

EXTENTS = [(1, 1), (1, 9), (7, 1), (8, 8), (9, 16), (37, 21), (480, 640), (333, 1000)]
TARGETS = [(1, 1), (8, 8), (3, 5), (224, 224), (10, 100)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("extent", EXTENTS)
def test_a_centre_box_is_the_largest_of_its_aspect_in_the_middle(extent, target):
    (top, left), (height, width) = (part.numpy() for part in centre_box(extent, target))
    aspect = target[1] / target[0]
    assert 1 <= height <= extent[0]
    assert 1 <= width <= extent[1]
    assert height == extent[0] or width == extent[1]
    # No width (or height) of whole pixels comes nearer to the aspect.
    if height == extent[0]:
        assert abs(width - height * aspect) <= 0.5 or width in (1, extent[1])
    else:
        assert abs(height - width / aspect) <= 0.5 or height == 1
    assert (top, left) == ((extent[0] - height) // 2, (extent[1] - width) // 2)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("extent", EXTENTS)
def test_an_inner_extent_is_the_largest_of_the_images_aspect_that_fits(extent, target):
    got = tuple(inner_extent(extent, target).numpy())
    scale = min(Fraction(inner, outer) for inner, outer in zip(target, extent, strict=True))
    assert got == tuple(max(1, int(scale * side)) for side in extent)
    assert got[0] == target[0] or got[1] == target[1]


@pytest.mark.parametrize(
    ("extent", "target", "ratio"),
    [
        ((480, 640), (224, 224), 2),
        ((448, 640), (224, 224), 1),  # exactly half is not less than half
        ((449, 449), (224, 224), 2),
        ((480, 440), (224, 224), 1),  # both directions count
        ((896, 2000), (224, 224), 2),
        ((897, 897), (224, 224), 4),
        ((3000, 4000), (224, 224), 8),
        ((30000, 40000), (224, 224), 8),
        ((100, 100), (224, 224), 1),
    ],
)
def test_the_scale_of_decoding_is_the_smallest_that_is_above_the_target(extent, target, ratio):
    assert DCT_RATIOS[dct_ratio_index(tf.constant(extent), target)] == ratio


@pytest.mark.parametrize("ratio", DCT_RATIOS)
def test_a_box_at_a_smaller_scale_stays_within_the_image(ratio):
    """libjpeg rounds the sides of a scaled image up."""
    for height, top in itertools.product(range(ratio, 40), range(12)):
        begin, extent = CropBox(np.array([top, 0]), np.array([height, 40])).at_scale(ratio)
        assert begin[0] >= 0
        assert extent[0] >= 1
        assert (begin + extent)[0] <= -(-(top + height) // ratio)
        assert abs(begin[0] * ratio - top) <= ratio / 2
        assert abs((begin + extent)[0] * ratio - top - height) <= ratio / 2


def boxes(extent: tuple[int, int], count: int, **options) -> np.ndarray:
    settings = {"area": (0.08, 1.0), "aspect": (3 / 4, 4 / 3), **options}
    return np.array(
        [
            np.concatenate(random_box(tf.constant((*extent, 3)), (number, 7), **settings))
            for number in range(count)
        ]
    )


def test_random_boxes_are_inside_and_of_the_area_and_aspect_asked_for():
    top, left, height, width = boxes((480, 640), 300, area=(0.2, 0.5)).T
    assert (np.minimum(top, left) >= 0).all()
    assert (top + height <= 480).all()
    assert (left + width <= 640).all()
    area, aspect = height * width / (480 * 640), width / height
    assert (area > 0.195).all()
    assert (area < 0.505).all()
    assert (aspect > 0.74).all()
    assert (aspect < 1.35).all()
    assert area.std() > 0.05
    assert aspect.std() > 0.1
    # They reach the borders, and lie all over.
    assert top.min() < 20
    assert (top + height).max() > 460
    assert 60 < np.median(top) < 180


def test_a_random_box_is_its_seeds_own():
    first, again = boxes((480, 640), 20), boxes((480, 640), 20)
    np.testing.assert_array_equal(first, again)
    assert len({tuple(box) for box in first}) == 20


def test_what_is_drawn_of_many_images_at_once_is_what_is_drawn_of_each():
    extents = [(480, 640), (90, 500), (1, 1), (333, 333)]
    shapes = tf.constant([(*extent, 3) for extent in extents])
    seeds = tf.constant([(number, 7) for number in range(len(extents))], tf.int64)
    together = np.concatenate(random_boxes(shapes, seeds, (0.08, 1.0), (3 / 4, 4 / 3)), axis=1)
    for extent, number, box in zip(extents, range(len(extents)), together, strict=True):
        np.testing.assert_array_equal(box, boxes(extent, number + 1)[-1])
    mirrored = are_mirrored(tf.constant([(number, 7) for number in range(32)], tf.int64))
    expected = [bool(is_mirrored(tf.constant((n, 7), tf.int64))) for n in range(32)]
    assert mirrored.numpy().tolist() == expected
    assert 0 < sum(expected) < 32


def test_of_an_image_too_long_for_the_aspect_the_whole_is_taken():
    box = boxes((4, 4000), 1, area=(0.9, 1.0))[0]
    assert box.tolist() == [0, 0, 4, 4000]


def test_geometry_is_the_same_for_tensors_and_numbers():
    for extent, target in itertools.product(EXTENTS, TARGETS):
        for function in (centre_box, inner_extent):
            given = tf.nest.flatten(function(extent, target))
            traced = tf.nest.flatten(tf.function(function)(tf.constant(extent), target))
            for one, other in zip(given, traced, strict=True):
                np.testing.assert_array_equal(one, other)
