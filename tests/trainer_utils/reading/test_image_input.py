"""Images through `input_fn`: what the settings do to whole batches, epochs and seeds."""

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer_utils.reading.jpegs import encode
from trainer_utils import input_fn
from trainer_utils.format import Feature


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
        (
            {"image_size": (16, 20), "image": {"resize": "pad", "channels": 1}},
            (16, 20, 1),
            tf.uint8,
        ),
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
