"""`keras_dataset` in `model.fit` of Keras 3, on the installed backend."""

import importlib.util
import os
import textwrap
import threading
import warnings

import numpy as np
import pytest

import trainer_utils
from tests.make import run_python, write_rows
from trainer_utils import ConfigError
from trainer_utils.ledger.recorder import read_ledger
from trainer_utils.reading.batches import Batches

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
    """Return the ids of each batch that `fit`, with its own `shuffle`, trains on."""
    model = recorder() if model is None else model
    with warnings.catch_warnings():  # of a last epoch with fewer steps than steps_per_epoch
        warnings.filterwarnings("ignore", "Your input ran out of data")
        model.fit(dataset, verbose=0, **settings)
    wait_for_callbacks()
    return model.trained


def wait_for_callbacks():
    if keras.backend.backend() == "jax":
        import jax

        jax.effects_barrier()


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


def test_fit_makes_small_steps_together_as_iterate_does(tmp_path, monkeypatch):
    rows = ({"id": n, "weight": n / 8} for n in range(1000))
    uri = write_rows(tmp_path / "rows", rows)
    own = trainer_utils.iterate(uri, "train", **SETTINGS)
    assert own.steps_per_call > 10
    dataset, calls = trainer_utils.keras_dataset(uri, "train", **SETTINGS), []
    make = dataset._source.batches
    monkeypatch.setattr(
        dataset._source, "batches", lambda epoch, steps: calls.append(steps) or make(epoch, steps)
    )
    assert [batch[0].tolist() for batch in dataset] == [batch[0].tolist() for batch in own]
    assert {len(steps) for steps in calls} <= {own.steps_per_call, 125 % own.steps_per_call}


def test_batches_are_made_ahead_of_the_step_that_trains(numbered):
    dataset, calls = trainer_utils.keras_dataset(numbered, "train", **SETTINGS), []
    make, is_ahead = dataset._source.batches, threading.Event()

    def note(epoch, steps):
        calls.append((epoch, steps))
        if len(calls) > 1:
            is_ahead.set()
        return make(epoch, steps)

    dataset._source.batches = note
    dataset[0]
    assert is_ahead.wait(60), calls  # though the trainer has asked for step 0 only


@pytest.mark.parametrize("steps", [None, 2])
def test_no_thread_of_keras_makes_a_batch_of_fit(numbered, monkeypatch, steps):
    dataset = trainer_utils.keras_dataset(numbered, "train[:48]", **SETTINGS)
    validation = trainer_utils.keras_dataset(numbered, "train[48:72]", **SETTINGS)
    threads, read = [], Batches.batches

    def note(self, epoch, step_numbers):
        threads.append(threading.current_thread().name)
        return read(self, epoch, step_numbers)

    monkeypatch.setattr(Batches, "batches", note)
    monkeypatch.setattr(Batches, "batch", None)  # which makes one in the thread that asks
    model = recorder()
    model(np.zeros(8, np.int64))
    trained_by(dataset, model=model, epochs=2, steps_per_epoch=steps, validation_data=validation)
    assert len(model.tested) == 2 * 3
    assert {name.rpartition("_")[0] for name in threads} == {"tfx-shards-batches"}


class Interrupt(keras.callbacks.Callback):
    """Ends a run after an epoch, as a preempted machine does."""

    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch

    def on_epoch_end(self, epoch, logs=None):
        if epoch == self.epoch:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("records", "steps", "epochs"), [(24, None, 4), (8, None, 4), (8, 1, 4), (24, 1, 8), (40, 2, 8)]
)
def test_backup_and_restore_resumes_exactly(numbered, tmp_path, records, steps, epochs):
    split, backup = f"train[:{records}]", str(tmp_path / "backup")

    def run(*others):
        dataset, model = trainer_utils.keras_dataset(numbered, split, **SETTINGS), recorder()
        model(np.zeros(8, np.int64))  # BackupAndRestore expects a model that is built
        callbacks = [keras.callbacks.BackupAndRestore(backup), *others]
        settings = {"epochs": epochs, "steps_per_epoch": steps, "callbacks": callbacks}
        try:
            trained_by(dataset, model=model, **settings)
        except KeyboardInterrupt:
            wait_for_callbacks()
        return model.trained

    whole = ids_of(numbered, split, repeat=epochs)
    each = records // 8
    done = run(Interrupt(1))
    assert done == whole[: 2 * (steps or each)]
    resumed = run()
    total = epochs * each if steps is None else epochs // -(-each // steps) * each
    trained = total + (epochs % -(-each // (steps or each))) * (steps or each)
    assert done + resumed == whole[:trained]


class Crash(keras.callbacks.Callback):
    """Ends a run after a number of steps, as a killed process does."""

    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def on_train_batch_end(self, batch, logs=None):
        self.steps -= 1
        if not self.steps:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("save_freq", "steps", "crashes", "saved"),
    [
        ("epoch", None, (7,), (6,)),
        (2, None, (5, 4), (4, 8)),  # both crashes in one epoch
        (1, None, (7, 1), (7, 8)),
        (4, None, (11,), (8,)),
        (2, 2, (5,), (4,)),
    ],
)
def test_input_backup_resumes_exactly(numbered, tmp_path, save_freq, steps, crashes, saved):
    split, backup, epochs = "train[:24]", str(tmp_path / "backup"), 6
    total = epochs * 3 if steps is None else epochs // 2 * 3  # Keras's epochs: 2, 1, 2, 1, … steps
    whole = ids_of(numbered, split, repeat=epochs)[:total]

    def run(crash=None):
        state = trainer_utils.load_state(backup)
        dataset = trainer_utils.keras_dataset(numbered, split, **SETTINGS, state=state)
        model = recorder()
        model(np.zeros(8, np.int64))  # BackupAndRestore expects a model that is built
        callbacks = [
            keras.callbacks.BackupAndRestore(backup, save_freq=save_freq),
            trainer_utils.InputBackup(dataset, backup, save_freq=save_freq),
            *([Crash(crash)] if crash else []),
        ]
        settings = {"epochs": epochs, "steps_per_epoch": steps, "callbacks": callbacks}
        try:
            trained_by(dataset, model=model, **settings)
        except KeyboardInterrupt:
            wait_for_callbacks()
        return model.trained

    first = 0
    for crash, end in zip(crashes, saved, strict=True):
        assert run(crash) == whole[first : first + crash]
        state = trainer_utils.load_state(backup)
        assert 3 * state.epoch + state.step == read_ledger(backup).steps == end
        first = end
    assert run() == whole[first:]
    assert read_ledger(backup).steps == total


def test_input_backup_refuses_an_input_that_starts_over(numbered, tmp_path):
    backup = str(tmp_path / "backup")
    for crash, message in ((4, None), (None, "Pass state=trainer_utils.load_state")):
        dataset, model = trainer_utils.keras_dataset(numbered, **SETTINGS), recorder()
        model(np.zeros(8, np.int64))
        callbacks = [
            keras.callbacks.BackupAndRestore(backup, save_freq=2),
            trainer_utils.InputBackup(dataset, backup, save_freq=2),
            *([Crash(crash)] if crash else []),
        ]
        with pytest.raises(ConfigError if message else KeyboardInterrupt, match=message):
            trained_by(dataset, model=model, epochs=2, callbacks=callbacks)
        wait_for_callbacks()


def test_input_backup_imports_no_tensorflow(numbered, tmp_path):
    if keras.backend.backend() == "tensorflow":
        pytest.skip("Keras imports its backend")
    code = (
        "import sys, trainer_utils\n"
        "sys.modules['tensorflow'] = None\n"
        "trainer_utils.InputBackup(trainer_utils.keras_dataset(sys.argv[1], batch_size=8), 'x')\n"
    )
    done = run_python(code, numbered)
    assert done.returncode == 0, done.stderr


def test_fit_begins_at_its_initial_epoch_without_a_state(numbered):
    split = "train[:24]"
    whole = ids_of(numbered, split, repeat=6)
    dataset = trainer_utils.keras_dataset(numbered, split, **SETTINGS)
    assert trained_by(dataset, initial_epoch=2, epochs=4) == whole[6:12]
    assert trained_by(dataset, initial_epoch=4, epochs=5) == whole[12:15]
    own = trainer_utils.keras_dataset(numbered, split, **SETTINGS, state=dataset.state(3))
    assert trained_by(own, initial_epoch=3, epochs=4) == whole[3:6]


def test_stats_count_the_batches_of_fit(numbered):
    dataset = trainer_utils.keras_dataset(numbered, "train", **SETTINGS)
    trained = trained_by(dataset, epochs=2)
    stats = dataset.stats()
    assert stats.batches >= len(trained)
    assert stats.records >= 300
    assert stats.wait_for_data_seconds > 0 < stats.wait_for_trainer_seconds
