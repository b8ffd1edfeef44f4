"""`keras_dataset` in `model.fit` of Keras 3, on the installed backend."""

import importlib.util
import os
import textwrap
import warnings

import numpy as np
import pytest

import trainer_utils
from tests.make import run_python
from trainer_utils import ConfigError

if importlib.util.find_spec("tensorflow") is None:
    os.environ.setdefault("KERAS_BACKEND", "jax")
keras = pytest.importorskip("keras", minversion="3")

SETTINGS = {"batch_size": 8, "seed": 3, "features": "id", "label": "weight"}


class Recorder(keras.Model):
    """A model that keeps the ids of each batch that it is trained or tested on."""

    def __init__(self):
        super().__init__()
        self.trained, self.tested = [], []
        self.dense = keras.layers.Dense(1)

    def call(self, ids):
        return self.dense(keras.ops.cast(ids, "float32")[:, None])

    def train_step(self, *arguments):
        self._note(self.trained, arguments[-1][0])
        return super().train_step(*arguments)

    def test_step(self, *arguments):
        self._note(self.tested, arguments[-1][0])
        return super().test_step(*arguments)

    def _note(self, ids, batch):
        if keras.backend.backend() != "jax":
            ids.append(np.asarray(batch).tolist())
            return
        import jax

        jax.debug.callback(lambda own: ids.append(np.asarray(own).tolist()), batch, ordered=True)


def recorder():
    model = Recorder()
    model.compile(optimizer="sgd", loss="mse", run_eagerly=keras.backend.backend() != "jax")
    return model


def trained_by(dataset, *, model=None, **settings):
    """Return the ids of each batch that `fit` trains on."""
    model = recorder() if model is None else model
    with warnings.catch_warnings():  # of a last epoch with fewer steps than steps_per_epoch
        warnings.filterwarnings("ignore", "Your input ran out of data")
        model.fit(dataset, verbose=0, shuffle=False, **settings)
    if keras.backend.backend() == "jax":
        import jax

        jax.effects_barrier()
    return model.trained


def ids_of(numbered, split="train", **settings):
    return [b[0].tolist() for b in trainer_utils.iterate(numbered, split, **SETTINGS, **settings)]


@pytest.mark.parametrize("records", [150, 24, 16, 12, 8])
def test_fit_trains_each_epoch_in_its_order(numbered, records):
    split = f"train[:{records}]"
    dataset = trainer_utils.keras_dataset(numbered, split, **SETTINGS)
    assert trained_by(dataset, epochs=3) == ids_of(numbered, split, repeat=3)


@pytest.mark.parametrize("records", [40, 8])
def test_each_fit_resumes_where_the_last_one_ended(numbered, records):
    split = f"train[:{records}]"
    dataset, model = trainer_utils.keras_dataset(numbered, split, **SETTINGS), recorder()
    for _ in range(3):
        trained_by(dataset, model=model, epochs=1)
    assert model.trained == ids_of(numbered, split, repeat=3)


@pytest.mark.parametrize("records", [80, 24, 16, 8])
@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_short_epochs_of_keras_share_a_pass(numbered, records, steps):
    split, passes = f"train[:{records}]", 3
    dataset = trainer_utils.keras_dataset(numbered, split, **SETTINGS)
    epochs = passes * -(-len(dataset) // steps)  # the last of a pass may have fewer steps
    found = trained_by(dataset, epochs=epochs, steps_per_epoch=steps)
    assert found == ids_of(numbered, split, repeat=passes)


@pytest.mark.parametrize("records", [40, 16, 8])
def test_a_token_of_an_unfinished_pass_resumes_after_it(numbered, records):
    split, whole = f"train[:{records}]", ids_of(numbered, f"train[:{records}]", repeat=4)
    dataset = trainer_utils.keras_dataset(numbered, split, **SETTINGS)
    steps = max(len(dataset) - 1, 1)
    assert trained_by(dataset, epochs=1, steps_per_epoch=steps) == whole[:steps]
    state = dataset.state(steps)
    resumed = trainer_utils.keras_dataset(numbered, split, **SETTINGS, state=state)
    expected = whole[steps : steps + 2 * len(dataset)]
    assert trained_by(resumed, epochs=2) == expected


def test_unfinished_validation_takes_the_same_records(numbered):
    train = trainer_utils.keras_dataset(numbered, "train[:24]", **SETTINGS)
    check = trainer_utils.keras_dataset(numbered, "train[100:]", **SETTINGS)
    model = recorder()
    trained_by(train, model=model, epochs=3, validation_data=check, validation_steps=2)
    assert model.trained == ids_of(numbered, "train[:24]", repeat=3)
    assert model.tested == ids_of(numbered, "train[100:]")[:2] * 3


def test_a_stopped_epoch_begins_again(numbered):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = batch == 1

    dataset = trainer_utils.keras_dataset(numbered, "train[:40]", **SETTINGS)
    whole = ids_of(numbered, "train[:40]", repeat=2)
    assert trained_by(dataset, epochs=1, callbacks=[Stop()]) == whole[:2]
    assert trained_by(dataset, epochs=2) == whole


def test_a_loop_without_keras_reads_one_epoch_after_another(numbered):
    dataset = trainer_utils.keras_dataset(numbered, "train[:8]", **SETTINGS)
    dataset[0]
    found = [batch[0].tolist() for _ in range(3) for batch in dataset]
    assert found == ids_of(numbered, "train[:8]", repeat=3)


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


def test_epochs_of_keras_resume_from_a_token(numbered):
    whole = [b[0].tolist() for b in trainer_utils.iterate(numbered, **SETTINGS, repeat=2)]
    state = trainer_utils.keras_dataset(numbered, **SETTINGS).state(5)
    resumed = trainer_utils.keras_dataset(numbered, **SETTINGS, state=state)
    assert len(resumed) == 19
    assert [resumed[n][0].tolist() for n in range(19)] == whole[5:24]
    resumed.on_epoch_end()
    assert [resumed[n][0].tolist() for n in range(14)] == whole[24:]


@pytest.mark.parametrize("chosen", [{"repeat": 2}, {"batch_size": None}])
def test_settings_that_fit_does_not_use_are_refused(numbered, chosen):
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
