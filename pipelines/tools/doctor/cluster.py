"""Whether several workers or several GPUs will work together.

workers_of()                                   # of TF_CONFIG; 1 without it
cluster_checks(8, "multi-worker")
"""

import glob
import os
import re
from collections.abc import Iterator

from pipelines.tools.doctor.checks import Check, bad, ok, warn
from pipelines.tools.doctor.packages import version_of
from trainer_utils.cluster import Cluster, cluster_from_environment
from trainer_utils.format import ConfigError
from trainer_utils.format.spelling import misspelt

__all__ = ["STRATEGIES", "cluster_checks", "workers_of"]

STRATEGIES = ("mirrored", "multi-worker", "parameter-server", "tpu", "one-device")
_TF_CONFIG = "TF_CONFIG"
_LEGACY = "TF_USE_LEGACY_KERAS"
_NEW_KERAS = 3


def workers_of() -> int:
    """How many workers `TF_CONFIG` names; 1 where it is not set, or says nothing of them."""
    try:
        found = _cluster()
    except ConfigError:
        return 1
    return 1 if found is None else len(found.workers)


def _cluster() -> Cluster | None:
    return cluster_from_environment({_TF_CONFIG: os.environ.get(_TF_CONFIG, "")})


def cluster_checks(workers: int, strategy: str | None) -> Iterator[Check]:
    """The strategy, `TF_CONFIG` and GPUs.

    Raises:
        ConfigError: there is no such strategy.
    """
    yield from _tf_config()
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


def _tf_config() -> Iterator[Check]:
    try:
        found = _cluster()
    except ConfigError as error:
        yield bad(_TF_CONFIG, str(error), "Set it so, or have trainer_utils.cluster set it.")
        return
    if found is not None:
        address = found.workers[found.index]
        yield ok(_TF_CONFIG, f"worker {found.index} of {len(found.workers)}, at {address}")


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
