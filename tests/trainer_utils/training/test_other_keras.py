"""Resuming under the other Keras (Keras 3, tf-keras) is refused, as is each restore of nothing."""

import contextlib
import itertools
import json
import re
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

import trainer_utils
from trainer_utils import ConfigError, InputState, input_fn
from trainer_utils.format import Feature


@pytest.fixture
def uri(tmp_path, write_dataset) -> str:
    rows = [{"x": [float(n), 1.0], "label": [n % 2]} for n in range(8)]
    features = {"x": Feature(type="float", shape=(2,)), "label": Feature(type="int")}
    return write_dataset(tmp_path / "set", {"train": [rows]}, features)


def _fit_model(package: Any, uri: str, folder: str, epochs: int) -> Any:
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
    _fit_model(first, uri, folder, 1)
    with pytest.raises(ConfigError, match=f"not {first.__name__} in .*backup"):
        _fit_model(second, uri, folder, 2)
    assert _fit_model(first, uri, folder, 2).epoch == [0, 1]


class Crash(Exception):
    pass


def _resume_with_backup(package: Any, uri: str, folder: str, **settings: Any) -> Any:
    """Train with Keras's own BackupAndRestore, up to the step `crash_after`, from 1."""
    model = package.Sequential([package.Input((2,)), package.layers.Dense(2)])
    loss = package.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, steps_per_execution=settings.get("steps_per_execution", 1))
    save_freq, crash_after = settings.get("save_freq", 2), settings.get("crash_after")
    state = settings.get("state", trainer_utils.load_state(folder))
    train = input_fn(uri, batch_size=2, features="x", label="label", repeat=4, state=state)
    steps = itertools.count(1)

    def crash(batch: int, logs: object) -> None:
        if next(steps) == crash_after:
            raise Crash

    callbacks = [
        package.callbacks.BackupAndRestore(settings.get("keras", folder), save_freq=save_freq),
        trainer_utils.InputBackup(train, folder, save_freq=save_freq),
        package.callbacks.LambdaCallback(on_train_batch_end=crash),
    ]
    if settings.get("is_first"):
        callbacks[:2] = callbacks[1::-1]
    with contextlib.suppress(Crash):
        model.fit(train, epochs=4, steps_per_epoch=4, callbacks=callbacks, verbose=0)
    return int(model.optimizer.iterations.numpy())


PACKAGES = pytest.mark.parametrize("order", [0, 1], ids=["keras", "tf_keras"])


@PACKAGES
def test_input_backup_refuses_weights_that_restarted(uri, tmp_path, order):
    tf_keras = pytest.importorskip("tf_keras")
    first, second = (keras, tf_keras)[:: -1 if order else 1]
    folder = str(tmp_path / "backup")
    assert _resume_with_backup(first, uri, folder, crash_after=7) == 7
    with pytest.raises(ConfigError, match=rf"step 6.*{first.__name__}"):
        _resume_with_backup(second, uri, folder)
    assert _resume_with_backup(first, uri, folder) == 16


@PACKAGES
@pytest.mark.parametrize(
    "settings", [{"keras": "elsewhere"}, {"is_first": True}, {"state": None}], ids=repr
)
def test_input_and_weights_resume_at_one_step(uri, tmp_path, monkeypatch, order, settings):
    monkeypatch.chdir(tmp_path)
    package = pytest.importorskip(("keras", "tf_keras")[order])
    folder = str(tmp_path / "backup")
    assert _resume_with_backup(package, uri, folder, crash_after=7) == 7
    with pytest.raises(ConfigError, match="step 6"):
        _resume_with_backup(package, uri, folder, **settings)
    assert _resume_with_backup(package, uri, folder) == 16


@PACKAGES
@pytest.mark.parametrize(("at_once", "last"), [(2, 6), (3, 6)])
def test_several_steps_in_an_execution_are_all_counted(uri, tmp_path, order, at_once, last):
    package = pytest.importorskip(("keras", "tf_keras")[order])
    folder, settings = str(tmp_path / "backup"), {"steps_per_execution": at_once, "save_freq": 1}
    _resume_with_backup(package, uri, folder, crash_after=last // at_once + 1, **settings)
    state = trainer_utils.load_state(folder)
    updates = json.loads(Path(folder, "input_state.json").read_text())["model"]["updates"]
    assert 4 * state.epoch + state.step == updates >= last
    if package is keras:  # tf-keras itself resumes one step off within an execution
        assert _resume_with_backup(package, uri, folder, **settings) == 16


@PACKAGES
def test_a_kill_between_the_two_saves_is_cured_by_the_message(uri, tmp_path, order):
    package = pytest.importorskip(("keras", "tf_keras")[order])
    folder = tmp_path / "backup"
    assert _resume_with_backup(package, uri, str(folder), crash_after=5) == 5
    state = (folder / "input_state.json").read_text()
    assert _resume_with_backup(package, uri, str(folder), crash_after=3) == 7
    (folder / "input_state.json").write_text(state)  # of step 4; the model is at step 6
    with pytest.raises(ConfigError) as raised:
        _resume_with_backup(package, uri, str(folder))
    token = re.search(r"Pass state='(.*)'\.", str(raised.value)).group(1)
    assert InputState.from_json(token).step == 2
    assert _resume_with_backup(package, uri, str(folder), state=token) == 16


def _loop(package: Any, uri: str, folder: str, make_model: Any, steps: int) -> Any:
    """Train without `fit` from the newest checkpoint, and save; return the model."""
    model, progress = make_model(package), trainer_utils.InputProgress()
    checkpoint = tf.train.Checkpoint(model=model, input=progress)
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
    checkpoint.restore(manager.latest_checkpoint)
    train = input_fn(uri, batch_size=2, features="x", repeat=4, state=progress.state)
    for batch in itertools.islice(progress.follow(train), steps):
        for variable in (model(batch), *model.trainable_variables)[1:]:
            variable.assign(variable + 1)
    manager.save()
    return model


def _sequential(package: Any) -> Any:
    return package.Sequential([package.Input((2,)), package.layers.Dense(2)])


def _unbuilt(package: Any) -> Any:
    return package.Sequential([package.layers.Dense(2)])


def _subclass(package: Any) -> Any:
    class Model(package.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = package.layers.Dense(2)  # only its bias has the same name in both

        def call(self, x: Any) -> Any:
            return self.dense(x)

    return Model()


def _built_subclass(package: Any) -> Any:
    model = _subclass(package)
    model(tf.zeros((1, 2)))
    return model


@PACKAGES
@pytest.mark.parametrize("make_model", [_sequential, _unbuilt, _built_subclass])
def test_input_progress_refuses_weights_that_restarted(uri, tmp_path, order, make_model):
    tf_keras = pytest.importorskip("tf_keras")
    first, second = (keras, tf_keras)[:: -1 if order else 1]
    folder = str(tmp_path / "checkpoints")
    _loop(first, uri, folder, make_model, 3)
    with pytest.raises(ConfigError, match=r"trainable variables.*TF_USE_LEGACY_KERAS"):
        _loop(second, uri, folder, make_model, 3)
    model = _loop(first, uri, folder, make_model, 3)
    assert model.trainable_variables[1].numpy().tolist() == [6, 6]


def test_input_progress_alone_resumes_with_another_model(uri, tmp_path):
    folder = str(tmp_path / "checkpoints")
    _loop(keras, uri, folder, _sequential, 3)
    progress = trainer_utils.InputProgress()
    latest = tf.train.latest_checkpoint(folder)
    tf.train.Checkpoint(input=progress).restore(latest).expect_partial()
    train = input_fn(uri, batch_size=2, features="x", repeat=4, state=progress.state)
    checkpoint = tf.train.Checkpoint(model=_subclass(keras), input=progress)
    assert len(list(progress.follow(train))) == 13
    checkpoint.save(str(tmp_path / "other"))


def test_a_model_built_after_the_restore_is_refused(uri, tmp_path):
    folder = str(tmp_path / "checkpoints")
    _loop(keras, uri, folder, _subclass, 3)
    with pytest.raises(ConfigError, match="call it on a batch before"):
        _loop(keras, uri, folder, _subclass, 3)
    assert len(_loop(keras, uri, folder, _built_subclass, 3).trainable_variables) == 2
