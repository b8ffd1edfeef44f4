"""A module for TFX's Trainer: text classification by averaged embeddings, with a strategy.

Trainer(module_file=…/text_trainer.py, examples=balanced.outputs["balanced_examples"],
        train_args=TrainArgs(splits=["train"]), eval_args=EvalArgs(splits=["eval"]),
        custom_config={"epochs": 15, "batch_size": 64})
"""

from typing import Any

import tensorflow as tf

import trainer_utils
from pipelines.examples.training import export_classifier, make_strategy, train_classifier

_DEFAULTS = {"text": "text", "epochs": 15, "batch_size": 64, "words": 10_000, "length": 128}
_DEFAULTS |= {"learning_rate": 1e-2, "seed": 0}


def run_fn(fn_args: Any) -> None:
    """Train, evaluate and export a model; TFX's Trainer calls this function.

    Args:
        fn_args: TFX's FnArgs. `custom_config` may set text (the name of the feature), epochs,
            batch_size (global), words (size of the vocabulary), length (maximum number of words of
            a text), learning_rate and seed. `train_steps` overrides epochs.
    """
    config = {**_DEFAULTS, **(fn_args.custom_config or {})}
    uri, text = fn_args.train_files[0], config["text"]
    strategy = make_strategy()
    vectorize = tf.keras.layers.TextVectorization(
        max_tokens=config["words"], output_sequence_length=config["length"]
    )
    vectorize.adapt(trainer_utils.input_fn(uri, "train", batch_size=256, features=text))
    model = train_classifier(
        fn_args,
        config,
        strategy,
        make_model=lambda num_classes: _model(config["words"], config["length"], num_classes),
        features=text,
        post_batching_callback=lambda batch: {**batch, text: vectorize(batch[text])},
    )
    export_classifier(model, fn_args.serving_model_dir, vectorize, name="text", tracked=vectorize)


def _model(words: int, length: int, num_classes: int) -> tf.keras.Model:
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            tf.keras.Input((length,), dtype="int64"),
            layers.Embedding(words, 32),
            layers.GlobalAveragePooling1D(),
            layers.Dense(32, activation="relu"),
            layers.Dropout(0.2),
            layers.Dense(num_classes),
        ]
    )
