"""`input_fn`: several datasets, order, lengths, input pipelines and settings."""

import collections
import gc
import itertools
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import trainer_utils
from tests.trainer_utils.reading.jpegs import encode
from trainer_utils import ConfigError, DatasetError, input_fn
from trainer_utils.format import Feature
from trainer_utils.frameworks import tensor_input
from trainer_utils.reading.batch_iterator import SHOWN_OF_INPUT

IDS = {"id": Feature(type="int")}


def ids(start: int, stop: int) -> list[dict[str, list[int]]]:
    return [{"id": [number]} for number in range(start, stop)]


def batches(uri: Any, split: str = "train", **options: Any) -> list[list[int]]:
    """Return the ids of every batch of an epoch."""
    dataset = input_fn(uri, split, features="id", **options)
    return [batch.tolist() for batch in dataset.as_numpy_iterator()]


def flat(groups: Iterable[Iterable[int]]) -> list[int]:
    return list(itertools.chain.from_iterable(groups))


@pytest.fixture(scope="module")
def wide(tmp_path_factory, write_dataset) -> str:
    """Write 300 examples in three shards of 100."""
    shards = [ids(start, start + 100) for start in (0, 100, 200)]
    return write_dataset(tmp_path_factory.mktemp("wide"), {"train": shards}, IDS)


# --- Several datasets ---


@pytest.mark.parametrize("shuffle", [False, True])
def test_listed_datasets_are_read_in_sequence_or_mixed(uneven, wide, shuffle):
    read = flat(batches([wide, uneven], "train[:10]", shuffle=shuffle))
    in_turn = [*range(10), *range(10)]
    assert (read == in_turn) is not shuffle
    assert sorted(read) == sorted(in_turn)


def test_artifacts_and_patterns_are_read_like_the_uri(uneven):
    artifact = pytest.importorskip("tfx.types.standard_artifacts").Examples()
    artifact.uri = uneven
    expected = batches(uneven)
    assert batches(artifact) == expected
    assert batches([artifact]) == expected
    assert batches([f"{uneven}/Split-train/*"]) == expected  # as in fn_args.train_files


@pytest.mark.parametrize(
    ("other", "value"),
    [
        (Feature(type="string"), [b"a"]),
        (Feature(type="int", shape=(2, 3), dense=False), [1, 2, 3, 4, 5, 6]),
        (Feature(type="int", shape=(3, 2)), [1, 2, 3, 4, 5, 6]),  # would be read as (2, 3)
    ],
)
def test_datasets_that_disagree_on_a_feature_are_refused(tmp_path, write_dataset, other, value):
    first = Feature(type="int", shape=(2, 3))
    one = [{"x": [1, 2, 3, 4, 5, 6], "id": [1]}]
    uris = [
        write_dataset(tmp_path / "a", {"train": [one]}, {**IDS, "x": first}),
        write_dataset(tmp_path / "b", {"train": [[{"x": value, "id": [2]}]]}, {**IDS, "x": other}),
    ]
    with pytest.raises(DatasetError, match="feature 'x': expected the same in all") as caught:
        input_fn(uris)
    assert all(uri in str(caught.value) for uri in uris)
    assert sorted(flat(batches(uris))) == [1, 2]
    lacking = write_dataset(tmp_path / "c", {"train": [[{"id": [3]}]]}, IDS)
    with pytest.raises(DatasetError, match=f"feature 'x': .*{lacking}"):
        input_fn([uris[0], lacking], features="x")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((40, "fixed"), (20, "fixed")),
        ((40, "fixed"), (40, "mixed")),
        ((40, None), (40, "mixed")),
    ],
)
def test_datasets_of_mixed_image_sizes_need_image_size(
    tmp_path, photos, write_dataset, first, second, subtests
):
    uris = []
    for number, (height, sizes) in enumerate([first, second]):
        extra = {} if sizes is None else {"sizes": sizes}
        image = Feature(type="string", shape=(height, 48, 3), extra=extra)
        heights = [height, 30] if sizes == "mixed" else [height, height]
        shard = [{"image": [encode(photos[0][:rows], "PNG")]} for rows in heights]
        uris.append(write_dataset(tmp_path / str(number), {"train": [shard]}, {"image": image}))
    with pytest.raises(ConfigError, match=r"image_size: .*'image'"):
        input_fn(uris, batch_size=4)
    (batch,) = input_fn(uris, features="image", image_size=(8, 8)).as_numpy_iterator()
    assert batch.shape == (4, 8, 8, 3)
    for batch_size in (None, 1):
        with subtests.test(batch_size=batch_size):
            images = input_fn(uris, features="image", batch_size=batch_size, shuffle=False)
            assert {image.shape[-3:] for image in images} >= {(first[0], 48, 3)}
            assert len(list(images)) == 4


# --- Order ---


def test_the_order_depends_only_on_the_seed(wide, monkeypatch, subtests):
    order = batches(wide, seed=3)
    assert batches(wide, seed=3) == order
    assert batches(wide, seed=4) != order
    for cores in (1, 5):
        with subtests.test(cores=cores):
            monkeypatch.setattr(tensor_input, "usable_cores", lambda cores=cores: cores)
            assert batches(wide, seed=3) == order


# --- Length ---


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"batch_size": 4}, (None,)),
        ({"batch_size": 5, "remainder": "drop"}, (5,)),
        ({"batch_size": 24, "remainder": "pad"}, (24,)),
        ({"batch_size": None}, ()),
        ({"split": "train[:0]", "batch_size": 4, "remainder": "drop"}, (4,)),
    ],
)
def test_equal_batches_have_static_shapes_and_a_cardinality(uneven, options, shape):
    dataset = input_fn(uneven, features="id", **options)
    spec = dataset.element_spec
    assert (spec[0] if "pad" in options.values() else spec) == tf.TensorSpec(shape, tf.int64)
    assert int(dataset.cardinality()) == len(list(dataset))


def test_a_dataset_repeats_without_end(uneven):
    dataset = input_fn(uneven, features="id", batch_size=4, repeat=True)
    assert int(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY
    counts = collections.Counter(flat(dataset.take(6 * 20).as_numpy_iterator()))
    assert counts == dict.fromkeys(range(23), 20)


# --- Other attributes ---


@pytest.mark.parametrize("read", [input_fn, trainer_utils.iterate])
def test_an_epoch_counts_once_it_has_been_read_completely(uneven, read):
    source = read(uneven, features="id", batch_size=4)
    firsts = [np.asarray(next(iter(source))).tolist() for _ in range(3)]
    assert firsts[0] == firsts[1] == firsts[2]
    epochs = [flat(np.asarray(batch).tolist() for batch in source) for _ in range(2)]
    assert epochs[0][:4] == firsts[0]
    assert epochs[0] != epochs[1]


def test_an_input_dataset_works_wherever_a_dataset_does(uneven):
    dataset = input_fn(uneven, features="id", batch_size=4)
    assert isinstance(dataset, tf.data.Dataset)
    assert dataset.options().deterministic
    assert int(dataset.cardinality()) == 6

    @tf.function
    def total(batches):
        return batches.reduce(tf.constant(0, tf.int64), lambda old, ids: old + tf.reduce_sum(ids))

    assert int(total(dataset)) == sum(range(23))
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    assert sorted(flat(strategy.experimental_distribute_dataset(dataset))) == list(range(23))
    zipped = tf.data.Dataset.zip(dataset, tf.data.Dataset.range(6))
    assert [int(step) for _, step in zipped] == list(range(6))
    copied = dataset.apply(tf.data.experimental.copy_to_device("/CPU:0"))
    assert sorted(flat(copied)) == list(range(23))


def test_a_distributed_dataset_has_the_attributes_of_its_input(uneven):
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    whole = trainer_utils.distribute(strategy, uneven, "train", features="id", batch_size=4)
    resumed = whole.resumed_at(whole.state(2))
    assert resumed.input_start.step == 2
    assert resumed.input_steps == whole.input_pipeline.input_steps == 6
    assert {*dir(input_fn(uneven))} >= {*SHOWN_OF_INPUT, "input_pipeline", "resumed_at"}
    gc.collect()  # the input lives as long as the distributed dataset
    assert len(flat(resumed)) == 15


def test_an_input_is_freed_with_its_dataset(uneven):
    dataset = input_fn(uneven, features="id", batch_size=4)
    held = weakref.ref(dataset.input_pipeline)
    derived = dataset.map(lambda ids: ids + 1)
    del dataset
    gc.collect()
    assert sorted(flat(derived.as_numpy_iterator())) == list(range(1, 24))
    del derived
    gc.collect()
    assert held() is None
