"""What becomes of features: Datum's, TFDS's, sounds, lists with a shape, against `input_fn`."""

import io
import wave
from pathlib import Path

import numpy as np
import pytest

import trainer_utils
from tests.trainer_utils.arrays.test_batches import assert_same
from trainer_utils import ConfigError, DatasetError
from trainer_utils.format import Feature
from trainer_utils.format.tensors import encode_tensor

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.mark.parametrize("name", ["tfds", "tfrecorder"])
def test_what_others_wrote(name):
    assert_same(str(GOLDEN / name), "train", batch_size=4, epochs=1, image_size=(8, 9), atol=1)


def test_lists_with_a_shape_and_datums_images(datum_photos):
    assert_same(datum_photos, "train", batch_size=5, epochs=1)


def sound(rate, samples):
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return stream.getvalue()


@pytest.mark.parametrize("settings", [{}, {"audio_seconds": 0.05}])
def test_sounds(tmp_path, write_dataset, settings):
    extra = {"encoding": "wav", "sample_rate": 8000, "channels": 1}
    rng = np.random.default_rng(0)
    rows = [{"x": [sound(8000, rng.integers(-9999, 9999, 300 + 50 * n))]} for n in range(5)]
    features = {"x": Feature(type="string", extra=extra)}
    uri = write_dataset(tmp_path, {"train": [rows]}, features)
    assert_same(uri, "train", batch_size=2, epochs=1, **settings)


def test_tables_of_any_size(tmp_path, write_dataset):
    rows = [
        {"m": list(range(h * w)), "m_shape": [h, w], "v": [0.5] * 3}
        for h, w in [(1, 2), (3, 1), (2, 2), (2, 5)]
    ]
    features = {
        "m": Feature(type="int", shape=(3, 5), dense=False),
        "m_shape": Feature(type="int", shape=(2,)),
        "v": Feature(type="float", shape=(3,)),
    }
    uri = write_dataset(tmp_path, {"train": [rows]}, features)
    assert_same(uri, "train", batch_size=3, epochs=1)
    assert_same(uri, "train", batch_size=None, epochs=1)


def test_a_dense_feature_that_is_missing_is_named(tmp_path, write_dataset):
    rows = [{"a": [1]}, {"a": [1, 2]}]
    uri = write_dataset(tmp_path, {"train": [rows]}, {"a": Feature(type="int")})
    with pytest.raises(DatasetError, match=r"'a': expected 1 values .*record 1\)") as caught:
        list(trainer_utils.iterate(uri, shuffle=False))
    assert caught.value.record == 1
    uri = write_dataset(tmp_path / "b", {"train": [rows]}, {"a": Feature(type="string")})
    with pytest.raises(DatasetError, match="'a': expected string as the dataset says, got int"):
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
        (TENSOR, {"x": [SERIALIZED]}, {"x": [SERIALIZED[:-1]]}),
        (TENSOR, {"x": [SERIALIZED]}, {"x": [b"no tensor"]}),
        (WAV, {"x": [sound(8000, np.zeros(9))]}, {"x": [b"no sound"]}),
        (WAV, {"x": [sound(8000, np.zeros(9))]}, {"x": [sound(8000, np.zeros(9))[:20]]}),
    ],
)
def test_values_that_do_not_fit_are_an_error_of_the_dataset(
    tmp_path, write_dataset, feature, good, bad
):
    rows = [{"x": [1, 2], **values} for values in (good, bad)]
    features = {"x": feature, **({"x_shape": SHAPE} if "x_shape" in good else {})}
    uri = write_dataset(tmp_path, {"train": [rows]}, features)
    with pytest.raises(DatasetError, match=r"x|sound|tensor"):
        list(trainer_utils.iterate(uri, batch_size=1, shuffle=False, features=["x"]))


def test_feature_lists_are_for_tensorflow(tmp_path, write_dataset):
    features = {"a": Feature(type="int", shape=(2,), dense=False, extra={"sequence": [2]})}
    uri = write_dataset(tmp_path, {"train": [[{"a": [1]}]]}, features)
    with pytest.raises(ConfigError, match="SequenceExample"):
        trainer_utils.iterate(uri)
