"""Chains on batches and on single images: the same, and each record's own."""

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer_utils.reading.augmentation.images import IMAGES
from trainer_utils.reading.augmentation.chain import Augmentation
from trainer_utils.reading.augmentation.pixels import PixelChain

BATCH = np.stack([IMAGES["photo"][n : n + 60, n : n + 70] for n in range(24)])
KEYS = np.stack([np.arange(24) * 7919, np.full(24, 3)], axis=1)


def change(chain, pixels=BATCH, keys=KEYS, **settings) -> np.ndarray:
    apply = tf.function(PixelChain(Augmentation.of(chain).pixels).apply, autograph=False)
    return apply(tf.constant(pixels), tf.constant(keys), **settings).numpy()


@pytest.mark.parametrize(
    "chain", [["colour", "blur"], [("rotation", 30)], ["grey", "cutout"], ["randaugment"]]
)
@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_comes_out_the_same_alone_and_in_any_batch(chain, channels):
    batch = BATCH[..., :channels]
    together = change(chain, batch)
    assert together.shape == batch.shape
    assert together.dtype == np.uint8
    assert len({image.tobytes() for image in together}) > 12
    order = np.random.default_rng(0).permutation(24)[:5]
    np.testing.assert_array_equal(change(chain, batch[order], KEYS[order]), together[order])
    alone = change(chain, batch[7], KEYS[7])
    np.testing.assert_array_equal(alone, together[7])
    other_epoch = change(chain, batch, np.add(KEYS, (0, 1)))
    assert (other_epoch != together).any(axis=(1, 2, 3)).mean() > 0.1


def test_shares_and_strengths_are_those_asked_for():
    keys = np.stack([np.arange(400), np.zeros(400, int)], axis=1)
    pixels = np.broadcast_to(IMAGES["photo"][:8, :8], (400, 8, 8, 3))

    def share(chain) -> float:
        return (change(chain, pixels, keys) != pixels).any(axis=(1, 2, 3)).mean()

    assert share([("grey", 0.1)]) == pytest.approx(0.1, abs=0.05)
    assert share([("cutout", 0.5, 0.7)]) == pytest.approx(0.7, abs=0.07)
    assert share([("grey", 0)]) == share([("colour", 0)]) == share([("cutout", 0)]) == 0
    bright = np.full((400, 2, 2, 1), 100, np.uint8)
    values = change([("colour", 0.5)], bright, keys)[:, 0, 0, 0]
    assert values.min() in range(50, 55)
    assert values.max() in range(145, 151)


def test_label_maps_move_with_their_image_and_keep_their_classes():
    chain = ["colour", ("rotation", 90), "blur", "grey", ("cutout", 0.5)]
    labels = BATCH[..., :1] // 64
    moved = change(chain, labels, label_map=True)
    assert set(np.unique(moved)) <= set(np.unique(labels))
    by_rotation = change(["colour", ("rotation", 90)], labels, label_map=True)
    np.testing.assert_array_equal(moved, by_rotation)
    white = np.full_like(BATCH, 255)
    corners = change([("rotation", 90)], white)[..., 0] == 0
    outside = change([("rotation", 90)], white[..., :1], label_map=True)[..., 0] == 0
    assert (corners & ~outside).mean() < 0.01  # the same angle


def test_no_images_are_no_images():
    assert change(["colour", "randaugment"], BATCH[:0], KEYS[:0]).shape == (0, 60, 70, 3)
