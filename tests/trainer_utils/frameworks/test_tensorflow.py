"""`input_fn`: several datasets, order, lengths, input pipelines and settings."""

import collections
import gc
import io
import itertools
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import trainer_utils
from trainer_utils import ConfigError, DatasetError, input_fn
from trainer_utils.format import Feature
from trainer_utils.frameworks import tensor_input

IDS = {"id": Feature(type="int")}
IMAGES = {
    "image": Feature(type="string", shape=(40, 48, 3), extra={"sizes": "fixed"}),
    "id": Feature(type="int"),
}
MIXED = {**IMAGES, "image": Feature(type="string", shape=(40, 48, 3), extra={"sizes": "mixed"})}


def encode(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def ids(start: int, stop: int) -> list[dict[str, list[int]]]:
    return [{"id": [number]} for number in range(start, stop)]


def batches(uri: Any, split: str = "train", **options: Any) -> list[list[int]]:
    """The ids of every batch of an epoch."""
    dataset = input_fn(uri, split, features="id", **options)
    return [batch.tolist() for batch in dataset.as_numpy_iterator()]


def flat(groups: Iterable[Iterable[int]]) -> list[int]:
    return list(itertools.chain.from_iterable(groups))


@pytest.fixture(scope="module")
def wide(tmp_path_factory, write_dataset) -> str:
    """300 examples in three shards of 100."""
    shards = [ids(start, start + 100) for start in (0, 100, 200)]
    return write_dataset(tmp_path_factory.mktemp("wide"), {"train": shards}, IDS)


# --- Several datasets ---


@pytest.mark.parametrize("shuffle", [False, True])
def test_datasets_of_a_list_are_read_one_after_the_other_or_mixed(uneven, wide, shuffle):
    read = flat(batches([wide, uneven], "train[:10]", shuffle=shuffle))
    in_turn = [*range(10), *range(10)]
    assert (read == in_turn) is not shuffle
    assert sorted(read) == sorted(in_turn)


def test_a_dataset_of_ours_and_one_of_datums_are_read_together(uneven, datum_photos):
    assert sorted(flat(batches([uneven, datum_photos]))) == sorted([*range(23), *range(23)])


def test_an_artifact_and_the_patterns_of_a_trainer_are_read_as_the_uri(uneven):
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
        (Feature(type="float"), [0.5]),
        (Feature(type="int", shape=(6,)), [1, 2, 3, 4, 5, 6]),
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


def test_a_feature_that_one_of_the_datasets_lacks_is_refused(tmp_path, write_dataset, uneven):
    other = write_dataset(
        tmp_path, {"train": [[{"x": [1], "id": [1]}]]}, {**IDS, "x": Feature(type="int")}
    )
    for uris in ([uneven, other], [other, uneven]):
        with pytest.raises(DatasetError, match=rf"feature 'x': .*\({uneven}\)"):
            input_fn(uris, features="x")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((40, "fixed"), (20, "fixed")),
        ((40, None), (20, None)),
        ((40, "fixed"), (40, "mixed")),
        ((40, "mixed"), (40, "fixed")),
        ((40, None), (40, "mixed")),
    ],
)
def test_datasets_whose_images_differ_in_size_need_a_size(
    tmp_path, photos, write_dataset, first, second
):
    uris = []
    for number, (height, sizes) in enumerate([first, second]):
        extra = {} if sizes is None else {"sizes": sizes}
        image = Feature(type="string", shape=(height, 48, 3), extra=extra)
        heights = [height, 30] if sizes == "mixed" else [height, height]
        shard = [{"image": [encode(photos[0][:rows])]} for rows in heights]
        uris.append(write_dataset(tmp_path / str(number), {"train": [shard]}, {"image": image}))
    with pytest.raises(ConfigError, match=r"image_size: .*'image' differ"):
        input_fn(uris, batch_size=4)
    (batch,) = input_fn(uris, features="image", image_size=(8, 8)).as_numpy_iterator()
    assert batch.shape == (4, 8, 8, 3)
    assert len(list(input_fn(uris, batch_size=None))) == 4


# --- Order ---


def test_each_epoch_holds_every_record_once_in_another_order(wide):
    dataset = input_fn(wide, features="id", batch_size=32)
    epochs = [tuple(flat(dataset.as_numpy_iterator())) for _ in range(3)]
    assert all(sorted(epoch) == list(range(300)) for epoch in epochs)
    assert len({*epochs, tuple(range(300))}) == 4


def test_the_order_is_the_seeds_own(wide, monkeypatch):
    order = batches(wide, seed=3)
    assert batches(wide, seed=3) == order
    assert batches(wide, seed=4) != order
    for cores in (1, 5):
        monkeypatch.setattr(tensor_input, "usable_cores", lambda cores=cores: cores)
        assert batches(wide, seed=3) == order


# --- Length ---


@pytest.mark.parametrize("batch_size", [1, 4, 23, 24])
@pytest.mark.parametrize("remainder", [None, "drop"])
@pytest.mark.parametrize("split", ["train", "train[:12]", "train[:0]"])
def test_the_number_of_batches_is_known_and_true(uneven, split, batch_size, remainder):
    if remainder == "drop" and batch_size > {"train": 23, "train[:12]": 12}.get(split, 99):
        with pytest.raises(ConfigError, match=f"batch_size: .*got {batch_size}"):
            input_fn(uneven, split, batch_size=batch_size, remainder=remainder)
        return
    dataset = input_fn(uneven, split, features="id", batch_size=batch_size, remainder=remainder)
    records = {"train": 23, "train[:12]": 12, "train[:0]": 0}[split]
    sizes = [len(batch) for batch in dataset.as_numpy_iterator()]
    full, rest = divmod(records, batch_size)
    assert sizes == [batch_size] * full + ([rest] if rest and remainder is None else [])
    assert int(dataset.cardinality()) == len(sizes)
    static = None if remainder is None else batch_size
    assert dataset.element_spec == tf.TensorSpec((static,), tf.int64)


def test_single_examples_are_counted_too(uneven):
    dataset = input_fn(uneven, batch_size=None)
    assert int(dataset.cardinality()) == len(list(dataset)) == 23
    assert dataset.element_spec == {"id": tf.TensorSpec((), tf.int64)}


def test_images_dropped_at_the_end_leave_static_shapes(datum_photos):
    dataset = input_fn(
        datum_photos, features="image", batch_size=8, remainder="drop", image_size=(16, 20)
    )
    assert dataset.element_spec == tf.TensorSpec((8, 16, 20, 3), tf.uint8)
    assert len(list(dataset)) == int(dataset.cardinality()) == 2


def test_a_repeated_dataset_goes_through_every_epoch_to_its_end(uneven):
    dataset = input_fn(uneven, features="id", batch_size=4, repeat=3)
    read = [batch.tolist() for batch in dataset.as_numpy_iterator()]
    assert int(dataset.cardinality()) == len(read) == 18
    epochs = [flat(read[start : start + 6]) for start in (0, 6, 12)]
    assert all(sorted(epoch) == list(range(23)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_a_dataset_repeats_without_end(uneven):
    dataset = input_fn(uneven, features="id", batch_size=4, repeat=True)
    assert int(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY
    counts = collections.Counter(flat(dataset.take(6 * 20).as_numpy_iterator()))
    assert counts == dict.fromkeys(range(23), 20)


# --- Several input pipelines ---


@pytest.mark.parametrize("num_pipelines", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    ("split", "shuffle"), [("train", True), ("train", False), ("train[3:-1]+eval", True)]
)
def test_pipelines_get_equal_shares_that_do_not_overlap(uneven, num_pipelines, split, shuffle):
    expected = flat(batches(uneven, split, shuffle=False))
    datasets = [
        input_fn(
            uneven,
            split,
            features="id",
            batch_size=2 * num_pipelines,
            shuffle=shuffle,
            input_context=tf.distribute.InputContext(num_pipelines, index, num_pipelines),
        )
        for index in range(num_pipelines)
    ]
    parts = [[batch.tolist() for batch in dataset.as_numpy_iterator()] for dataset in datasets]
    read = [number for part in parts for number in flat(part)]
    # All take as many steps as they say, of as many records as the others' or one more or less.
    assert {int(dataset.cardinality()) for dataset in datasets} == {*map(len, parts)}
    for step in zip(*parts, strict=True):
        assert max(map(len, step)) - min(map(len, step)) <= 1
    assert sorted(read) == sorted(expected)


def test_one_of_more_pipelines_than_records_gets_an_empty_batch(uneven):
    sizes = []
    for index in range(5):
        context = tf.distribute.InputContext(5, index, 5)
        (batch,) = batches(uneven, "train[:4]", batch_size=5, input_context=context)
        sizes.append(len(batch))
    assert sorted(sizes) == [0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("num_pipelines", "num_replicas", "global_batch", "local"),
    [(1, 1, 6, 6), (1, 2, 6, 3), (2, 2, 6, 3), (2, 4, 8, 2), (3, 3, 3, 1)],
)
def test_a_replica_gets_its_share_of_the_batch(
    uneven, num_pipelines, num_replicas, global_batch, local
):
    context = tf.distribute.InputContext(num_pipelines, 0, num_replicas)
    first, *_ = batches(uneven, batch_size=global_batch, input_context=context)
    assert len(first) == local


# --- Settings ---


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("batch_size", 0),
        ("batch_size", -1),
        ("batch_size", True),
        ("batch_size", 1.5),
        ("batch_size", "64"),
        ("image_size", (0, 8)),
        ("image_size", (8, -8)),
        ("image_size", (8, 8.0)),
        ("image_size", (8, 8, 3)),
        ("image_size", 224),
        ("repeat", 0),
        ("repeat", -1),
        ("repeat", 1.5),
        ("seed", 1.5),
        ("prefetch", -3),
        ("features", []),
    ],
)
def test_a_setting_that_is_not_allowed_is_named_with_its_value(uneven, setting, value):
    with pytest.raises(ConfigError) as caught:
        input_fn(uneven, **{setting: value})
    message = str(caught.value)
    assert message.startswith(f"{setting}: expected ")
    assert repr(value) in message
    assert "\n" not in message


@pytest.mark.parametrize(("batch_size", "replicas"), [(7, 2), (1, 4), (9, 6)])
def test_a_batch_that_the_replicas_cannot_share_is_refused(uneven, batch_size, replicas):
    context = tf.distribute.InputContext(2, 0, replicas)
    with pytest.raises(ConfigError, match=rf"the {replicas} replicas, got {batch_size}$"):
        input_fn(uneven, batch_size=batch_size, input_context=context)


def test_an_empty_list_of_datasets_is_refused():
    with pytest.raises(ConfigError, match=r"artifact_uri: expected"):
        input_fn([])


# --- What it has beside batches ---


def test_it_says_its_classes_and_features_in_every_framework(tmp_path):
    uri = str(tmp_path / "letters")
    with trainer_utils.DatasetWriter(uri, vocabulary=["a", "b", "c"]) as writer:
        for number in range(6):
            writer.write("train", {"x": float(number), "label": "abc"[number % 3]})
    for source in (input_fn(uri, label="label"), trainer_utils.iterate(uri, label="label")):
        assert list(source.class_names) == ["a", "b", "c"]
        assert source.num_classes == 3
        assert set(source.features) == {"x", "label"}


@pytest.mark.parametrize("read", [input_fn, trainer_utils.iterate])
def test_an_epoch_counts_once_it_was_read_to_its_end(uneven, read):
    source = read(uneven, features="id", batch_size=4)
    firsts = [np.asarray(next(iter(source))).tolist() for _ in range(3)]
    assert firsts[0] == firsts[1] == firsts[2]
    epochs = [flat(np.asarray(batch).tolist() for batch in source) for _ in range(2)]
    assert epochs[0][:4] == firsts[0]
    assert epochs[0] != epochs[1]


def test_what_an_input_holds_goes_with_its_dataset(uneven):
    dataset = input_fn(uneven, features="id", batch_size=4)
    held = weakref.ref(dataset.input_pipeline)
    derived = dataset.map(lambda ids: ids + 1)
    del dataset
    gc.collect()
    assert sorted(flat(derived.as_numpy_iterator())) == list(range(1, 24))
    del derived
    gc.collect()
    assert held() is None
