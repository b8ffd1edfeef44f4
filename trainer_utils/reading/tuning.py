"""How TensorFlow runs an input: threads, no autotuner, and the device that batches go to.

dataset.with_options(tf_options(is_shared=False))
"""

import tensorflow as tf

from trainer_utils.format import ConfigError
from trainer_utils.machine import usable_cores

__all__ = ["device_of", "tf_options"]


def tf_options(*, is_shared: bool) -> tf.data.Options:
    """The options of a dataset.

    Args:
        is_shared: whether it is one worker's share already.
    """
    options = tf.data.Options()
    # Threads of our own, as many as there are cores; ops that split up an image's pixels among
    # them cost more than they gain, since there are images enough. And one more: where a batch is
    # being decoded on each, a finished one would wait for the next to come out.
    options.threading.private_threadpool_size = usable_cores() + 1
    options.threading.max_intra_op_parallelism = 1
    # tf.data's autotuner thread holds up the end of an iterator for as much as a second.
    options.autotune.enabled = False
    options.deterministic = True
    # Rewriting the graph would take as long as all the rest of an iterator's start.
    options.experimental_optimization.apply_default_optimizations = False
    policy = tf.data.experimental.AutoShardPolicy
    options.experimental_distribute.auto_shard_policy = policy.OFF if is_shared else policy.DATA
    return options


def device_of(asked: str | None) -> str | None:
    """The device that batches are copied to: the one asked for, or `auto`: the only accelerator.

    Raises:
        ConfigError: this process has none of that name.
    """
    if asked is not None and asked != "auto":
        _check_device(asked)
    if asked != "auto":
        return asked
    accelerators = [d.name for kind in ("GPU", "TPU") for d in tf.config.list_logical_devices(kind)]
    return accelerators[0] if len(accelerators) == 1 else None


def _check_device(asked: str) -> None:
    known = [device.name for device in tf.config.list_logical_devices()]
    try:
        found = tf.DeviceSpec.from_string(asked)
        specs = map(tf.DeviceSpec.from_string, known)
        is_known = found.job is not None or any(
            (spec.device_type, spec.device_index) == (found.device_type, found.device_index or 0)
            for spec in specs
        )
    except ValueError:  # it is no name of a device
        is_known = False
    if not is_known:
        shown = ", ".join(name.removeprefix("/device:") for name in known)
        raise ConfigError(
            f"device: expected auto or one that TensorFlow has here ({shown}), got {asked!r}",
            setting="device",
        )
