"""Images as arrays: within a level of `input_fn`'s, to the bit where nothing is resized."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import trainer_utils
from tests.trainer_utils.arrays.test_batches import assert_same
from trainer_utils import ConfigError, DatasetError
from trainer_utils.arrays import images


def encoded(pixels, kind, **settings):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **settings)
    return stream.getvalue()


@pytest.fixture(scope="module")
def uri(tmp_path_factory, serialize):
    """Photos of several sizes: JPEG, progressive, grey, PNG."""
    from sklearn.datasets import load_sample_images

    folder = tmp_path_factory.mktemp("photos")
    photos = load_sample_images().images
    with tf.io.TFRecordWriter(f"{folder}/train.tfrecord") as writer:
        for number in range(8):
            part = photos[number % 2][40 * number :, : 600 - 30 * number]
            kind = "PNG" if number == 5 else "JPEG"
            part = part[..., 0] if number == 6 else part
            settings = {"progressive": True} if number == 3 else {}
            writer.write(serialize(image=[encoded(part, kind, **settings)], label=[number]))
    return str(folder)


@pytest.mark.parametrize(
    "settings",
    [
        {"image_size": (64, 60)},
        {"image_size": (150, 300), "resize": "crop"},
        {"image_size": (64, 60), "resize": "pad"},
        {"image_size": (64, 60), "channels": 1},
        {"image_size": (64, 60), "dct_scaling": False},
    ],
)
@pytest.mark.parametrize("has_turbo", [True, False])
def test_pixels_are_within_a_level(uri, settings, has_turbo, monkeypatch):
    monkeypatch.setattr(images, "is_turbo_installed", lambda: has_turbo)
    if not has_turbo:
        settings = {**settings, "dct_scaling": False}
    # Of a PNG, Pillow makes grey with other weights than libpng.
    atol = 1 if settings.get("channels") != 1 else 3
    assert_same(uri, "train", batch_size=4, shuffle=False, epochs=1, atol=atol, **settings)


def test_whole_images_are_the_same_to_the_bit(uri):
    assert_same(uri, "train", batch_size=None, epochs=1)


@pytest.mark.parametrize(("dtype", "atol"), [("float32", 0.02), ("float16", 0.03)])
def test_floats(uri, dtype, atol):
    settings = {"image_size": (32, 32), "normalize": "imagenet", "image_dtype": dtype}
    assert_same(uri, "train", batch_size=4, shuffle=False, epochs=1, atol=atol, **settings)


def test_raw_pixels_and_label_maps(tmp_path, photos, write_dataset):
    from trainer_utils.format import Feature

    raw = {"encoding": "raw", "image_shape": [40, 48, 3]}
    features = {
        "image": Feature(type="string", extra=raw),
        "map": Feature(type="string", shape=(40, 48), extra={"label_map": True}),
    }
    classes = np.random.default_rng(0).integers(0, 3, (40, 48), np.uint8)
    rows = [{"image": [p.tobytes()], "map": [encoded(classes, "PNG")]} for p in photos[:6]]
    uri = write_dataset(tmp_path, {"train": [rows]}, features)
    assert_same(uri, "train", batch_size=3, features="image")
    assert_same(uri, "train", batch_size=3, features="map", image_size=(13, 90))
    assert_same(uri, "train", batch_size=3, features="image", image_size=(20, 30), atol=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"augment": "random_resized_crop"}, "augment: expected None, which input_fn takes alone"),
        ({"flip": True}, "flip: expected None without TensorFlow"),
        ({"normalize": "unit", "image_dtype": "bfloat16"}, "image_dtype: expected float32"),
    ],
)
def test_what_tensorflow_draws_is_refused(uri, settings, message):
    with pytest.raises(ConfigError, match=message):
        trainer_utils.iterate(uri, image_size=(8, 8), **settings)


def test_images_of_several_sizes_are_no_batch(uri, tmp_path, serialize):
    with pytest.raises(DatasetError, match=r"'image'.*Set image_size"):
        list(trainer_utils.iterate(uri, batch_size=4))
