"""TFX's Trainer module for image classification: a small CNN under a distribution strategy.

Trainer(module_file=…/image_trainer.py, examples=balanced.outputs["balanced_examples"],
        train_args=TrainArgs(splits=["train"]), eval_args=EvalArgs(splits=["eval"]),
        custom_config={"epochs": 12, "batch_size": 32, "image_size": 64})
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from absl import logging

import trainer_utils
from pipelines.examples.training import export_classifier, make_strategy, write_metrics
from trainer_utils.dataset import open_dataset

_DEFAULTS = {"epochs": 12, "batch_size": 32, "image_size": 64, "learning_rate": 1e-3, "seed": 0}


def run_fn(fn_args: Any) -> None:
    """Trains, evaluates and exports a model: what TFX's Trainer calls.

    Args:
        fn_args: TFX's FnArgs. `custom_config` may set epochs, batch_size (global), image_size
            (pixels a side), learning_rate and seed. `train_steps` goes before epochs.
    """
    config = {**_DEFAULTS, **(fn_args.custom_config or {})}
    uri, size = fn_args.train_files[0], config["image_size"]
    num_classes = int(open_dataset(uri).features["label"].extra["num_classes"])
    strategy = make_strategy()
    tf.keras.utils.set_random_seed(config["seed"])
    read: dict[str, Any] = {
        "batch_size": config["batch_size"],
        "features": "image",
        "label": "label",
        "image_size": (size, size),
        "seed": config["seed"],
    }
    # Plain datasets: Keras shares each batch out among the replicas itself, and knows the steps.
    steps = fn_args.train_steps
    train = trainer_utils.input_fn(uri, "train", repeat=bool(steps), **read)
    # Filled up to whole batches, since Keras 3 fails where replicas get unequal parts of the first.
    evaluation = trainer_utils.distribute(
        strategy, fn_args.eval_files[0], "eval", shuffle=False, remainder="pad", **read
    )
    with strategy.scope():
        model = _model(size, num_classes)
        model.compile(
            optimizer=tf.keras.optimizers.Adam(config["learning_rate"]),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    model.fit(train, epochs=1 if steps else config["epochs"], steps_per_epoch=steps, verbose=2)
    results = trainer_utils.evaluate(model, strategy, evaluation)
    loss, accuracy = results["loss"], results["accuracy"]
    logging.info("evaluation: loss %.4f, accuracy %.4f", loss, accuracy)
    export_classifier(model, fn_args.serving_model_dir, _decode(size))
    metrics = {"eval_accuracy": accuracy, "eval_loss": loss, "num_classes": num_classes}
    write_metrics(fn_args.model_run_dir, metrics, strategy)


def _model(size: int, num_classes: int) -> tf.keras.Model:
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            tf.keras.Input((size, size, 3)),
            layers.Rescaling(1 / 127.5, offset=-1),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.Conv2D(64, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(64, activation="relu"),
            layers.Dense(num_classes),
        ]
    )


def _decode(size: int) -> Callable[[tf.Tensor], tf.Tensor]:
    def decode(encoded: tf.Tensor) -> tf.Tensor:
        pixels = tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_ACCURATE")
        return tf.ensure_shape(tf.round(tf.image.resize(pixels, (size, size))), (size, size, 3))

    return decode
