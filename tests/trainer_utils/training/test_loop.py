"""`fit` against Keras's own, in separate processes.

TensorFlow fixes cluster and Keras at its start. This file is also the program that they run.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import trainer_utils
from pipelines.tools.ledger import RunLedger
from tests.autograph import leave_tf_keras_unconverted
from tests.trainer_utils.processes import (
    cluster_environments,
    run_all,
    run_until_killed,
)
from trainer_utils.format import Feature
from trainer_utils.training.model_steps import ModelSteps

EPOCHS = 3
FEATURES = {
    "x": Feature(type="float", shape=(5,)),
    "label": Feature(type="int"),
    "weight": Feature(type="float"),
}
KERAS = {"keras": {}, "tf_keras": {"TF_USE_LEGACY_KERAS": "1"}}


def rows(start: int, stop: int) -> list[dict[str, list[Any]]]:
    values = np.random.default_rng(start).normal(size=(stop - start, 5)).astype("float32")
    return [
        {"x": row.tolist(), "label": [n % 3], "weight": [0.5 + n % 2]}
        for n, row in enumerate(values)
    ]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory, write_dataset) -> str:
    """Write 53 examples to train and 21 to evaluate."""
    splits = {"train": [rows(0, 30), rows(30, 53)], "eval": [rows(100, 121)]}
    return write_dataset(tmp_path_factory.mktemp("vectors"), splits, FEATURES)


# --- The programs ---


def make_model(strategy: tf.distribute.Strategy, *, is_built: bool = True, **settings: Any) -> Any:
    """Make a small model with weighted and plain metrics, and a moving average on one worker."""
    keras = tf.keras
    keras.utils.set_random_seed(3)
    with strategy.scope():
        # Its moments come from the rows of one replica, and differ from a whole batch's.
        norm = [] if "NO_NORM" in os.environ else [keras.layers.BatchNormalization()]
        layers = [keras.layers.Dense(8, activation="relu"), *norm, keras.layers.Dense(3)]
        if "dropout" in settings:
            layers.insert(1, keras.layers.Dropout(settings.pop("dropout"), seed=4))
        model = keras.Sequential([keras.Input((5,)), *layers] if is_built else layers)
        model.compile(
            optimizer=keras.optimizers.Adam(0.05),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            weighted_metrics=[keras.metrics.SparseCategoricalAccuracy(name="weighted")],
            **settings,
        )
    return model


READ: dict[str, Any] = {"features": "x", "label": "label", "batch_size": 8, "seed": 5}


def compare(uri: str) -> dict[str, Any]:
    """Compare Keras's own fit and ours on one worker, for each way to read and compile."""
    is_tf_keras = tf.keras.Model.__module__.startswith("tf_keras")
    default = tf.distribute.get_strategy()
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    mirrored = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    cases: dict[str, tuple[Any, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
        "plain": (default, {}, {}, {}),
        "weights, dropout, unbuilt": (
            default,
            {"labels": {"sample_weight": "weight"}},
            # tf-keras draws other masks each time that it traces a step.
            {"dropout": 0.0 if is_tf_keras else 0.3, "is_built": False},
            {},
        ),
        "compiled": (default, {"remainder": "drop"}, {"jit_compile": True}, {}),
        "eager, by steps": (
            default,
            {"repeat": True},
            {"run_eagerly": True},
            {"steps_per_epoch": 4, "validation_steps": 2},
        ),
        "mirrored": (mirrored, {}, {}, {}),
    }
    found = {}
    for name, (strategy, read, make, fit) in cases.items():
        histories = []
        for is_ours in (False, True):
            train = trainer_utils.input_fn(uri, "train", **READ, **read)
            check = trainer_utils.input_fn(
                uri, "eval", **{**READ, **read, "repeat": False}, shuffle=False
            )
            model = make_model(strategy, **make)
            seen: list[Any] = []
            callback = tf.keras.callbacks.LambdaCallback(
                on_train_batch_end=lambda batch, logs, seen=seen: seen.append(
                    (batch, float(logs["loss"]))
                ),
                on_epoch_end=lambda epoch, logs, seen=seen: seen.append((epoch, sorted(logs))),
            )
            given = {"epochs": EPOCHS, "callbacks": [callback], "verbose": 0, **fit}
            if is_ours:
                history = trainer_utils.fit(model, strategy, train, check, **given)
            else:
                history = model.fit(train, validation_data=check, **given)
            weights = [w.tolist() for w in model.get_weights()]
            histories.append([history.history, seen, weights])
        found[name] = histories
        if len(found) == 1:
            leave_tf_keras_unconverted()  # the first case shows that both convert it alike
    found["keras"] = type(model).__module__.split(".")[0]
    return found


def train_here(uri: str, folder: str, kill_at: str = "") -> dict[str, Any]:
    """Train with a backup, as one worker or as in TF_CONFIG; kill itself at a step if asked to."""
    is_cluster = "TF_CONFIG" in os.environ
    strategy = (
        tf.distribute.MultiWorkerMirroredStrategy() if is_cluster else tf.distribute.get_strategy()
    )
    taken = 0

    def count(batch: int, logs: Any) -> None:
        nonlocal taken
        taken += 1
        if kill_at and taken == int(kill_at):
            os.kill(os.getpid(), signal.SIGKILL)

    read = {**READ, "remainder": "pad"}
    train = trainer_utils.distribute(strategy, uri, "train", **read)
    check = trainer_utils.distribute(strategy, uri, "eval", **read, shuffle=False)
    model = make_model(strategy, is_built=False)
    history = trainer_utils.fit(
        model,
        strategy,
        train,
        check,
        epochs=EPOCHS,
        callbacks=[tf.keras.callbacks.LambdaCallback(on_train_batch_end=count)],
        backup_dir=folder,
        backup_every=2,
        verbose=0,
    )
    evaluated = trainer_utils.evaluate(model, strategy, check)
    weights = [w.tolist() for w in model.get_weights()]
    return {
        "history": history.history,
        "epochs": history.epoch,
        "evaluated": evaluated,
        "weights": weights,
        "steps": taken,
    }


def assert_ledger_is_exact(uri: str, folder: Path) -> None:
    """Assert that each step's records equal those read by a separate input."""
    values = [row["x"] for row in (*rows(0, 30), *rows(30, 53))]
    run = RunLedger(str(folder))
    read = trainer_utils.input_fn(uri, "train", repeat=EPOCHS, **READ)
    steps = [x.tolist() for x, _ in read.as_numpy_iterator()]
    assert run.summary().steps == len(steps)
    for step, expected in enumerate(steps):
        seen = [values[row.record.number] for row in run.at_step(step).rows]
        np.testing.assert_allclose(sorted(seen), sorted(expected), rtol=1e-6)


# --- One worker ---


@pytest.mark.slow
@pytest.mark.parametrize("keras", sorted(KERAS))
def test_losses_logs_and_weights_equal_those_from_model_fit(vectors, tmp_path, keras):
    (report,) = run_all(__file__, tmp_path, [KERAS[keras]], "compare", vectors)
    assert report.pop("keras") == ("keras" if keras == "keras" else "tf_keras")
    assert len(report) == 5
    for case, (theirs, ours) in report.items():
        assert ours == theirs, case
        losses = ours[0]["loss"]
        assert len(losses) == EPOCHS
        assert losses[-1] < losses[0]


@pytest.mark.slow
def test_a_run_killed_twice_ends_with_the_same_losses(vectors, tmp_path):
    """Kill it at steps 8 and 20; every second step of each run and every epoch of 7 are saved."""
    whole = ("train", vectors, str(tmp_path / "undisturbed"))
    (undisturbed,) = run_all(__file__, tmp_path, [{}], *whole)
    assert undisturbed["steps"] == 7 * EPOCHS
    given = ("train", vectors, str(tmp_path / "backup"))
    for killed, saved in ((8, 0), (20, 7)):
        run_all(__file__, tmp_path, [{}], *given, str(killed - saved), expected=-signal.SIGKILL)
    (report,) = run_all(__file__, tmp_path, [{}], *given)
    assert report["steps"] == 7 * EPOCHS - 19  # the second run began after step 7
    assert {**report, "steps": 0} == {**undisturbed, "steps": 0}
    assert_ledger_is_exact(vectors, tmp_path / "backup")


# --- Two workers ---


@pytest.mark.slow
@pytest.mark.parametrize(("keras", "then"), [("keras", 2), ("tf_keras", 1)])
def test_two_workers_have_the_losses_of_one_even_after_a_kill(vectors, tmp_path, keras, then):
    """Resume with two workers, or with one."""
    settings = {**KERAS[keras], "NO_NORM": "1"}
    alone, together = tmp_path / "alone", tmp_path / "together"
    alone.mkdir(), together.mkdir()
    (one,) = run_all(__file__, alone, [settings], "train", vectors, str(alone / "backup"))
    given = ("train", vectors, str(together / "backup"))
    two = [{**settings, **env} for env in cluster_environments(2)]
    run_until_killed(__file__, together, two, *given, "9")
    rest = [{**settings, **env} for env in cluster_environments(2)] if then == 2 else [settings]
    for report in run_all(__file__, together, rest, *given):
        assert report["epochs"] == one["epochs"]
        assert report["evaluated"] == pytest.approx(one["evaluated"], rel=1e-4)
        for name, values in one["history"].items():
            assert report["history"][name] == pytest.approx(values, rel=1e-4), name
    assert_ledger_is_exact(vectors, together / "backup")
    segments = RunLedger(str(together / "backup")).summary().segments
    assert segments[-1].num_workers == then


if __name__ == "__main__":
    _, report_path, program, *arguments = sys.argv
    if program == "train":
        leave_tf_keras_unconverted()
    seen = {"compare": compare, "train": train_here}[program](*arguments)
    Path(report_path).write_text(json.dumps(seen))


@pytest.mark.parametrize("eager", [False, True])
def test_a_replica_with_only_padding_counts_nowhere(eager):
    keras = tf.keras
    layers = [keras.layers.Conv2D(n, 3, strides=2) for n in (16, 32)]
    pooled = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(2)]
    model = keras.Sequential([keras.Input((16, 16, 3)), *layers, *pooled])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], run_eagerly=eager)
    images, labels = np.random.default_rng(0).normal(size=(4, 16, 16, 3)), np.array([0, 1, 1, 0])
    expected = model.evaluate(images[:3], labels[:3], return_dict=True, verbose=0)
    batches = [(images, labels, np.array(mask, "f4")) for mask in ([0] * 4, [1, 1, 1, 0])]
    dataset = tf.data.Dataset.from_generator(
        lambda: iter(batches),
        output_signature=(
            tf.TensorSpec((4, 16, 16, 3)),
            tf.TensorSpec((4,), tf.int64),
            tf.TensorSpec((4,)),
        ),
    )
    steps = ModelSteps(model, tf.distribute.get_strategy())
    test = steps.make_test_function(dataset.element_spec, drops_padding=True)
    steps.reset()
    for batch in dataset:
        logs = test(batch)
    assert steps.results(logs) == pytest.approx(expected, rel=1e-5)
