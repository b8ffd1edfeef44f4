"""MixUp and CutMix against numpy."""

import ml_dtypes
import numpy as np
import pytest
import scipy.stats

from tests.trainer_utils.reading.augmentation.images import IMAGES
from trainer_utils.options.augmentation import Augmentation
from trainer_utils.reading.augmenting import mix_rows

ROWS = 64
PIXELS = np.stack([IMAGES["photo"][n : n + 16, n : n + 20] for n in range(ROWS)])
LABELS = np.eye(ROWS, dtype=np.float32)
PARTNERS = np.arange(ROWS) ^ 1


KEYS = np.random.default_rng(0).integers(0, 2**64, ROWS, np.uint64)


def mix_batch(chain, batch, keys):
    return mix_rows(Augmentation.of(chain), batch, keys, ["image"], "label")


def mix(chain, pixels=PIXELS, labels=LABELS):
    before = pixels.copy(), labels.copy()
    mixed = mix_batch(chain, {"image": pixels, "label": labels, "name": "n"}, KEYS[: len(pixels)])
    assert set(mixed) == {"image", "label", "name"}
    np.testing.assert_array_equal(pixels, before[0])
    np.testing.assert_array_equal(labels, before[1])
    return mixed["image"], mixed["label"]


def shares(labels: np.ndarray) -> np.ndarray:
    """Return the weight of each row; the rest is its partner's."""
    rows = np.arange(len(labels))
    own = labels[rows, rows]
    expected = np.zeros_like(labels)
    expected[rows, rows] = own
    expected[rows, rows ^ 1] = 1 - own
    np.testing.assert_allclose(labels, expected, atol=1e-6)
    return own


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, ml_dtypes.bfloat16])
def test_mixup_is_a_weighted_mean_of_pairs(dtype):
    pixels = PIXELS.astype(dtype)
    images, labels = mix([("mixup", 1.0)], pixels)
    own = shares(labels)
    assert len(np.unique(own)) == ROWS
    assert own.min() < 0.1
    assert own.max() > 0.9
    weight = own.reshape(-1, 1, 1, 1).astype(np.float64)
    expected = weight * PIXELS + (1 - weight) * PIXELS[PARTNERS]
    atol = {np.uint8: 0.501, np.float32: 1e-3}.get(dtype, 0.51)
    np.testing.assert_allclose(images.astype(np.float64), expected, atol=atol)
    assert images.dtype == dtype


def test_cutmix_takes_a_box_of_the_other_image():
    own_pixels = np.broadcast_to(np.arange(ROWS).reshape(-1, 1, 1, 1), (ROWS, 16, 20, 3))
    images, labels = mix([("cutmix", 1.0)], own_pixels.astype(np.uint8))
    own = shares(labels)
    for row, image in enumerate(images):
        cut = image[..., 0] != row
        assert set(image[cut].ravel()) <= {row ^ 1}
        rows, columns = cut.any(axis=1), cut.any(axis=0)
        np.testing.assert_array_equal(cut, rows[:, None] & columns)  # one box
        assert np.abs(np.diff(rows.astype(int))).sum() <= 2
        assert own[row] == pytest.approx(1 - cut.mean())
    assert 0.3 < own.mean() < 0.8


def test_with_both_each_row_gets_one_operation():
    own_pixels = np.broadcast_to(np.arange(0, 2 * ROWS, 2).reshape(-1, 1, 1, 1), (ROWS, 16, 20, 3))
    images, labels = mix([("mixup", 1.0), ("cutmix", 1.0)], own_pixels.astype(np.float32))
    own = shares(labels)
    is_cut = np.array([set(np.unique(im)) <= {2 * n, 2 * (n ^ 1)} for n, im in enumerate(images)])
    assert 0.25 < is_cut.mean() < 0.8
    means = images.mean(axis=(1, 2, 3))
    expected = own * own_pixels[:, 0, 0, 0] + (1 - own) * own_pixels[PARTNERS, 0, 0, 0]
    np.testing.assert_allclose(means, expected, atol=1e-3)


def test_a_last_row_without_a_partner_is_unchanged():
    images, labels = mix(["mixup"], PIXELS[:5], LABELS[:5])
    np.testing.assert_array_equal(images[4], PIXELS[4])
    np.testing.assert_array_equal(labels[4], LABELS[4])


@pytest.mark.parametrize("alpha", [0.01, 0.2, 100.0])
def test_weights_follow_the_beta_distribution(alpha, subtests):
    keys = np.arange(2000, dtype=np.uint64)
    labels = np.arange(2000) % 2.0
    batch = {"image": np.zeros((2000, 1, 1, 1), np.uint8), "label": labels.astype(np.float32)}
    mixed = mix_batch([("mixup", alpha)], batch, keys)["label"]
    own = np.where(labels == 1, mixed, 1 - mixed)
    rounded = 2.0**-24  # of a float32, into which many weights of a small alpha fall
    assert own.var() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.1)
    for level in (0.1, 0.4, 0.5, 0.7):
        with subtests.test(level=level):
            expected = scipy.stats.beta(alpha, alpha).cdf(level - rounded)
            assert np.mean(own < level) == pytest.approx(expected, abs=0.05)


def test_a_pair_is_the_same_in_any_batch():
    whole, labels = mix(["mixup", "cutmix"])
    rows = {"image": PIXELS[6:10], "label": LABELS[6:10]}
    part = mix_batch(["mixup", "cutmix"], rows, KEYS[6:10])
    np.testing.assert_array_equal(part["image"], whole[6:10])
    np.testing.assert_array_equal(part["label"], labels[6:10])
