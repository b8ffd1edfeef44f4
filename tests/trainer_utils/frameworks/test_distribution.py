"""`distribute` under real strategies, in separate processes.

TensorFlow fixes its devices and its cluster at its start. So this file is also the program that
those processes run: `python test_distribution.py REPORT mirrored URI` writes its results as JSON.
"""

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import trainer_utils
from tests.autograph import leave_tf_keras_unconverted
from tests.trainer_utils.processes import (
    cluster_environments,
    run_all,
)

EPOCHS = 2
TRAIN: dict[str, Any] = {"features": "image", "label": "label"}


# --- The programs ---


def mirrored(uri: str) -> dict[str, Any]:
    """Read and train on two replicas in one process."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    read: dict[str, Any] = {"batch_size": 8, "features": "id"}
    distributed = trainer_utils.distribute(strategy, uri, "train", **read)
    with pytest.raises(trainer_utils.ConfigError) as unbalanced:
        trainer_utils.distribute(strategy, uri, "train[:23]", batch_size=2, remainder="balance")
    return {
        "replicas": strategy.num_replicas_in_sync,
        "cardinality": int(distributed.cardinality),
        "epochs": [steps_of(strategy, distributed) for _ in range(EPOCHS)],
        "one left over": steps_of(
            strategy, trainer_utils.distribute(strategy, uri, "train[:17]", **read)
        ),
        "unbalanced": unbalanced.value.setting,
        "fit distributed": fit(
            strategy, trainer_utils.distribute(strategy, uri, "train", batch_size=8, **TRAIN)
        ),
        "fit plain": fit(strategy, trainer_utils.input_fn(uri, "train", batch_size=8, **TRAIN)),
    }


def worker(uri: str) -> dict[str, Any]:
    """Read and train as one of the workers in TF_CONFIG."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    read: dict[str, Any] = {"batch_size": 8, "features": "id"}
    distributed = trainer_utils.distribute(strategy, uri, "train", **read)
    steps = int(distributed.cardinality)
    endless = trainer_utils.distribute(strategy, uri, "train", batch_size=8, repeat=True, **TRAIN)
    with pytest.raises(trainer_utils.ConfigError) as refusal:
        trainer_utils.distribute(strategy, uri, "train", batch_size=7)
    plain = trainer_utils.input_fn(uri, "train", **read)
    return {
        "replicas": strategy.num_replicas_in_sync,
        "cardinality": steps,
        "epochs": [steps_of(strategy, distributed) for _ in range(EPOCHS)],
        "plain": steps_of(strategy, strategy.experimental_distribute_dataset(plain)),
        "mean": weighted_mean(
            strategy, trainer_utils.distribute(strategy, uri, "train", **read, remainder="pad")
        ),
        "refusal": refusal.value.setting,
        # tf-keras, the Keras that supports this strategy, needs the steps of distributed datasets.
        "fit": fit(strategy, endless, steps_per_epoch=steps),
    }


def steps_of(strategy: tf.distribute.Strategy, dataset: Any) -> list[list[list[int]]]:
    """Return the ids of one epoch: for each step, and each replica in this process."""
    return [
        [
            tf.nest.map_structure(lambda t: t.numpy().tolist(), part)
            for part in strategy.experimental_local_results(batch)
        ]
        for batch in dataset
    ]


def weighted_mean(strategy: tf.distribute.Strategy, padded: Any) -> float:
    """Compute a metric over all workers, in a custom loop."""

    @tf.function
    def sums(ids: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return tf.stack([tf.reduce_sum(tf.cast(ids, tf.float32) * weights), tf.reduce_sum(weights)])

    total = tf.zeros(2)
    for ids, weights in padded:
        parts = strategy.run(sums, (ids, weights))
        total += strategy.reduce(tf.distribute.ReduceOp.SUM, parts, axis=None)
    return float(total[0] / total[1])


def fit(strategy: tf.distribute.Strategy, dataset: Any, **options: Any) -> dict[str, Any]:
    """Train a small model; return the steps of each epoch, and the losses."""
    with strategy.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.Input((40, 48, 3)),
                tf.keras.layers.Rescaling(1 / 255),
                tf.keras.layers.GlobalAveragePooling2D(),
                tf.keras.layers.Dense(3),
            ]
        )
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer="sgd", loss=loss)
    steps: list[int] = []
    count = tf.keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: steps.append(0),
        on_train_batch_end=lambda batch, logs: steps.append(steps.pop() + 1),
    )
    history = model.fit(dataset, epochs=EPOCHS, verbose=0, callbacks=[count], **options)
    return {"keras": model.__module__, "steps": steps, "losses": history.history["loss"]}


# --- Running them ---


def flat(steps: list[list[list[int]]]) -> list[int]:
    return [number for step in steps for replica in step for number in replica]


def check_fit(fitted: Mapping[str, Any], *, keras: str, steps: int) -> None:
    assert fitted["keras"].split(".")[0] == keras
    assert fitted["steps"] == [steps] * EPOCHS
    assert len(fitted["losses"]) == EPOCHS
    assert all(math.isfinite(loss) and loss > 0 for loss in fitted["losses"])


# --- One worker ---


def test_replicas_get_every_record_once_and_train(datum_photos, tmp_path):
    (report,) = run_all(__file__, tmp_path, [{}], "mirrored", datum_photos)
    assert (report["replicas"], report["cardinality"]) == (2, 3)
    epochs = [flat(steps) for steps in report["epochs"]]
    assert [sorted(epoch) for epoch in epochs] == [list(range(23))] * EPOCHS
    assert epochs[0] != epochs[1]
    for steps in report["epochs"]:
        assert [[len(replica) for replica in step] for step in steps] == [[4, 4], [4, 4], [4, 3]]
    steps = report["one left over"]
    assert len(flat(steps)) == len(set(flat(steps))) == 17
    assert [sum(map(len, step)) for step in steps] == [8, 8, 1]
    assert report["unbalanced"] == "remainder"
    for way in ("fit distributed", "fit plain"):
        check_fit(report[way], keras="keras", steps=3)


@pytest.mark.parametrize(
    "make", [tf.distribute.get_strategy, lambda: tf.distribute.OneDeviceStrategy("CPU:0")]
)
def test_without_replicas_the_dataset_equals_input_fns(datum_photos, make):
    options: dict[str, Any] = {"batch_size": 8, "features": "id", "seed": 5}
    distributed = trainer_utils.distribute(make(), datum_photos, "train[3:]+val", **options)
    plain = trainer_utils.input_fn(datum_photos, "train[3:]+val", **options)
    assert [b.numpy().tolist() for b in distributed] == [b.numpy().tolist() for b in plain]


# --- Two workers ---


@pytest.mark.slow
def test_workers_share_the_batches_and_train_like_one(datum_photos, tmp_path):
    environments = [{**one, "TF_USE_LEGACY_KERAS": "1"} for one in cluster_environments(2)]
    reports = run_all(__file__, tmp_path, environments, "worker", datum_photos)
    for report in reports:
        assert (report["replicas"], report["cardinality"]) == (2, 3)
        assert report["refusal"] == "batch_size"
        check_fit(report["fit"], keras="tf_keras", steps=3)
    losses = [report["fit"]["losses"] for report in reports]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for epoch in range(EPOCHS):
        sizes = [[flat([step]) for step in report["epochs"][epoch]] for report in reports]
        assert [[len(step) for step in steps] for steps in sizes] == [[4, 4, 3], [4, 4, 4]]
    shares = [[flat(steps) for steps in report["epochs"]] for report in reports]
    assert all(first != second for first, second in shares)
    for first, second in zip(*shares, strict=True):
        assert sorted([*first, *second]) == list(range(23))
    assert sorted(number for report in reports for number in flat(report["plain"])) == [*range(23)]
    assert [report["mean"] for report in reports] == [11.0, 11.0]  # of 0 to 22


if __name__ == "__main__":
    _, report_path, program_name, uri_argument = sys.argv
    leave_tf_keras_unconverted()
    seen = {"mirrored": mirrored, "worker": worker}[program_name](uri_argument)
    Path(report_path).write_text(json.dumps(seen))
