"""TFRecorder's images: base64 of Pillow's bytes, as its `beam_image.encode` makes it."""

import base64
import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import trainer_utils
from trainer_utils.dataset import open_dataset
from trainer_utils.format import ConfigError


def write(folder, images, serialize):
    folder.mkdir()
    path = f"{folder}/train-00000-of-00001.tfrecord.gz"
    with tf.io.TFRecordWriter(path, options="GZIP") as writer:
        for label, pixels in enumerate(images):
            image = Image.fromarray(pixels)
            record = {
                "image": [base64.b64encode(image.tobytes(), altchars=b"-_")],
                "image_height": [image.height],
                "image_width": [image.width],
                "image_channels": [1 if "L" in image.mode else 3],
                "image_name": [b"x.jpg"],
                "label": [label],
            }
            writer.write(serialize(**record))
    return str(folder)


@pytest.fixture(scope="module")
def images(photos):
    """Of several sizes, and some grey."""
    cut = [photo[: 20 + n % 3, : 30 - n % 2] for n, photo in enumerate(photos[:9])]
    return [pixels[..., 0] if n % 4 == 3 else pixels for n, pixels in enumerate(cut)]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory, images, serialize):
    return write(tmp_path_factory.mktemp("tfrecorder") / "mixed", images, serialize)


def as_rgb(pixels):
    return np.asarray(Image.fromarray(pixels).convert("RGB"))


def test_pixels_come_back(mixed, images):
    examples = list(trainer_utils.input_fn(mixed, batch_size=None, features=["image", "label"]))
    assert len(examples) == len(images)
    for example in examples:
        np.testing.assert_array_equal(example["image"], as_rgb(images[int(example["label"])]))


def test_images_of_one_size_come_in_whole_batches(tmp_path, photos, serialize):
    uri = write(tmp_path / "fixed", photos[:5], serialize)
    assert open_dataset(uri).features["image"].extra["image_shape"] == [40, 48, 3]
    (batch,) = trainer_utils.input_fn(uri, batch_size=5, shuffle=False, features="image")
    np.testing.assert_array_equal(batch, photos[:5])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"augment": "random_resized_crop"},
        {"image": {"normalize": "unit"}},
        {"image": {"channels": 1}},
        {"image": {"resize": "pad"}},
    ],
)
def test_they_are_images_for_every_setting(mixed, settings):
    (batch,) = trainer_utils.input_fn(
        mixed, batch_size=9, features="image", image_size=(8, 10), **settings
    )
    assert batch.shape == (9, 8, 10, settings.get("image", {}).get("channels", 3))
    assert np.ptp(batch) > 0


def test_images_of_several_sizes_need_one_or_a_hook_that_gives_it(mixed):
    with pytest.raises(ConfigError, match=r"image_size: .*'image' differ in size.*callback"):
        trainer_utils.input_fn(mixed, batch_size=3)

    def resize(example):
        return {**example, "image": tf.image.resize(example["image"], (5, 6))}

    for hook in (resize, {"train": resize}):
        (batch,) = trainer_utils.input_fn(
            mixed, batch_size=9, features="image", pre_batching_callback=hook
        )
        assert batch.shape == (9, 5, 6, 3)
    with pytest.raises(ConfigError, match="image_size"):
        trainer_utils.input_fn(mixed, batch_size=3, pre_batching_callback={"eval": resize})


def test_text_of_another_length_stays_text(tmp_path, images, serialize):
    uri = write(tmp_path / "text", [*images[:2]], serialize)
    with tf.io.TFRecordWriter(f"{uri}/train-extra.tfrecord") as writer:
        size = {"image_height": [1], "image_width": [1], "image_channels": [3]}
        writer.write(serialize(image=[b"AAA"], image_name=[b""], label=[0], **size))
    feature = open_dataset(uri).features["image"]
    assert (feature.type, feature.extra) == ("string", {})


def test_two_of_them_are_read_together(mixed, tmp_path, photos, serialize):
    other = write(tmp_path / "other", photos[:4], serialize)
    (batch,) = trainer_utils.input_fn(
        [mixed, other], batch_size=13, features="image", image_size=(8, 8)
    )
    assert batch.shape == (13, 8, 8, 3)
    merged = trainer_utils.input_fn([other, other], batch_size=8, features="image")
    assert next(iter(merged)).shape == (8, 40, 48, 3)


def test_show_exports_them_as_pictures(mixed, images, tmp_path):
    from components.report.records import export_examples, read_examples

    assert export_examples(read_examples(mixed, "train", count=2), str(tmp_path / "out")) == 2
    first, second = sorted((tmp_path / "out").glob("*.png"))
    np.testing.assert_array_equal(np.asarray(Image.open(first)), images[0])
    np.testing.assert_array_equal(np.asarray(Image.open(second)), images[1])


def test_the_description_survives_its_json(mixed):
    from trainer_utils.dataset.inspection import DatasetFacts, features_of_facts

    _, facts = open_dataset(mixed, inspect=False).with_facts()
    again = DatasetFacts.from_json(dataclasses.asdict(facts))
    assert features_of_facts(again) == features_of_facts(facts)
