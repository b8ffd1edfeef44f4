"""How TensorFlow runs an input: threads, no autotuner, and the device that batches go to.

dataset.with_options(tf_options(is_shared=False))
"""

import tensorflow as tf

from trainer_utils.machine import usable_cores

__all__ = ["device_of", "tf_options"]


def tf_options(*, is_shared: bool) -> tf.data.Options:
    """The options of a dataset.

    Args:
        is_shared: whether it is one worker's share already.
    """
    options = tf.data.Options()
    # Threads of our own, as many as there are cores; ops that split up an image's pixels among
    # them cost more than they gain, since there are images enough.
    options.threading.private_threadpool_size = usable_cores()
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
    """The device that batches are copied to: the one asked for, or `auto`: the only accelerator."""
    if asked != "auto":
        return asked
    accelerators = [d.name for kind in ("GPU", "TPU") for d in tf.config.list_logical_devices(kind)]
    return accelerators[0] if len(accelerators) == 1 else None
