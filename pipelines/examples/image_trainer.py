"""A module for TFX's Trainer: image classification by a small CNN, with a distribution strategy.

Trainer(module_file=…/image_trainer.py, examples=balanced.outputs["balanced_examples"],
        train_args=TrainArgs(splits=["train"]), eval_args=EvalArgs(splits=["eval"]),
        custom_config={"epochs": 12, "batch_size": 32, "image_size": 64})
"""

from typing import Any

import tensorflow as tf

import trainer_utils
from pipelines.examples.training import export_classifier, make_strategy, train_classifier

_DEFAULTS = {"epochs": 12, "batch_size": 32, "image_size": 64, "learning_rate": 1e-3, "seed": 0}


def run_fn(fn_args: Any) -> None:
    """Train, evaluate and export a model; TFX's Trainer calls this function.

    Args:
        fn_args: TFX's FnArgs. `custom_config` may set epochs, batch_size (global), image_size
            (height and width in pixels), learning_rate and seed. `train_steps` overrides epochs.
    """
    config = {**_DEFAULTS, **(fn_args.custom_config or {})}
    size = (config["image_size"], config["image_size"])

    model = train_classifier(
        fn_args,
        config,
        make_strategy(),
        make_model=lambda num_classes: _model(size, num_classes),
        features="image",
        image_size=size,
    )
    decode = trainer_utils.image_decoder(image_size=size)  # the same decoding as in training
    export_classifier(model, fn_args.serving_model_dir, decode)


def _model(size: tuple[int, int], num_classes: int) -> tf.keras.Model:
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            tf.keras.Input((*size, 3)),
            layers.Rescaling(1 / 127.5, offset=-1),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.Conv2D(64, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(64, activation="relu"),
            layers.Dense(num_classes),
        ]
    )
