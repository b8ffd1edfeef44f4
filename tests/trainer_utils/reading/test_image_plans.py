"""The kept part of an image, against brute force; and features that cannot follow it."""

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.stats

from tests.trainer_utils.reading.jpegs import image_options
from trainer_utils import ConfigError
from trainer_utils.format import Feature
from trainer_utils.reading.features import check_followers
from trainer_utils.reading.image_plans import are_mirrored, draw_uniforms, plan_images

KEYS = np.random.default_rng(0).integers(0, 2**64, 4000, np.uint64)


@pytest.mark.parametrize(
    ("extent", "target", "ratio"),
    [
        ((480, 640), (224, 224), 2),
        ((448, 640), (224, 224), 1),  # exactly half is not less than half
        ((480, 440), (224, 224), 1),  # both directions count
        ((896, 2000), (224, 224), 2),
        ((897, 897), (224, 224), 4),
        ((3000, 4000), (224, 224), 8),
        ((100, 100), (224, 224), 1),
    ],
)
def test_decoding_uses_the_smallest_scale_above_the_target(extent, target, ratio):
    (plan,) = plan_images(image_options(image_size=target), [extent])
    assert plan.ratio == ratio
    # libjpeg rounds the sides of a scaled image up.
    assert plan.scaled_box == (0, 0, -(-extent[0] // ratio), -(-extent[1] // ratio))
    (exact,) = plan_images(image_options(image_size=target, dct_scaling=False), [extent])
    assert (exact.ratio, exact.scaled_box) == (1, exact.box)


def crops(extent: tuple[int, int], **settings: Any) -> np.ndarray:
    chosen = image_options(**{"image_size": (8, 8), "augment": ["random_resized_crop"], **settings})
    return np.array([plan.box for plan in plan_images(chosen, [extent] * len(KEYS), KEYS)])


def test_a_scaled_box_stays_within_the_image(subtests):
    for size in ((8, 8), (16, 3), (30, 30)):
        with subtests.test(size=size):
            settings = image_options(image_size=size, augment=["random_resized_crop"])
            for extent in itertools.product((63, 64, 127, 250), (65, 130)):
                for plan in plan_images(settings, [extent] * 200, KEYS[:200]):
                    box, scaled, ratio = np.array(plan.box), np.array(plan.scaled_box), plan.ratio
                    begin, end = box[:2], box[:2] + box[2:]
                    ends = scaled[:2] + scaled[2:]
                    assert (scaled >= (0, 0, 1, 1)).all()
                    assert (ends <= -(-np.array(extent) // ratio)).all()
                    assert (np.abs(scaled[:2] * ratio - begin) <= ratio / 2).all()
                    assert (np.abs(ends * ratio - end) < ratio).all()


def test_random_boxes_have_the_area_and_aspect_asked_for(subtests):
    top, left, height, width = crops((480, 640), crop_area=(0.2, 0.5), crop_aspect=(0.6, 1.5)).T
    assert (np.minimum(top, left) >= 0).all()
    assert (top + height <= 480).all()
    assert (left + width <= 640).all()
    area, aspect = height * width / (480 * 640), width / height
    assert (area > 0.198).all()
    assert (area < 0.502).all()
    assert (aspect > 0.598).all()
    assert (aspect < 1.51).all()
    # Boxes that fit are uniform in share of the image, and in the logarithm of aspect.
    fits = scipy.stats.uniform(0.2, 0.3).cdf(area)
    assert scipy.stats.kstest(fits, "uniform").statistic < 0.05
    # They reach the borders, and are uniformly distributed over the remaining space.
    for begin, side, most in ((top, height, 480), (left, width, 640)):
        with subtests.test(begin=begin):
            assert begin.min() == 0
            assert (begin + side).max() == most
            assert np.mean((begin + 0.5) / (most - side + 1)) == pytest.approx(0.5, abs=0.02)


def test_a_very_long_image_is_cut_in_the_middle():
    assert set(map(tuple, crops((4, 4000), crop_area=(0.9, 1.0)))) == {(0, 1997, 4, 5)}
    assert set(map(tuple, crops((4000, 4), crop_area=(0.9, 1.0)))) == {(1997, 0, 5, 4)}
    assert set(map(tuple, crops((1, 1)))) == {(0, 0, 1, 1)}


def test_draws_depend_only_on_the_key():
    boxes = crops((480, 640))
    settings = image_options(image_size=(8, 8), augment="random_resized_crop")
    for number in range(20):
        (alone,) = plan_images(settings, [(480, 640)], KEYS[number : number + 1])
        assert alone.box == tuple(boxes[number])
        assert alone.is_mirrored == are_mirrored(KEYS)[number]
    assert len(set(map(tuple, boxes))) > 0.99 * len(boxes)
    assert plan_images(settings, [], KEYS[:0]) == []


def test_numbers_equal_splitmix64s(subtests):
    """Compare with the C reference in plain integers, seeded by the key's hash."""

    def mix(z: int) -> int:
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    gamma = 0x9E3779B97F4A7C15
    assert mix(gamma) == 0xE220A8397B1DCDAF  # the first number of the seed 0
    for purpose in (0, 1):
        with subtests.test(purpose=purpose):
            got = draw_uniforms(KEYS[:5], count=3, purpose=purpose)
            for key, row in zip(KEYS[:5].tolist(), got, strict=True):
                state = mix(key ^ mix(gamma * (purpose + 1) % 2**64))
                expected = [(mix((state + gamma * n) % 2**64) >> 11) / 2**53 for n in (1, 2, 3)]
                assert row.tolist() == expected


# --- Features that follow an image ---


IMAGE = Feature(type="string", shape=(40, 48, 3))
LABELS = Feature(type="string", shape=(40, 48), extra={"label_map": True})
SIDE = Feature(type="float", shape=(1,), dense=False)
FEATURES = {"image": IMAGE, "segmentation": LABELS, "xmin": SIDE, "xmax": SIDE}
CROP = "random_resized_crop"


def invert(image, rng):
    return 255 - image


BOTH = ["xmin", "xmax"]


def check(others, **settings):
    features = {name: FEATURES[name] for name in ("image", *others)}
    check_followers(features, image_options(image_size=(16, 16), label="y", **settings))


def test_features_that_cannot_follow_their_image_are_refused(subtests):
    for augment in ("rotation", "randaugment", "cutmix", invert):
        with subtests.test(augment=augment), pytest.raises(ConfigError, match="xmin, xmax"):
            check(BOTH, augment=[augment])
    for augment in ("mixup", invert):
        with subtests.test(augment=augment):
            with pytest.raises(ConfigError, match="segmentation"):
                check(["segmentation"], augment=augment)
    for others, settings in ((["xmin"], {"augment": "flip"}), (["xmin"], {"augment": CROP})):
        with subtests.test(others=others), pytest.raises(ConfigError, match="xmin"):
            check(others, **settings)
    with pytest.raises(ConfigError, match="xmin"):
        check(BOTH, resize="pad")
    check(BOTH, augment=["flip", "colour"])
    check(["segmentation"], augment=[CROP, "flip", "rotation", "blur"])
    check(["xmin"], augment=["cutout"])
    check([], augment=[CROP, invert, "mixup"], resize="crop")
