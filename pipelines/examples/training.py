"""What the trainer modules share: the strategy, the exported model, the file with the metrics.

strategy = make_strategy()
write_metrics(fn_args.model_run_dir, {"eval_accuracy": 0.95}, strategy)
"""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from trainer_utils.format import ConfigError
from trainer_utils.frameworks.tensorflow import is_chief

__all__ = [
    "LOG_FILE",
    "METRICS_FILE",
    "MetricsLog",
    "export_classifier",
    "make_strategy",
    "restore_checkpoint",
    "worker_of",
    "write_metrics",
]

METRICS_FILE = "metrics.json"
LOG_FILE = "metrics.jsonl"
_LOGICAL_DEVICES = 2


def make_strategy() -> tf.distribute.Strategy:
    """`MirroredStrategy` over all GPUs, or else over two logical CPU devices."""
    gpus = tf.config.list_logical_devices("GPU") if tf.config.list_physical_devices("GPU") else []
    if gpus:
        return tf.distribute.MirroredStrategy()
    cpu = tf.config.list_physical_devices("CPU")[0]
    try:
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * _LOGICAL_DEVICES
        )
    except RuntimeError:
        logging.info("TensorFlow runs already: its devices stay as they are")
    return tf.distribute.MirroredStrategy([d.name for d in tf.config.list_logical_devices("CPU")])


def export_classifier(model: Any, folder: str, decode: Callable[[tf.Tensor], tf.Tensor]) -> None:
    """Saves a model that takes encoded images, `(batch,) string`, and gives class probabilities.

    Args:
        model: of Keras, from images to logits.
        folder: of the SavedModel, whose `serving_default` gives `probabilities`.
        decode: makes an image of known shape of a scalar string, as training reads it.
    """

    def serve(encoded: tf.Tensor) -> dict[str, tf.Tensor]:
        made = tf.function(decode).get_concrete_function(tf.TensorSpec((), tf.string))
        spec = tf.TensorSpec(made.output_shapes, made.output_dtypes)
        images = tf.map_fn(decode, encoded, fn_output_signature=spec)
        return {"probabilities": tf.nn.softmax(model(images, training=False))}

    archive = tf.keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint(
        "serving_default", serve, input_signature=[tf.TensorSpec([None], tf.string, name="image")]
    )
    archive.write_out(folder)


def write_metrics(
    folder: str, metrics: Mapping[str, float], strategy: tf.distribute.Strategy
) -> None:
    """Keeps what the evaluation gave, and how many replicas trained, as JSON."""
    values = {name: int(v) if name.startswith("num_") else float(v) for name, v in metrics.items()}
    values["replicas"] = strategy.num_replicas_in_sync
    tf.io.gfile.makedirs(folder)
    with tf.io.gfile.GFile(os.path.join(folder, METRICS_FILE), "w") as stream:
        stream.write(json.dumps(values, sort_keys=True))


def worker_of(strategy: tf.distribute.Strategy) -> int:
    """The number of this worker; 0 where there is one."""
    resolver = strategy.cluster_resolver
    return 0 if resolver is None else int(resolver.task_id or 0)


def restore_checkpoint(checkpoint: tf.train.Checkpoint, path: str) -> None:
    """Sets all that a checkpoint of model and optimizer tracks to what was saved.

    Raises:
        ConfigError: something that it tracks is not in there: it is of another model, or of the
            other Keras, which keeps its variables elsewhere.
    """
    try:
        checkpoint.restore(path).assert_existing_objects_matched().expect_partial()
    except (AssertionError, ValueError) as error:
        names = [name for name, _ in tf.train.list_variables(path)]
        wrote = "tf-keras" if any("layer_with_weights" in name for name in names) else "Keras 3"
        here = "tf-keras" if tf.keras.__version__.startswith("2.") else "Keras 3"
        raise ConfigError(
            f"checkpoint {path!r}: expected all variables of this model of {here}, got one that "
            f"{wrote} wrote, without some of them. Give another folder, or the same model and "
            "Keras (TF_USE_LEGACY_KERAS).",
            path=path,
        ) from error


class MetricsLog:
    """Lines of `metrics.jsonl` in a folder, which the chief writes.

    Args:
        folder: made where it is not there yet; lines are added to a file that is.
        strategy: of this worker.
    """

    def __init__(self, folder: str, strategy: tf.distribute.Strategy) -> None:
        self._path = os.path.join(folder, LOG_FILE)
        self._writes = is_chief(strategy)
        self._losses: list[tf.Tensor] = []
        tf.io.gfile.makedirs(folder)

    def add(self, loss: tf.Tensor) -> None:
        """Keeps a step's loss, `() float32`, without waiting for it."""
        self._losses.append(loss)

    def write_loss(self, step: int, learning_rate: float) -> None:
        """Writes the mean of the losses that were kept since the last time."""
        loss = float(tf.add_n(self._losses)) / len(self._losses)
        self._losses.clear()
        self.write(step=step, train_loss=loss, learning_rate=learning_rate)

    def write(self, **values: float) -> None:
        """Writes a line of JSON."""
        if self._writes:
            with tf.io.gfile.GFile(self._path, "a") as stream:
                stream.write(json.dumps(values) + "\n")
