"""What the trainer modules share: the strategy, and the file with the metrics.

strategy = make_strategy()
write_metrics(fn_args.model_run_dir, {"eval_accuracy": 0.95}, strategy)
"""

import json
import os
from collections.abc import Mapping

import tensorflow as tf
from absl import logging

__all__ = ["METRICS_FILE", "make_strategy", "write_metrics"]

METRICS_FILE = "metrics.json"
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


def write_metrics(
    folder: str, metrics: Mapping[str, float], strategy: tf.distribute.Strategy
) -> None:
    """Keeps what the evaluation gave, and how many replicas trained, as JSON."""
    values = {name: int(v) if name.startswith("num_") else float(v) for name, v in metrics.items()}
    values["replicas"] = strategy.num_replicas_in_sync
    tf.io.gfile.makedirs(folder)
    with tf.io.gfile.GFile(os.path.join(folder, METRICS_FILE), "w") as stream:
        stream.write(json.dumps(values, sort_keys=True))
