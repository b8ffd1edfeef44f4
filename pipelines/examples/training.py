"""Shared code of the trainer modules: the strategy, the training, the exported model, the metrics.

strategy = make_strategy()
train_classifier(fn_args, config, strategy, make_model=_model, features="image")
"""

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
from absl import logging

import trainer_utils
from trainer_utils.dataset import open_dataset

METRICS_FILE = "metrics.json"
_LOGICAL_DEVICES = 2


def make_strategy() -> tf.distribute.Strategy:
    """Return a `MirroredStrategy` over all GPUs, or over two logical CPU devices without a GPU."""
    gpus = tf.config.list_logical_devices("GPU") if tf.config.list_physical_devices("GPU") else []
    if gpus:
        return tf.distribute.MirroredStrategy()
    cpu = tf.config.list_physical_devices("CPU")[0]
    with contextlib.suppress(RuntimeError):  # TensorFlow has started: keep its devices
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * _LOGICAL_DEVICES
        )
    return tf.distribute.MirroredStrategy([d.name for d in tf.config.list_logical_devices("CPU")])


def train_classifier(
    fn_args: Any,
    config: Mapping[str, Any],
    strategy: tf.distribute.Strategy,
    *,
    make_model: Callable[[int], Any],
    **read: Any,
) -> Any:
    """Train and evaluate a Keras model that returns logits, and write `metrics.json`.

    Args:
        fn_args: TFX's FnArgs; its `train_steps` overrides epochs.
        config: `epochs`, `batch_size` (global), `learning_rate` and `seed`.
        strategy: the distribution strategy to train with.
        make_model: returns a model for a number of classes.
        read: further settings of `input_fn`.

    Returns:
        The trained model.
    """
    uri = fn_args.train_files[0]
    num_classes = int(open_dataset(uri).features["label"].extra["num_classes"])
    tf.keras.utils.set_random_seed(config["seed"])
    read |= {"label": "label", "batch_size": config["batch_size"], "seed": config["seed"]}
    # A plain dataset: Keras splits each batch among the replicas itself, and counts the steps.
    steps = fn_args.train_steps
    train = trainer_utils.input_fn(uri, "train", repeat=bool(steps), **read)
    # Padded to full batches: Keras 3 fails if replicas get unequal parts of the first batch.
    evaluation = trainer_utils.distribute(
        strategy, fn_args.eval_files[0], "eval", shuffle=False, remainder="pad", **read
    )
    with strategy.scope():
        model = make_model(num_classes)
        model.compile(
            optimizer=tf.keras.optimizers.Adam(config["learning_rate"]),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    model.fit(train, epochs=1 if steps else config["epochs"], steps_per_epoch=steps, verbose=2)
    measured = trainer_utils.evaluate(model, strategy, evaluation)
    logging.info("evaluation: %s", measured)
    metrics = {f"eval_{name}": float(measured[name]) for name in ("loss", "accuracy")}
    metrics |= {"num_classes": num_classes, "replicas": strategy.num_replicas_in_sync}
    tf.io.gfile.makedirs(fn_args.model_run_dir)
    with tf.io.gfile.GFile(os.path.join(fn_args.model_run_dir, METRICS_FILE), "w") as stream:
        stream.write(json.dumps(metrics, sort_keys=True))
    return model


def export_classifier(
    model: Any,
    folder: str,
    decode: Callable[[tf.Tensor], tf.Tensor],
    *,
    name: str = "image",
    tracked: Any = None,
) -> None:
    """Save a model that takes encoded images or texts and returns class probabilities.

    Args:
        model: a Keras model that returns logits.
        folder: the folder of the SavedModel; its `serving_default` returns `probabilities`.
        decode: converts `(batch,) string` to the input of the model, `(batch, …)`.
        name: the name of the input.
        tracked: a layer that `decode` calls.
    """

    def serve(encoded: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"probabilities": tf.nn.softmax(model(decode(encoded), training=False))}

    archive = tf.keras.export.ExportArchive()
    for layer in filter(None, (model, tracked)):
        archive.track(layer)
    archive.add_endpoint(
        "serving_default", serve, input_signature=[tf.TensorSpec([None], tf.string, name=name)]
    )
    archive.write_out(folder)
