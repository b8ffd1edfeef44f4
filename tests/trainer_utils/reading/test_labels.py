"""Labels made one-hot and smoothed, against Keras."""

import numpy as np
import pytest
import tensorflow as tf

from trainer_utils import ConfigError, input_fn
from trainer_utils.format import Feature


@pytest.fixture
def make(tmp_path, write_dataset):
    def make(**extra) -> str:
        rows = [
            {"label": [n % 4], "id": [n], "score": [n / 2], "many": [n % 4, 1]} for n in range(8)
        ]
        features = {
            "label": Feature(type="int", extra=extra),
            "id": Feature(type="int"),
            "score": Feature(type="float"),
            "many": Feature(type="int", shape=(2,), extra=extra),
        }
        return write_dataset(tmp_path, {"train": [rows]}, features)

    return make


def labels_of(uri: str, label: str = "label", **settings) -> np.ndarray:
    ((_, labels),) = input_fn(
        uri, features="id", label=label, shuffle=False, batch_size=8, **settings
    ).as_numpy_iterator()
    return labels


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_labels_are_kerass(make, smoothing):
    labels = labels_of(make(num_classes=5), one_hot=not smoothing, label_smoothing=smoothing)
    assert labels.dtype == np.float32
    hot = tf.keras.utils.to_categorical(np.arange(8) % 4, 5)
    np.testing.assert_allclose(labels, hot * (1 - smoothing) + smoothing / 5, atol=1e-6)


def test_the_number_of_classes_is_that_of_the_setting_else_of_the_dataset(make, tmp_path):
    uri = make()
    with pytest.raises(ConfigError, match=r"num_classes: expected the number .* say nothing"):
        labels_of(uri, one_hot=True)
    assert labels_of(uri, one_hot=True, num_classes=9).shape == (8, 9)
    (tmp_path / "vocab").mkdir()
    (tmp_path / "vocab/label.txt").write_text("a\nb\nc\nd\n")
    (tmp_path / "manifest.json").unlink()  # which lists all files
    assert labels_of(uri, one_hot=True).shape == (8, 4)


def test_several_labels_are_several_rows(make):
    assert labels_of(make(num_classes=4), "many", one_hot=True).shape == (8, 2, 4)


def test_an_id_that_is_no_class_ends_the_epoch(make):
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected ids below 3"):
        labels_of(make(num_classes=4), one_hot=True, num_classes=3)


def test_what_is_no_class_id_is_refused(make):
    with pytest.raises(ConfigError, match=r"label, feature 'score': expected int64"):
        labels_of(make(), "score", one_hot=True)
