"""Resuming after a crash, with Keras's BackupAndRestore and with tf.train.Checkpoint."""

import contextlib
import itertools

import pytest
import tensorflow as tf

import trainer_utils
from pipelines.tools.ledger import RunLedger
from trainer_utils.format import Feature

FEATURES = {"id": Feature(type="int"), "x": Feature(type="float", shape=(1,))}
EPOCHS, STEPS = 3, 23


class Crash(Exception):
    pass


@pytest.fixture
def uri(tmp_path, write_dataset) -> str:
    shards = [[{"id": [n], "x": [float(n)]} for n in range(start, start + 23)] for start in (0, 23)]
    return write_dataset(tmp_path / "data", {"train": shards}, FEATURES)


def fit(uri: str, backup: str, *, save_freq: str | int, crash_after: int | None) -> list[list[int]]:
    """Train; return the ids of the batches that the model got, up to the crash."""
    seen: list[list[int]] = []

    def note(features: dict, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        def add(ids):
            seen.append(sorted(int(n) for n in ids))
            return ids

        ids = tf.numpy_function(add, [features["id"]], tf.int64)
        with tf.control_dependencies([ids]):
            return tf.identity(features["x"]), label

    state = trainer_utils.load_state(backup)
    train = trainer_utils.input_fn(
        uri, batch_size=2, features=["id", "x"], label="x", state=state, prefetch=0,
        repeat=False if save_freq == "epoch" else EPOCHS,
    )  # fmt: skip
    options = {} if save_freq == "epoch" else {"steps_per_epoch": STEPS}
    model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    steps = itertools.count(1)

    def crash(batch: int, logs: object) -> None:
        if next(steps) == crash_after:
            raise Crash

    callbacks = [
        tf.keras.callbacks.BackupAndRestore(backup, save_freq=save_freq),
        trainer_utils.InputBackup(train, backup, save_freq=save_freq),
        tf.keras.callbacks.LambdaCallback(on_train_batch_end=crash),
    ]
    with contextlib.suppress(Crash):
        model.fit(train.map(note), epochs=EPOCHS, callbacks=callbacks, verbose=0, **options)
    return seen


@pytest.mark.parametrize(
    ("save_freq", "crash_after", "saved_after"), [("epoch", 30, 23), (5, 32, 30)]
)
def test_keras_resumes_after_the_last_saved_batch(
    uri, tmp_path, save_freq, crash_after, saved_after
):
    whole = fit(uri, str(tmp_path / "whole"), save_freq="epoch", crash_after=None)
    assert len(whole) == EPOCHS * STEPS
    backup = str(tmp_path / "backup")
    first = fit(uri, backup, save_freq=save_freq, crash_after=crash_after)
    assert first[:crash_after] == whole[:crash_after]
    assert told_by_ledger(backup) == whole[:saved_after]
    rest = fit(uri, backup, save_freq=save_freq, crash_after=None)
    assert rest == whole[saved_after:]
    assert told_by_ledger(backup) == whole


def told_by_ledger(folder: str) -> list[list[int]]:
    """Return the records of each step; their numbers are their ids."""
    run = RunLedger(folder)
    steps = map(run.at_step, range(run.summary().steps))
    return [sorted(row.record.number for row in step.rows) for step in steps]


def test_invalid_states_are_refused(tmp_path):
    (tmp_path / "input_state.json").write_text("{")
    with pytest.raises(trainer_utils.ConfigError, match=r"^state: expected a token"):
        trainer_utils.load_state(str(tmp_path))


def test_a_checkpoint_of_a_training_loop_has_the_position(uri, tmp_path):
    options = {"features": "id", "batch_size": 4, "repeat": 3, "seed": 6}
    whole = [b.tolist() for b in trainer_utils.input_fn(uri, **options).as_numpy_iterator()]

    def run(stop: int | None) -> list[list[int]]:
        progress = trainer_utils.InputProgress()
        checkpoint = tf.train.Checkpoint(input=progress)
        if (latest := tf.train.latest_checkpoint(str(tmp_path))) is not None:
            checkpoint.restore(latest).assert_consumed()
        train = trainer_utils.input_fn(uri, state=progress.state, **options)
        seen = []
        for batch in itertools.islice(progress.follow(train), stop):
            seen.append(batch.numpy().tolist())
        checkpoint.save(str(tmp_path / "checkpoint"))
        return seen

    assert run(17) + run(3) + run(None) == whole


def test_an_epoch_that_keras_would_shorten_is_refused(uri, tmp_path):
    train = trainer_utils.input_fn(uri, batch_size=2, features="x", label="x", state=3)
    model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    backup = trainer_utils.InputBackup(train, str(tmp_path))
    with pytest.raises(trainer_utils.ConfigError, match=r"^steps_per_epoch: expected 23"):
        model.fit(train, callbacks=[backup], verbose=0)
