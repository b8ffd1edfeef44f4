"""Decoded features, such as audio, tensors, lists and labels, against TensorFlow's readers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import trainer_utils
from tests.make import wav, write_rows
from tests.trainer_utils.reading.oracle import assert_equal, records_of
from trainer_utils import ConfigError, DatasetError
from trainer_utils.format import Feature
from trainer_utils.format.tensors import encode_tensor

GOLDEN = Path(__file__).parents[2] / "golden"


def records(batches):
    """Return the records of the first batch of the first epoch, read by TensorFlow."""
    return records_of(batches.order.records(epoch=0, step=0, worker=0))


def one_batch(uri, **settings):
    """Return the first batch of `iterate`, and its records."""
    found = trainer_utils.iterate(uri, "train", **settings)
    return next(iter(found)), records(found)


def parse(records, name, dtype=tf.string):
    spec = {name: tf.io.FixedLenFeature((), dtype)}
    return tf.io.parse_example(tf.constant(records), spec)[name]


@pytest.mark.parametrize("name", ["tfds", "tfrecorder"])
def test_datasets_of_other_tools(name):
    settings = {"image_size": (8, 9)} if name == "tfds" else {}  # TFRecorder's features are strings
    batch, raw = one_batch(str(GOLDEN / name), batch_size=2, **settings)
    assert batch["image"].shape == ((2, 8, 9, 3) if name == "tfds" else (2,))
    assert_equal(batch["label"], parse(raw, "label", tf.int64).numpy())


def test_tables_of_any_size(tmp_path, write_dataset):
    sizes = [(1, 2), (3, 1), (2, 2), (2, 5)]
    rows = [{"m": list(range(h * w)), "m_shape": [h, w]} for h, w in sizes]
    matrix = Feature(type="int", shape=(3, 5), dense=False)
    features = {"m": matrix, "m_shape": Feature(type="int", shape=(2,))}
    uri = write_dataset(tmp_path, {"train": [rows]}, features)
    (batch,) = trainer_utils.iterate(uri, batch_size=4, shuffle=False)
    tables = [np.arange(h * w).reshape(h, w) for h, w in sizes]
    padded = [np.pad(table, [(0, 3 - len(table)), (0, 5 - table.shape[1])]) for table in tables]
    assert_equal(batch["m"], np.stack(padded))


@pytest.mark.parametrize(
    ("dtype", "is_fixed"),
    [("uint8", True), ("float16", False), ("bool", False), ("complex64", True), ("string", True)],
)
def test_tensors_equal_tensorflows(tmp_path, write_dataset, dtype, is_fixed):
    values = [np.arange(6).reshape(2, 3) + n for n in range(4)]
    if not is_fixed:
        values = [value[:, : 1 + n % 3] for n, value in enumerate(values)]
    values = [value.astype("S" if dtype == "string" else dtype) for value in values]
    serialized = [tf.io.serialize_tensor(tf.constant(value)).numpy() for value in values]
    spec = {"dtype": dtype, "shape": [2, 3 if is_fixed else None]}
    rows = [{"x": [value]} for value in serialized]
    feature = Feature(type="string", extra={"tensor": spec})
    uri = write_dataset(tmp_path, {"train": [rows]}, {"x": feature})
    (batch,) = trainer_utils.iterate(uri, batch_size=4, shuffle=False, features="x")
    for own, data in zip(batch, serialized, strict=True):
        theirs = tf.io.parse_tensor(data, dtype).numpy()
        assert_equal(own[:, : theirs.shape[1]], theirs)
        assert not own[:, theirs.shape[1] :].any()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_label_encodings_equal_kerass(tmp_path, write_dataset, smoothing):
    rows = [{"label": [n % 4], "id": [n]} for n in range(8)]
    features = {"label": Feature(type="int"), "id": Feature(type="int")}
    uri = write_dataset(tmp_path, {"train": [rows]}, features)
    labels = trainer_utils.LabelOptions(one_hot=True, smoothing=smoothing, num_classes=5)
    ((_, found),) = trainer_utils.iterate(
        uri, batch_size=8, shuffle=False, features="id", label="label", labels=labels
    )
    hot = tf.keras.utils.to_categorical(np.arange(8) % 4, 5)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, hot * (1 - smoothing) + smoothing / 5, atol=1e-6)
    wrong = trainer_utils.LabelOptions(one_hot=True, num_classes=3)
    with pytest.raises(ConfigError, match="got 3"):
        list(trainer_utils.iterate(uri, batch_size=8, features="id", label="label", labels=wrong))


def test_a_missing_dense_feature_is_named(tmp_path, write_dataset):
    rows = [{"a": [1]}, {"a": [1, 2]}]
    uri = write_dataset(tmp_path, {"train": [rows]}, {"a": Feature(type="int")})
    with pytest.raises(DatasetError, match=r"feature 'a' of 1 values .*record 1\)") as caught:
        list(trainer_utils.iterate(uri, shuffle=False))
    assert caught.value.record == 1
    uri = write_dataset(tmp_path / "b", {"train": [rows]}, {"a": Feature(type="string")})
    with pytest.raises(
        DatasetError, match="feature 'a' of string values as the dataset says, got int"
    ):
        list(trainer_utils.iterate(uri))


RAW = Feature(type="string", extra={"encoding": "raw", "image_shape": [2, 2, 3]})
TENSOR = Feature(type="string", extra={"tensor": {"dtype": "float16", "shape": [2]}})
SERIALIZED = encode_tensor(np.ones(2, np.float16))
SHAPE = Feature(type="int", shape=(2,))
WAV = Feature(type="string", extra={"encoding": "wav", "sample_rate": 8000, "channels": 1})


@pytest.mark.parametrize(
    ("feature", "good", "bad"),
    [
        (Feature(type="int", shape=(2, 2), dense=False), {"x_shape": [1, 2]}, {"x_shape": [3, 2]}),
        (Feature(type="int", shape=(2, 2), dense=False), {"x_shape": [1, 2]}, {"x_shape": [-1, 3]}),
        (RAW, {"x": [b"0" * 12]}, {"x": [b"0" * 11]}),
        (TENSOR, {"x": [SERIALIZED]}, {"x": [b"no tensor"]}),
        (WAV, {"x": [wav()]}, {"x": [b"no sound"]}),
        (WAV, {"x": [wav()]}, {"x": [wav()[:20]]}),
    ],
)
def test_values_of_wrong_type_or_count_raise_a_dataset_error(
    tmp_path, write_dataset, feature, good, bad
):
    rows = [{"x": [1, 2], **values} for values in (good, bad)]
    features = {"x": feature, **({"x_shape": SHAPE} if "x_shape" in good else {})}
    uri = write_dataset(tmp_path, {"train": [rows]}, features)
    with pytest.raises(DatasetError, match=r"x|sound|tensor"):
        list(trainer_utils.iterate(uri, batch_size=1, shuffle=False, features=["x"]))


# --- Features that some records lack ---


@pytest.fixture
def lacking(tmp_path, serialize) -> str:
    """Write six records; every second one has `score`, `name` and `pair`."""
    with tf.io.TFRecordWriter(str(tmp_path / "some.tfrecord")) as writer:
        for number in range(6):
            more = {"score": [number / 2], "name": [b"n%d" % number], "pair": [number, 7]}
            writer.write(serialize(id=[number], **(more if number % 2 else {})))
    return str(tmp_path / "some.tfrecord")


def _read(read_by: Any, path: str, **settings: Any) -> list[dict[str, np.ndarray]]:
    dataset = read_by(path, batch_size=4, shuffle=False, **settings)
    return list(dataset.as_numpy_iterator() if read_by is trainer_utils.input_fn else dataset)


@pytest.mark.parametrize(
    ("read_by", "is_one_by_one"),
    [
        (trainer_utils.input_fn, False),
        (trainer_utils.iterate, False),
        (trainer_utils.iterate, True),
    ],
)
def test_records_without_a_feature_get_its_default(lacking, read_by, is_one_by_one):
    settings = {"default_values": {"score": -1, "name": "none", "pair": 5}}
    if is_one_by_one:
        settings["pre_batching_callback"] = dict
    first, second = _read(read_by, lacking, **settings)
    assert first["score"].tolist() == [-1, 0.5, -1, 1.5]
    assert (first["score"].dtype, second["score"].shape) == (np.float32, (2,))
    assert second["name"].tolist() == [b"none", b"n5"]
    assert first["pair"].tolist() == [[5, 5], [1, 7], [5, 5], [3, 7]]
    expected = tf.io.parse_single_example(
        next(iter(tf.data.TFRecordDataset(lacking))),
        {"score": tf.io.FixedLenFeature((), tf.float32, -1.0)},
    )
    assert first["score"][0] == expected["score"].numpy()


def test_a_default_of_the_wrong_type_is_refused(lacking, subtests):
    for name, value in (("score", "x"), ("name", 1), ("id", 0.5), ("scoer", 1)):
        with subtests.test(name=name), pytest.raises(ConfigError, match="default_values"):
            _read(trainer_utils.iterate, lacking, default_values={name: value})


@pytest.mark.parametrize("on_corrupt", ["raise", "skip"])
def test_a_default_for_lists_of_several_lengths_is_refused(tmp_path, on_corrupt):
    rows = ({"list": [*range(n % 4 + 1)]} for n in range(12))
    uri = write_rows(tmp_path / "lists", rows)
    with pytest.raises(ConfigError, match=r"default_values: .*'list'"):
        _read(trainer_utils.iterate, uri, default_values={"list": 7}, on_corrupt=on_corrupt)


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"image_size": (4, 4)}, "image_size"),
        ({"image_size": (4, 4), "augment": ["flip"]}, "image_size and augment"),
        ({"augment": ["flip"]}, "augment"),
        ({}, None),
    ],
)
def test_image_settings_without_effect_are_reported(tmp_path, caplog, settings, names):
    pixels = np.zeros((6, 8, 3), np.uint8)
    rows = ({"n": n, "image": None if n == 7 else pixels} for n in range(8))
    uri = write_rows(tmp_path / "images", rows)
    trainer_utils.iterate(uri, "train", batch_size=4, **settings)
    assert [text.split(":")[0] for text in caplog.messages] == ([] if names is None else [names])
