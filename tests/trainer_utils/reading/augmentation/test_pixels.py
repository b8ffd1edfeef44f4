"""Chains on single images, against Pillow, scipy and numpy; each record has its own draws."""

import colorsys
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps
from scipy.ndimage import gaussian_filter

from tests.trainer_utils.reading.augmentation.images import IMAGES
from trainer_utils.options.augmentation import Augmentation
from trainer_utils.reading.augmenting import RANDAUGMENT, change_pixels

PHOTO = IMAGES["photo"]
HEIGHT, WIDTH = PHOTO.shape[:2]
PARTS = np.stack([PHOTO[n : n + 60, n : n + 70] for n in range(24)])
KEYS = np.random.default_rng(1).integers(0, 2**64, 400, np.uint64)


def change(chain: Any, pixels: np.ndarray, key: int = 1, **settings: Any) -> np.ndarray:
    before = pixels.copy()
    changed = change_pixels(Augmentation.of(chain), pixels, np.uint64(key), **settings)
    np.testing.assert_array_equal(pixels, before)
    assert changed.shape == pixels.shape
    assert changed.dtype == np.uint8
    return changed


def uniforms(key: int, count: int) -> list[float]:
    """Return the random numbers of a key."""
    return np.random.Generator(np.random.Philox(key=key)).random(count).tolist()


def by_pillow(pixels: np.ndarray, change: Callable[[Any], Any]) -> np.ndarray:
    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    return np.asarray(change(image)).reshape(pixels.shape)


@pytest.mark.parametrize("name", IMAGES)
def test_colours_equal_pillows_enhancers(name):
    pixels = IMAGES[name]
    for key in range(10):
        factors = [0.2 + 1.6 * uniform for uniform in uniforms(key, 3)]

        def jitter(image: Any, factors=factors) -> Any:
            image = ImageEnhance.Brightness(image).enhance(factors[0])
            image = ImageEnhance.Contrast(image).enhance(factors[1])
            return ImageEnhance.Color(image).enhance(factors[2])

        np.testing.assert_array_equal(
            change([("colour", 0.8)], pixels, key), by_pillow(pixels, jitter)
        )


def test_hues_shift_like_colorsys():
    pixels = PHOTO[::9, ::9]
    for key in range(5):
        turns = -0.5 + uniforms(key, 4)[3]
        expected = [
            colorsys.hsv_to_rgb((h + turns) % 1, s, v)
            for h, s, v in (colorsys.rgb_to_hsv(*(rgb / 255.0)) for rgb in pixels.reshape(-1, 3))
        ]
        moved = change([("colour", 0, 0.5)], pixels, key)
        np.testing.assert_allclose(moved, np.reshape(expected, pixels.shape) * 255, atol=0.52)
    grey = IMAGES["grey"]
    np.testing.assert_array_equal(change([("colour", 0, 0.5)], grey), grey)


def test_grey_equals_pillows():
    for pixels in IMAGES.values():
        expected = by_pillow(pixels, lambda image: image.convert("L").convert(image.mode))
        np.testing.assert_array_equal(change([("grey", 1)], pixels), expected)


def test_blur_equals_scipys_gaussian():
    for pixels, key in itertools.product(IMAGES.values(), range(5)):
        sigma = 0.1 + (2.0 - 0.1) * uniforms(key, 2)[1]
        expected = gaussian_filter(
            pixels.astype(np.float64), (sigma, sigma, 0), mode="nearest", truncate=4
        )
        # OpenCV's weights are fractions of 256, and its reach is 3 deviations.
        np.testing.assert_allclose(change([("blur", 2, 1)], pixels, key), expected, atol=2)


def test_a_square_is_cut_out_and_nothing_else():
    for side in (0.5, 0.25, 1.0, 0.0):
        for key in range(8):
            _, y, x = uniforms(key, 3)
            length = round(side * min(HEIGHT, WIDTH))
            top, left = int(y * HEIGHT) - length // 2, int(x * WIDTH) - length // 2
            expected = PHOTO.copy()
            expected[max(top, 0) : max(top + length, 0), max(left, 0) : max(left + length, 0)] = 0
            np.testing.assert_array_equal(change([("cutout", side)], PHOTO, key), expected)


def inner(move: Callable[[Any, Any], Any]) -> np.ndarray:
    """Return the pixels of the result that come from inside: white ones, shrunk by three."""
    white = np.zeros_like(PHOTO)
    white[3:-3, 3:-3] = 255
    return np.asarray(move(Image.fromarray(white), Image.Resampling.NEAREST)) == 255


def check_moved(chain: Any, key: int, pillows: Callable[[Any, Any], Any]) -> None:
    """Assert that pixels move like Pillow's, where none come from outside."""
    inside = inner(pillows)
    assert inside.mean() > 0.4
    expected = np.asarray(pillows(Image.fromarray(PHOTO), Image.Resampling.BILINEAR))
    off = np.abs(change(chain, PHOTO, key).astype(int) - expected)[inside]
    assert off.mean() <= 1  # OpenCV rounds positions to 1/32 of a pixel
    assert off.max() <= 8
    labels = PHOTO[..., :1] // 64
    moved = change(chain, labels, key, label_map=True)
    assert set(np.unique(moved)) <= {0, *np.unique(labels)}
    expected = np.asarray(pillows(Image.fromarray(labels[..., 0]), Image.Resampling.NEAREST))
    assert (moved[..., 0] != expected)[inside[..., 0]].mean() < 0.03  # at ties


def test_rotation_equals_pillows():
    for key in range(6):
        degrees = 180 * (2 * uniforms(key, 1)[0] - 1)
        check_moved([("rotation", 180)], key, lambda image, how, d=degrees: image.rotate(d, how))


# --- RandAugment ---

# At magnitude 5 of 10: half of AutoAugment's range.
PILLOWS: dict[str, Callable[[Any], Any]] = {
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


def key_of(name: str, *, is_negative: bool = True) -> int:
    """Return a key that draws that operation with that sign."""
    for key in range(10_000):
        chosen, way = uniforms(key, 2)
        if RANDAUGMENT[int(chosen * 14)] == name and (way < 0.5) == is_negative:
            return key
    raise AssertionError(name)


@pytest.mark.parametrize("operation", RANDAUGMENT)
def test_operations_equal_pillows_at_their_magnitude(operation):
    chain, labels = [("randaugment", 1, 5)], PHOTO[..., :1] // 64
    key = key_of(operation)
    if operation in PILLOWS:
        for pixels in IMAGES.values():
            expected = by_pillow(pixels, PILLOWS[operation])
            np.testing.assert_array_equal(change(chain, pixels, key), expected)
        np.testing.assert_array_equal(change(chain, labels, key, label_map=True), labels)
    elif operation == "rotate":
        check_moved(chain, key, lambda image, how: image.rotate(-15, how))
    elif operation.startswith("shear"):
        x, y = (-0.15, 0) if operation == "shear_x" else (0, -0.15)
        check_moved(
            chain,
            key,
            lambda image, how: image.transform(image.size, Image.AFFINE, (1, x, 0, y, 1, 0), how),
        )
    else:
        x, y = (0.225 * WIDTH, 0) if operation == "translate_x" else (0, 0.225 * HEIGHT)
        across, down = -round(x), -round(y)
        padded = np.pad(PHOTO, ((HEIGHT, HEIGHT), (WIDTH, WIDTH), (0, 0)))
        moved = padded[HEIGHT + down : 2 * HEIGHT + down, WIDTH + across : 2 * WIDTH + across]
        np.testing.assert_array_equal(change(chain, PHOTO, key), moved)
    other = change(chain, PHOTO, key_of(operation, is_negative=False))
    has_signs = operation not in ("identity", "autocontrast", "equalize", "posterize", "solarize")
    assert (other != change(chain, PHOTO, key)).any() == has_signs


def test_magnitudes_from_0_to_30_are_valid(subtests):
    for operation, is_negative in itertools.product(RANDAUGMENT, (False, True)):
        with subtests.test(operation=operation):
            key = key_of(operation, is_negative=is_negative)
            dull = IMAGES["dull"]
            change([("randaugment", 1, 30)], dull, key)
            weak = change([("randaugment", 1, 0)], dull, key)
            assert np.array_equal(weak, dull) == (operation not in ("autocontrast", "equalize"))
    np.testing.assert_array_equal(change([("randaugment", 0)], PHOTO), PHOTO)


# --- Whole chains ---


@pytest.mark.parametrize(
    ("chain", "channels"),
    [
        (["colour", "blur"], 3),
        ([("rotation", 30)], 1),
        (["grey", "cutout"], 3),
        (["randaugment"], 1),
    ],
)
def test_changes_depend_only_on_the_key(chain, channels):
    keys = KEYS[: len(PARTS)].tolist()
    pixels = PARTS[..., :channels]
    changed = [change(chain, one, key) for one, key in zip(pixels, keys, strict=True)]
    assert len({image.tobytes() for image in changed}) > 12
    for one, key, expected in zip(pixels, keys, changed, strict=True):
        np.testing.assert_array_equal(change(chain, np.asfortranarray(one), key), expected)
    others = [change(chain, one, key ^ 1) for one, key in zip(pixels, keys, strict=True)]
    pairs = zip(others, changed, strict=True)
    assert np.mean([not np.array_equal(one, other) for one, other in pairs]) > 0.1


def test_shares_and_strengths_follow_the_settings():
    pixels = np.ascontiguousarray(PHOTO[:8, :8])

    def share(chain: Any) -> float:
        return np.mean([(change(chain, pixels, key) != pixels).any() for key in KEYS.tolist()])

    assert share([("grey", 0.1)]) == pytest.approx(0.1, abs=0.05)
    assert share([("cutout", 0.5, 0.7)]) == pytest.approx(0.7, abs=0.07)
    assert share([("grey", 0)]) == share([("colour", 0)]) == share([("cutout", 0)]) == 0
    level = np.full((2, 2, 1), 100, np.uint8)
    values = [change([("colour", 0.5)], level, key)[0, 0, 0] for key in KEYS.tolist()]
    assert min(values) in range(50, 55)
    assert max(values) in range(145, 151)


def test_operations_that_move_nothing_keep_label_maps():
    labels = PARTS[0][..., :1] // 64
    for operation in (("colour", 1, 0.5), "blur", ("grey", 1), ("cutout", 0.5)):
        for key in KEYS[:4].tolist():
            moved = change([operation], labels, key, label_map=True)
            np.testing.assert_array_equal(moved, labels)
