"""Raw ops against the public functions that they stand for."""

import gc

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from trainer_utils import input_fn
from trainer_utils.format import Feature
from trainer_utils.reading import raw_ops
from trainer_utils.reading.raw_ops import flat_map, interleave, map_elements

NUMBERS = tf.data.Dataset.range(7)
PAIRS = tf.data.Dataset.zip((NUMBERS, NUMBERS.map(tf.strings.as_string)))
NAMED = tf.data.Dataset.from_tensor_slices({"b": [1, 2, 3], "a": ["x", "y", "z"]})


def listed(dataset: tf.data.Dataset) -> list:
    return list(dataset.as_numpy_iterator())


@pytest.mark.parametrize("parallel", [None, 3])
@pytest.mark.parametrize(
    ("dataset", "change"),
    [
        (NUMBERS, lambda number: number * 2),
        (NUMBERS, lambda number: {"twice": number * 2, "as text": tf.strings.as_string(number)}),
        (PAIRS, lambda number, text: (text, number)),
        (NAMED, lambda named: tf.strings.join([named["a"], tf.strings.as_string(named["b"])])),
        (NUMBERS, lambda number: tf.cond(number > 3, lambda: number, lambda: -number)),
        (
            NUMBERS,
            lambda number: tf.ensure_shape(tf.numpy_function(np.negative, [number], tf.int64), ()),
        ),
    ],
)
def test_map_elements_is_map(dataset, change, parallel):
    light, own = map_elements(dataset, change, parallel=parallel), dataset.map(change)
    assert listed(light) == listed(own)
    assert light.element_spec == own.element_spec
    assert int(light.cardinality()) == int(own.cardinality())


def test_what_is_ragged_is_mapped_too():
    lists = map_elements(NUMBERS, lambda number: tf.ragged.range([0, number], [2, number + 1]))
    assert [row.tolist() for row in listed(lists)[3]] == [[0, 1], [3]]
    sizes = map_elements(lists, lambda row: tf.size(row.flat_values))
    assert listed(sizes) == [3] * 7


def test_flat_map_is_that_of_a_dataset():
    def make(number: tf.Tensor) -> tf.data.Dataset:
        return map_elements(tf.data.Dataset.range(number), lambda inner: (inner, number))

    assert listed(flat_map(NUMBERS, make)) == [(b, a) for a in range(7) for b in range(a)]


@pytest.mark.parametrize("cycle", [1, 3, 20])
def test_interleave_is_that_of_a_dataset(cycle):
    def make(number: tf.Tensor) -> tf.data.Dataset:
        return tf.data.Dataset.range(number * 10, number * 11)

    own = NUMBERS.interleave(make, cycle_length=cycle, block_length=1)
    assert listed(interleave(NUMBERS, make, cycle=cycle, parallel=2)) == listed(own)


def test_a_dataset_outlives_what_it_was_made_with():
    scale = tf.Variable(3, dtype=tf.int64)

    def make(number: tf.Tensor) -> tf.data.Dataset:
        def call(value: np.ndarray) -> np.ndarray:
            return value + 1

        inner = map_elements(
            tf.data.Dataset.range(2),
            lambda n: tf.ensure_shape(tf.numpy_function(call, [n], tf.int64), ()),
        )
        return map_elements(inner, lambda n: n * scale + number)

    dataset = flat_map(NUMBERS.take(2), make).prefetch(1)
    del make
    for _ in range(2):
        gc.collect()
        assert listed(dataset) == [3, 6, 4, 7]


def test_an_input_has_light_functions_alone(datum_photos):
    """A function that TensorFlow would optimize anew for each iterator takes milliseconds."""
    reading = {"batch_size": 4, "features": "image", "label": "label"}
    graph = graph_pb2.GraphDef.FromString(
        input_fn(datum_photos, "train", **reading)._as_serialized_graph().numpy()
    )
    heavy = {
        function.signature.name
        for function in graph.library.function
        if "_tf_data_function" in function.attr
        and "experimental_ints_on_device" not in function.attr
    }
    assert not heavy


@pytest.mark.parametrize(
    "settings",
    [
        {"features": "id"},
        {"features": ["id", "tokens"], "shuffle": 9, "remainder": "pad", "repeat": 2},
        {"features": "id", "shuffle": False, "batch_size": None},
        {
            "features": "image",
            "shuffle": "global",
            "image_size": (16, 16),
            "augment": "random_resized_crop",
            "decoder": "tensorflow",
        },
    ],
    ids=str,
)
def test_public_functions_in_place_of_raw_ops_give_the_same_batches(
    tmp_path, write_dataset, photos, settings
):
    features = {
        "id": Feature(type="int"),
        "tokens": Feature(type="int", dense=False),
        "image": Feature(type="string", shape=(40, 48, 3)),
    }
    image = tf.io.encode_jpeg(photos[0]).numpy()
    examples = [{"id": [n], "tokens": [n] * (n % 3), "image": [image]} for n in range(23)]
    uri = write_dataset(tmp_path, {"train": [examples[:9], examples[9:]]}, features)
    settings = {"batch_size": 4, "seed": 2, **settings}
    raw = listed(input_fn(uri, **settings))
    with raw_ops.plain_ops():
        plain = listed(input_fn(uri, **settings))
    for one, other in zip(raw, plain, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)
    assert len(raw) == len(plain) > 0


def test_an_op_that_tensorflow_lacks_is_said_once_and_done_without(monkeypatch, our_messages):
    class WithoutRebatch:
        def __getattr__(self, name: str) -> object:
            if name == "RebatchDatasetV2":
                raise AttributeError(f"no op {name!r}")
            return getattr(tf.raw_ops, name)

    raw_ops._warn_of_missing.cache_clear()
    monkeypatch.setattr(raw_ops, "tf", Renamed(tf, raw_ops=WithoutRebatch()))
    for _ in range(2):
        batches = raw_ops.rebatch(NUMBERS.batch(2), 3)
        assert [batch.tolist() for batch in listed(batches)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert our_messages() == [
        "TensorFlow's op RebatchDatasetV2 is not as expected; input is slower: "
        "no op 'RebatchDatasetV2'"
    ]


class Renamed:
    """A module with some of its names changed."""

    def __init__(self, module: object, **names: object) -> None:
        self._module = module
        vars(self).update(names)

    def __getattr__(self, name: str) -> object:
        return getattr(self._module, name)
