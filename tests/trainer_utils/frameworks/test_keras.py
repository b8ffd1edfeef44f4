"""`keras_dataset` in `model.fit` of Keras 3, on the backend that is there."""

import importlib.util
import os
import textwrap

import numpy as np
import pytest

import trainer_utils
from tests.make import run_python
from trainer_utils import ConfigError

if importlib.util.find_spec("tensorflow") is None:
    os.environ.setdefault("KERAS_BACKEND", "jax")
keras = pytest.importorskip("keras", minversion="3")

SETTINGS = {"batch_size": 8, "seed": 3, "features": "id", "label": "weight"}


class Seen(keras.layers.Layer):
    """Notes the ids that it is called with, eagerly."""

    def __init__(self):
        super().__init__()
        self.ids = []
        self.scale = self.add_weight(shape=(), initializer="ones")

    def call(self, ids):
        self.ids.append(np.asarray(ids).tolist())
        return keras.ops.cast(ids, "float32")[:, None] * self.scale


def seen_by_fit(dataset, **settings):
    layer = Seen()
    model = keras.Sequential([layer])
    model.compile(optimizer="sgd", loss="mse", run_eagerly=True)
    model.build((None,))
    layer.ids.clear()
    model.fit(dataset, verbose=0, shuffle=False, **settings)
    return layer.ids


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="JAX traces what fit calls")
def test_fit_has_each_epoch_in_its_order(numbered):
    expected = [b[0].tolist() for b in trainer_utils.iterate(numbered, **SETTINGS, repeat=3)]
    dataset = trainer_utils.keras_dataset(numbered, **SETTINGS)
    seen = seen_by_fit(dataset, epochs=3)
    assert seen[-len(expected) :] == expected


def test_fit_trains_and_evaluates(numbered):
    chosen = {**SETTINGS, "features": "image", "remainder": "pad"}
    train = trainer_utils.keras_dataset(numbered, "train[:100]", **chosen)
    check = trainer_utils.keras_dataset(numbered, "train[100:]", shuffle=False, **chosen)
    model = keras.Sequential(
        [keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(1)]
    )
    model.compile(optimizer="adam", loss="mse")
    history = model.fit(train, validation_data=check, epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert np.isfinite(history["val_loss"]).all()
    assert train.class_names is None


def test_epochs_of_keras_go_on_from_a_token(numbered):
    whole = [b[0].tolist() for b in trainer_utils.iterate(numbered, **SETTINGS, repeat=2)]
    state = trainer_utils.keras_dataset(numbered, **SETTINGS).state(5)
    resumed = trainer_utils.keras_dataset(numbered, **SETTINGS, state=state)
    assert len(resumed) == 19
    assert [resumed[n][0].tolist() for n in range(19)] == whole[5:24]
    resumed.on_epoch_end()
    assert [resumed[n][0].tolist() for n in range(14)] == whole[24:]


@pytest.mark.parametrize("chosen", [{"repeat": 2}, {"batch_size": None}])
def test_what_fit_has_no_use_for_is_refused(numbered, chosen):
    with pytest.raises(ConfigError, match=next(iter(chosen))):
        trainer_utils.keras_dataset(numbered, **{**SETTINGS, **chosen})


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_other_backends_train_without_tensorflow(numbered, backend):
    pytest.importorskip(backend)
    code = """
        import sys
        import keras, trainer_utils
        data = trainer_utils.keras_dataset(sys.argv[1], features="image", label="weight")
        model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
        model.compile(optimizer="adam", loss="mse")
        model.fit(data, epochs=2, verbose=0)
        print("tensorflow" in sys.modules)
    """
    finished = run_python(textwrap.dedent(code), numbered, KERAS_BACKEND=backend)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip() == "False"
