"""TFX's Trainer module for text classification: averaged embeddings under a distribution strategy.

Trainer(module_file=…/text_trainer.py, examples=balanced.outputs["balanced_examples"],
        train_args=TrainArgs(splits=["train"]), eval_args=EvalArgs(splits=["eval"]),
        custom_config={"epochs": 15, "batch_size": 64})
"""

from typing import Any

import tensorflow as tf
from absl import logging

import trainer_utils
from pipelines.examples.training import make_strategy, write_metrics
from trainer_utils.dataset import open_dataset

_DEFAULTS = {
    "text": "text",
    "epochs": 15,
    "batch_size": 64,
    "words": 10_000,
    "length": 128,
    "learning_rate": 1e-2,
    "seed": 0,
}


def run_fn(fn_args: Any) -> None:
    """Trains, evaluates and exports a model: what TFX's Trainer calls.

    Args:
        fn_args: TFX's FnArgs. `custom_config` may set text (the feature's name), epochs,
            batch_size (global), words (of the vocabulary), length (words of a text that are
            looked at), learning_rate and seed. `train_steps` goes before epochs.
    """
    config = {**_DEFAULTS, **(fn_args.custom_config or {})}
    uri, text = fn_args.train_files[0], config["text"]
    num_classes = int(open_dataset(uri).features["label"].extra["num_classes"])
    strategy = make_strategy()
    tf.keras.utils.set_random_seed(config["seed"])
    vectorize = tf.keras.layers.TextVectorization(
        max_tokens=config["words"], output_sequence_length=config["length"]
    )
    vectorize.adapt(trainer_utils.input_fn(uri, "train", batch_size=256, features=text))

    read: dict[str, Any] = {
        "batch_size": config["batch_size"],
        "features": text,
        "label": "label",
        "seed": config["seed"],
        "post_batching_callback": lambda batch: {**batch, text: vectorize(batch[text])},
    }
    # Plain datasets: Keras shares each batch out among the replicas itself, and knows the steps.
    steps = fn_args.train_steps
    train = trainer_utils.input_fn(uri, "train", repeat=bool(steps), **read)
    # Filled up to whole batches, since Keras 3 fails where replicas get unequal parts of the first.
    evaluation = trainer_utils.distribute(
        strategy, fn_args.eval_files[0], "eval", shuffle=False, remainder="pad", **read
    )
    with strategy.scope():
        model = _model(config["words"], config["length"], num_classes)
        model.compile(
            optimizer=tf.keras.optimizers.Adam(config["learning_rate"]),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    model.fit(train, epochs=1 if steps else config["epochs"], steps_per_epoch=steps, verbose=2)
    results = trainer_utils.evaluate(model, strategy, evaluation)
    loss, accuracy = results["loss"], results["accuracy"]
    logging.info("evaluation: loss %.4f, accuracy %.4f", loss, accuracy)
    _export(model, vectorize, fn_args.serving_model_dir)
    metrics = {"eval_accuracy": accuracy, "eval_loss": loss, "num_classes": num_classes}
    write_metrics(fn_args.model_run_dir, metrics, strategy)


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


def _export(model: tf.keras.Model, vectorize: Any, folder: str) -> None:
    """Saves a model that takes texts, `(batch,) string`, and gives class probabilities."""

    def serve(texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"probabilities": tf.nn.softmax(model(vectorize(texts), training=False))}

    archive = tf.keras.export.ExportArchive()
    archive.track(model)
    archive.track(vectorize)
    archive.add_endpoint(
        "serving_default", serve, input_signature=[tf.TensorSpec([None], tf.string, name="text")]
    )
    archive.write_out(folder)
