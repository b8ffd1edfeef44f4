"""Whether several workers or several GPUs will work together.

workers_of()                                   # of TF_CONFIG; 1 without it
cluster_checks(8, "multi-worker")
"""

import glob
import json
import os
import re
from collections.abc import Iterator

from pipelines.tools.doctor.checks import Check, bad, ok, warn
from pipelines.tools.doctor.packages import version_of
from trainer_utils.format import ConfigError
from trainer_utils.format.spelling import misspelt

__all__ = ["STRATEGIES", "cluster_checks", "workers_of"]

STRATEGIES = ("mirrored", "multi-worker", "parameter-server", "tpu", "one-device")
_LEGACY = "TF_USE_LEGACY_KERAS"
_NEW_KERAS = 3


def workers_of() -> int:
    """How many workers `TF_CONFIG` names; 1 where it is not set, or no JSON."""
    try:
        cluster = json.loads(os.environ.get("TF_CONFIG", "{}")).get("cluster", {})
        return max(1, sum(len(cluster.get(role, ())) for role in ("chief", "worker")))
    except (ValueError, AttributeError, TypeError):
        return 1


def cluster_checks(workers: int, strategy: str | None) -> Iterator[Check]:
    """The strategy, `TF_CONFIG` and GPUs.

    Raises:
        ConfigError: there is no such strategy.
    """
    yield from _tf_config(workers)
    yield _keras_with(_canonical(strategy), workers)
    yield _gpus()


def _canonical(strategy: str | None) -> str | None:
    """`multi-worker` for `MultiWorkerMirroredStrategy` and other spellings."""
    if strategy is None:
        return None
    letters = re.sub(r"[^a-z]|strategy|(?<=worker)mirrored", "", strategy.lower())
    letters = letters.removesuffix("mirrored") or "mirrored" if "worker" in letters else letters
    for known in STRATEGIES:
        if letters == known.replace("-", ""):
            return known
    raise ConfigError(
        f"strategy: expected one of {', '.join(STRATEGIES)}, got {misspelt(strategy, STRATEGIES)}"
    )


def _tf_config(workers: int) -> Iterator[Check]:
    text = os.environ.get("TF_CONFIG")
    if not text:
        return
    try:
        config = json.loads(text)
        task = config["task"]["type"], config["task"]["index"]
        address = config["cluster"][task[0]][int(task[1])]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        yield bad(
            "TF_CONFIG",
            f"expected a cluster with the task in it: {type(error).__name__}: {error}",
            'Set it as {"cluster": {"worker": ["host:port", …]}, '
            '"task": {"type": "worker", "index": 0}}.',
        )
        return
    yield ok("TF_CONFIG", f"{task[0]} {task[1]} of {workers_of()}, at {address}")


def _keras_with(strategy: str | None, workers: int) -> Check:
    keras = version_of("keras") or "0"
    legacy = os.environ.get(_LEGACY) in ("1", "true", "True")
    is_new = int(keras.split(".")[0]) >= _NEW_KERAS and not legacy
    cure = f"Train with trainer_utils.fit, or set {_LEGACY}=1 and install tf-keras."
    if strategy == "multi-worker" and is_new:
        return bad(
            "strategy", f"model.fit of Keras {keras} fails under MultiWorkerMirroredStrategy", cure
        )
    if strategy is None and workers > 1 and is_new:
        return warn(
            "strategy",
            f"{workers} workers: model.fit of Keras {keras} fails under a multi-worker strategy",
            cure,
        )
    if is_new and strategy is None:
        return ok(
            "strategy",
            f"one worker; model.fit of Keras {keras} would fail under a multi-worker strategy",
        )
    return ok("strategy", strategy or f"{workers} workers, tf-keras")


def _gpus() -> Check:
    devices = glob.glob("/dev/nvidia[0-9]*")
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not devices:
        return ok("gpu", "none on this machine")
    if hidden in ("", "-1"):
        return warn(
            "gpu",
            f"{len(devices)} on this machine, but CUDA_VISIBLE_DEVICES={hidden!r} hides them",
            "Unset CUDA_VISIBLE_DEVICES to train on them.",
        )
    import tensorflow as tf

    seen = len(tf.config.list_physical_devices("GPU"))
    if not seen:
        return bad(
            "gpu",
            f"{len(devices)} on this machine, none seen by TensorFlow",
            "Install the CUDA libraries that fit: pip install 'tensorflow[and-cuda]'.",
        )
    return ok("gpu", f"{seen} of {len(devices)} seen by TensorFlow")
