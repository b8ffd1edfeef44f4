"""A run that is gone on with under the other Keras, of Keras 3 and tf-keras: refused, and named."""

from typing import Any

import keras
import pytest

import trainer_utils
from trainer_utils import ConfigError, input_fn
from trainer_utils.format import Feature


@pytest.fixture
def uri(tmp_path, write_dataset) -> str:
    rows = [{"x": [float(n), 1.0], "label": [n % 2]} for n in range(8)]
    features = {"x": Feature(type="float", shape=(2,)), "label": Feature(type="int")}
    return write_dataset(tmp_path / "set", {"train": [rows]}, features)


def _fit(package: Any, uri: str, folder: str, epochs: int) -> Any:
    layers = package.layers
    model = package.Sequential(
        [package.Input((2,)), layers.BatchNormalization(), layers.BatchNormalization(),
         layers.Dense(2)]
    )  # fmt: skip
    model.compile("sgd", package.losses.SparseCategoricalCrossentropy(from_logits=True))
    train = input_fn(uri, batch_size=4, features="x", label="label")
    return trainer_utils.fit(model, None, train, epochs=epochs, backup_dir=folder, verbose=0)


@pytest.mark.parametrize("order", [0, 1])
def test_fit_refuses_a_backup_of_the_other_keras(uri, tmp_path, order):
    tf_keras = pytest.importorskip("tf_keras")
    first, second = (keras, tf_keras)[:: -1 if order else 1]
    folder = str(tmp_path / "backup")
    _fit(first, uri, folder, 1)
    with pytest.raises(ConfigError, match=f"of {first.__name__} in .*backup"):
        _fit(second, uri, folder, 2)
    assert _fit(first, uri, folder, 2).epoch == [0, 1]
