"""Decoded images against PIL and `tf.image`."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from trainer_utils import ConfigError
from trainer_utils.reading.crops import random_box
from trainer_utils.reading.images import ImageReading

SEED = (12345, 678)


@pytest.fixture(scope="module")
def photo() -> np.ndarray:
    """A whole photo, `(427, 640, 3) uint8`."""
    from sklearn.datasets import load_sample_images

    return load_sample_images().images[0]


@pytest.fixture(scope="module")
def ramps() -> np.ndarray:
    """Red and green tell the place, 0.4 and 0.6 levels a pixel: what is displaced shows."""
    pixels = np.full((427, 640, 3), 128, np.uint8)
    pixels[:, :, 0] = np.linspace(0, 255, 640).round()
    pixels[:, :, 1] = np.linspace(0, 255, 427).round()[:, np.newaxis]
    return pixels


def encode(pixels: np.ndarray, kind: str = "PNG", **options: Any) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **options)
    return stream.getvalue()


def read(data: bytes, *, channels: int = 3, seed: Any = SEED, formats=(), **settings: Any):
    """Decodes within a tf.data map, as the input pipeline does."""
    reading = ImageReading(**settings)
    dataset = tf.data.Dataset.from_tensors((data, tf.constant(seed, tf.int64))).map(
        lambda encoded, seed: reading.decode(encoded, channels=channels, seed=seed, formats=formats)
    )
    (pixels,) = dataset.as_numpy_iterator()
    assert dataset.element_spec.is_compatible_with(tf.constant(pixels))
    return pixels


def pil_pixels(data: bytes, mode: str = "RGB") -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert(mode))


def resized(pixels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """As TensorFlow resizes and numpy rounds."""
    return np.rint(tf.image.resize(pixels, size).numpy()).astype(np.uint8)


def difference(one: np.ndarray, other: np.ndarray) -> float:
    """The mean of absolute differences, in levels of 255."""
    assert one.shape == other.shape
    return float(np.abs(one.astype(np.float64) - other.astype(np.float64)).mean())


ENCODERS: dict[str, Callable[[np.ndarray], bytes]] = {
    "PNG": encode,
    "JPEG": lambda pixels: encode(pixels, "JPEG", quality=95),
    "progressive JPEG": lambda pixels: encode(pixels, "JPEG", quality=95, progressive=True),
    "JPEG 4:4:4": lambda pixels: encode(pixels, "JPEG", quality=95, subsampling=0),
}
any_format = pytest.mark.parametrize("kind", ENCODERS)


# --- Size ---


@any_format
@pytest.mark.parametrize("size", [(224, 224), (500, 100), (427, 640), (700, 900), (100, 90)])
def test_stretched_images_are_those_of_tensorflow(photo, kind, size):
    data = ENCODERS[kind](photo)
    expected = resized(pil_pixels(data), size)
    np.testing.assert_array_equal(read(data, image_size=size, dct_scaling=False), expected)


@any_format
@pytest.mark.parametrize("size", [(224, 224), (100, 300), (64, 48), (427, 100)])
def test_cropped_images_are_the_middle_of_the_whole(photo, kind, size):
    """The middle computed by hand: the largest part with the aspect of the size."""
    data = ENCODERS[kind](photo)
    whole = pil_pixels(data)
    height = min(427, round(640 * size[0] / size[1]))
    width = min(640, round(427 * size[1] / size[0]))
    top, left = (427 - height) // 2, (640 - width) // 2
    expected = resized(whole[top : top + height, left : left + width], size)
    got = read(data, image_size=size, resize="crop", dct_scaling=False)
    # At the border of a crop libjpeg lacks the neighbours that smooth colours: a few levels there.
    assert np.abs(got.astype(int) - expected).max() <= (0 if kind == "PNG" else 40)
    assert difference(got, expected) < 0.05


@any_format
@pytest.mark.parametrize(
    ("size", "inner"),
    [((224, 224), (149, 224)), ((100, 300), (100, 149)), ((30, 300), (30, 44))],
)
def test_padded_images_are_the_whole_with_black_around_it(photo, kind, size, inner):
    data = ENCODERS[kind](photo)
    expected = np.zeros((*size, 3), np.uint8)
    top, left = (size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2
    expected[top : top + inner[0], left : left + inner[1]] = resized(pil_pixels(data), inner)
    np.testing.assert_array_equal(
        read(data, image_size=size, resize="pad", dct_scaling=False), expected
    )


@pytest.mark.parametrize("size", [(224, 224), (100, 300)])
def test_padded_images_are_those_of_tensorflow(photo, size):
    expected = np.rint(tf.image.resize_with_pad(photo, *size).numpy())
    np.testing.assert_array_equal(read(encode(photo), image_size=size, resize="pad"), expected)


def test_an_image_as_long_as_can_be_is_padded_to_one_row():
    data = encode(np.full((1, 640, 3), 255, np.uint8))
    got = read(data, image_size=(9, 9), resize="pad")
    np.testing.assert_array_equal(np.argwhere(got[:, :, 0].any(axis=1)), [[4]])


@pytest.mark.parametrize(("size", "ratio"), [((213, 319), 2), ((100, 100), 4), ((30, 50), 8)])
@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
def test_less_than_half_is_decoded_at_a_smaller_scale(photo, size, ratio, resize):
    """PIL's draft mode has libjpeg decode at the same scale."""
    data = encode(photo, "JPEG", quality=90)
    draft = Image.open(io.BytesIO(data))
    draft.draft("RGB", (640 // ratio, 427 // ratio))
    small = np.asarray(draft)
    assert small.shape[:2] == (-(-427 // ratio), -(-640 // ratio))
    got = read(data, image_size=size, resize=resize)
    exact = read(data, image_size=size, resize=resize, dct_scaling=False)
    assert not np.array_equal(got, exact)
    if resize == "stretch":
        np.testing.assert_array_equal(got, resized(small, size))
        # PIL's resize averages all pixels: the smaller scale is nearer to that than bilinear is.
        averaged = Image.fromarray(pil_pixels(data)).resize(size[::-1], Image.Resampling.BILINEAR)
        assert difference(got, np.asarray(averaged)) < difference(exact, np.asarray(averaged))


@pytest.mark.parametrize(
    ("size", "ratio"), [((213, 319), 2), ((100, 100), 4), ((60, 30), 4), ((30, 50), 8)]
)
@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
def test_a_smaller_scale_moves_nothing_by_more_than_its_pixel(ramps, size, ratio, resize):
    data = encode(ramps, "JPEG", quality=98)
    got = read(data, image_size=size, resize=resize).astype(int)
    exact = read(data, image_size=size, resize=resize, dct_scaling=False)
    inner = got[1:-1, 1:-1].any(axis=2) & exact[1:-1, 1:-1].any(axis=2)
    off = np.abs(got - exact)[1:-1, 1:-1][inner]
    assert off.max(axis=0)[0] <= 0.4 * ratio + 3
    assert off.max(axis=0)[1] <= 0.6 * ratio + 3
    if resize == "stretch":
        assert off.mean() < 1


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("size", [(214, 320), (224, 224), (100, 400)])
def test_half_or_more_is_decoded_whole(photo, kind, size):
    data = ENCODERS[kind](photo)
    np.testing.assert_array_equal(read(data, image_size=size), resized(pil_pixels(data), size))


def test_other_formats_know_no_smaller_scale(photo):
    data = encode(photo)
    for formats in ((), ["JPEG", "PNG"], ["PNG"], ["BMP", "JPEG"]):
        got = read(data, image_size=(50, 50), formats=formats)
        np.testing.assert_array_equal(got, resized(photo, (50, 50)))


@pytest.mark.parametrize("formats", [(), ["JPEG"], ["JPEG", "PNG"], ["BMP", "JPEG"]])
def test_a_jpeg_comes_out_the_same_whatever_else_may_come(photo, formats):
    data = encode(photo, "JPEG")
    np.testing.assert_array_equal(read(data, formats=formats), pil_pixels(data))
    for settings in (
        {"resize": "stretch"},
        {"resize": "stretch", "dct_scaling": False},
        {"augment": "random_resized_crop"},
    ):
        expected = read(data, image_size=(50, 50), formats=["JPEG"], **settings)
        np.testing.assert_array_equal(
            read(data, image_size=(50, 50), formats=formats, **settings), expected
        )


# --- Channels and values ---


def test_grey_is_decoded_as_pil_converts_it(photo):
    for data in (encode(photo), encode(photo, "JPEG", quality=95)):
        reading = ImageReading(channels=1)
        grey = reading.decode(tf.constant(data), channels=3).numpy()
        assert grey.shape == (427, 640, 1)
        assert difference(grey[:, :, 0], pil_pixels(data, "L")) < 1
        colour = ImageReading(channels=3).decode(tf.constant(encode(photo[:, :, 0])), channels=1)
        np.testing.assert_array_equal(colour, np.repeat(photo[:, :, :1], 3, axis=2))


@pytest.mark.parametrize("formats", [(), ["BMP"], ["BMP", "GIF", "JPEG", "PNG"]])
def test_every_format_becomes_grey(photo, formats):
    part = photo[:64, :48]
    files = {
        "BMP": [encode(part, "BMP"), encode(part[:, :, 0], "BMP")],
        "PNG": [encode(part), encode(np.dstack([part, part[:, :, 0]]))],
        "GIF": [encode(part, "GIF")],
        "JPEG": [encode(part, "JPEG", quality=95)],
    }
    for data in [one for kind in formats or ["PNG", "GIF", "JPEG"] for one in files[kind]]:
        for size in (None, (64, 48)):
            grey = read(data, image_size=size, formats=formats, channels=1, dct_scaling=False)
            assert grey.shape == (64, 48, 1)
            assert difference(grey[:, :, 0], pil_pixels(data, "L")) <= 1


@pytest.mark.parametrize(
    ("normalize", "mean", "deviation"),
    [
        ("unit", 0, 255),
        ("symmetric", 127.5, 127.5),
        (
            "imagenet",
            np.array([0.485, 0.456, 0.406]) * 255,
            np.array([0.229, 0.224, 0.225]) * 255,
        ),
        ((100, 50), 100, 50),
        (([1, 2, 3], 4.0), np.array([1, 2, 3]), 4),
    ],
)
@pytest.mark.parametrize("size", [None, (300, 300)])
def test_normalised_images_are_float32(photo, normalize, mean, deviation, size):
    pixels = tf.image.resize(photo, size or photo.shape[:2]).numpy()
    got = read(encode(photo), normalize=normalize, image_size=size)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, (pixels - mean) / deviation, atol=2e-5)


def test_a_normalisation_that_does_not_fit_the_channels_is_refused(photo):
    with pytest.raises(ConfigError, match=r"normalize: expected numbers for 1 channels.*imagenet"):
        ImageReading(channels=1, normalize="imagenet").decode(
            tf.constant(encode(photo)), channels=3
        )


def test_label_maps_stay_class_ids(photo):
    ids = np.arange(40 * 60, dtype=np.uint8).reshape(40, 60) % 7 * 30
    settings: dict[str, Any] = {"image_size": (17, 23), "normalize": "imagenet", "channels": 3}
    for more in ({}, {"resize": "crop"}, {"augment": "random_resized_crop"}):
        reading = ImageReading(**settings, **more)
        got = reading.decode(
            tf.constant(encode(ids)), channels=1, seed=tf.constant(SEED, tf.int64), label_map=True
        ).numpy()
        assert got.shape == (17, 23, 1)
        assert got.dtype == np.uint8
        assert set(got.flat) <= set(ids.flat)


# --- Augmentation ---


@any_format
@pytest.mark.parametrize("number", range(6))
def test_a_random_crop_is_a_part_of_the_whole(photo, kind, number):
    data = ENCODERS[kind](photo)
    seed = tf.constant((number, 5), tf.int64)
    settings: dict[str, Any] = {"augment": "random_resized_crop", "image_size": (112, 112)}
    got = read(data, seed=seed, flip=False, dct_scaling=False, **settings)
    box = random_box(tf.constant((427, 640, 3)), seed, (0.08, 1.0), (3 / 4, 4 / 3))
    (top, left), (bottom, right) = (part.numpy() for part in (box.begin, sum(box)))
    expected = resized(pil_pixels(data)[top:bottom, left:right], (112, 112))
    # libjpeg's faster arithmetic is off by a level or two.
    assert difference(got, expected) < (1e-9 if kind == "PNG" else 1.5)


def test_a_random_crop_at_a_smaller_scale_is_the_same_part(ramps):
    data = encode(ramps, "JPEG", quality=98)
    smaller = 0
    for number in range(20):
        settings: dict[str, Any] = {"augment": "random_resized_crop", "image_size": (64, 64)}
        settings.update(seed=(number, 5), flip=False)
        exact = read(data, dct_scaling=False, **settings)
        got = read(data, **settings)
        smaller += not np.array_equal(got, exact)
        assert difference(got, exact) < 0.6 * 4  # at most half the pixels of a scale of 1/4
    assert smaller > 10


def test_mirroring_happens_to_half_of_the_images_and_changes_nothing_else(photo):
    data = encode(photo[:60, :60])
    mirrored = 0
    for number in range(60):
        got = read(data, seed=(number, 1), flip=True)
        is_mirrored = np.array_equal(got, photo[:60, :60][:, ::-1])
        assert is_mirrored or np.array_equal(got, photo[:60, :60])
        mirrored += is_mirrored
    assert 15 <= mirrored <= 45  # binomial: 30, standard deviation 3.9


def test_augmentation_is_the_seeds_own(photo):
    data = encode(photo, "JPEG")
    settings: dict[str, Any] = {"augment": "random_resized_crop", "image_size": (32, 32)}
    images = {
        seed: read(data, seed=seed, **settings).tobytes() for seed in [(1, 1), (1, 2), (2, 1)]
    }
    assert len(set(images.values())) == 3
    for seed, image in images.items():
        assert read(data, seed=seed, **settings).tobytes() == image


def test_an_image_and_its_label_map_get_the_same_crop():
    """Each pixel's value is its class, so they must agree wherever neighbours do."""
    ids = (np.arange(64 * 96).reshape(64, 96) // 16 % 6 * 40).astype(np.uint8)
    reading = ImageReading(image_size=(32, 32), augment="random_resized_crop")
    for number in range(10):
        seed = tf.constant((number, 3), tf.int64)
        image = reading.decode(tf.constant(encode(ids)), channels=1, seed=seed)
        labels = reading.decode(tf.constant(encode(ids)), channels=1, seed=seed, label_map=True)
        assert np.mean(np.asarray(image) == np.asarray(labels)) > 0.6


# --- Raw pixels ---


@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
@pytest.mark.parametrize("size", [(32, 48), (64, 64), (200, 100)])
def test_raw_pixels_become_what_the_same_image_encoded_becomes(photo, resize, size):
    pixels = np.stack([photo[:96, :128], photo[100:196, 200:328]])
    reading = ImageReading(image_size=size, resize=resize, normalize="unit")
    got = reading.convert(tf.constant(pixels)).numpy()
    for image, raw in zip(got, pixels, strict=True):
        np.testing.assert_array_equal(
            image, read(encode(raw), image_size=size, resize=resize, normalize="unit")
        )


def test_raw_pixels_are_augmented_as_the_same_image_encoded(photo):
    settings: dict[str, Any] = {
        "image_size": (40, 40),
        "augment": "random_resized_crop",
        "channels": 3,
    }
    reading = ImageReading(**settings)
    got = reading.convert(tf.constant(photo), seed=tf.constant(SEED, tf.int64))
    expected = reading.decode(
        tf.constant(encode(photo)), channels=3, seed=tf.constant(SEED, tf.int64)
    )
    np.testing.assert_array_equal(got, expected)


def test_raw_colours_become_grey(photo):
    got = ImageReading(channels=1).convert(tf.constant(photo[tf.newaxis])).numpy()
    assert got.shape == (1, 427, 640, 1)
    assert difference(got[0, :, :, 0], np.asarray(Image.fromarray(photo).convert("L"))) < 1


# --- Settings ---


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("image_size", (0, 8)),
        ("image_size", 224),
        ("resize", "fit"),
        ("channels", 4),
        ("channels", True),
        ("augment", "mixup"),
        ("flip", 1),
        ("normalize", "zscore"),
        ("normalize", (1, 0)),
        ("normalize", ([1, 2], 3)),
        ("normalize", (1, 2, 3)),
        ("normalize", ("a", "b")),
        ("dct_scaling", 2),
        ("crop_area", (0.5, 1.5)),
        ("crop_area", (0.6, 0.5)),
        ("crop_aspect", (0, 1)),
    ],
)
def test_a_setting_that_is_not_allowed_is_named_with_its_value(setting, value):
    with pytest.raises(ConfigError) as caught:
        ImageReading(**{setting: value})
    assert str(caught.value).startswith(f"{setting}: expected ")
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("settings", [{"augment": "random_resized_crop"}, {"resize": "pad"}])
def test_a_part_of_an_image_needs_a_size(settings):
    with pytest.raises(ConfigError, match=f"image_size: .* {next(iter(settings))} is set"):
        ImageReading(**settings)
