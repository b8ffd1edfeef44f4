"""Images through `input_fn`: what the settings do to whole batches, epochs and seeds."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from trainer_utils import input_fn
from trainer_utils.format import Feature


def encode(pixels: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=95)
    return stream.getvalue()


@pytest.fixture(scope="module")
def jpegs(tmp_path_factory, photos, write_dataset) -> str:
    """20 JPEGs of two sizes, in three shards."""
    examples = [
        {"id": [n], "image": [encode(photo if n % 3 else photo[:30])]}
        for n, photo in enumerate(photos[:20])
    ]
    features = {
        "image": Feature(
            type="string", shape=(40, 48, 3), extra={"sizes": "mixed", "formats": ["JPEG"]}
        ),
        "id": Feature(type="int"),
    }
    shards = [examples[:7], examples[7:14], examples[14:]]
    return write_dataset(tmp_path_factory.mktemp("jpegs"), {"train": shards}, features)


def epoch(dataset: tf.data.Dataset) -> dict[int, np.ndarray]:
    """The images of an epoch, by id."""
    return {
        int(number): image
        for images, numbers in dataset.as_numpy_iterator()
        for number, image in zip(numbers, images, strict=True)
    }


def read(uri: str, **settings) -> tf.data.Dataset:
    return input_fn(uri, features="image", label="id", batch_size=6, **settings)


def are_equal(one: dict[int, np.ndarray], other: dict[int, np.ndarray]) -> list[bool]:
    assert one.keys() == other.keys()
    return [np.array_equal(one[number], other[number]) for number in sorted(one)]


AUGMENTED = {"image_size": (16, 16), "augment": "random_resized_crop"}


@pytest.mark.parametrize(
    ("settings", "shape", "dtype"),
    [
        ({"image_size": (16, 20)}, (16, 20, 3), tf.uint8),
        ({"image_size": (16, 20), "image": {"resize": "crop"}}, (16, 20, 3), tf.uint8),
        (
            {"image_size": (16, 20), "image": {"resize": "pad", "channels": 1}},
            (16, 20, 1),
            tf.uint8,
        ),
        ({"image_size": (16, 20), "image": {"normalize": "imagenet"}}, (16, 20, 3), tf.float32),
        (AUGMENTED, (16, 16, 3), tf.uint8),
        ({**AUGMENTED, "image": {"normalize": "unit"}}, (16, 16, 3), tf.float32),
    ],
)
def test_batches_have_one_static_shape(jpegs, settings, shape, dtype):
    dataset = read(jpegs, **settings)
    assert dataset.element_spec[0] == tf.TensorSpec((None, *shape), dtype)
    assert int(dataset.cardinality()) == 4
    assert sorted(epoch(dataset)) == list(range(20))


def test_each_epoch_augments_anew(jpegs):
    dataset = read(jpegs, **AUGMENTED)
    assert sum(are_equal(epoch(dataset), epoch(dataset))) <= 1
    twice = iter(read(jpegs, **AUGMENTED, repeat=2).unbatch().batch(20).as_numpy_iterator())
    first, second = (dict(zip(numbers, images, strict=True)) for images, numbers in twice)
    assert sum(are_equal(first, second)) <= 1


def test_a_seed_repeats_its_epochs_in_any_order_of_records(jpegs):
    one, other = read(jpegs, **AUGMENTED), read(jpegs, **AUGMENTED)
    in_order = read(jpegs, **AUGMENTED, shuffle=False)
    for _ in range(2):
        images = epoch(one)
        assert all(are_equal(images, epoch(other)))
        assert all(are_equal(images, epoch(in_order)))
    assert sum(are_equal(epoch(read(jpegs, **AUGMENTED, seed=1)), images)) <= 1


def test_augmentation_does_not_depend_on_the_worker(jpegs):
    contexts = [tf.distribute.InputContext(2, index, 2) for index in range(2)]
    parts = [epoch(read(jpegs, **AUGMENTED, input_context=context)) for context in contexts]
    assert all(are_equal(parts[0] | parts[1], epoch(read(jpegs, **AUGMENTED))))


def test_an_image_of_the_size_asked_for_is_not_touched(tmp_path, photos, write_dataset):
    image = Feature(type="string", shape=(40, 48, 3), extra={"sizes": "fixed"})
    uri = write_dataset(
        tmp_path,
        {"train": [[{"image": [encode(photo)]} for photo in photos[:3]]]},
        {"image": image},
    )
    options = {"features": "image", "shuffle": False}
    (plain,) = input_fn(uri, **options).as_numpy_iterator()
    for resize in ("stretch", "crop", "pad"):
        (batch,) = input_fn(
            uri, image_size=(40, 48), image={"resize": resize}, **options
        ).as_numpy_iterator()
        np.testing.assert_array_equal(batch, plain)
