"""`distribute`: a dataset's examples for every replica of a `tf.distribute` strategy.

strategy = tf.distribute.MirroredStrategy()
train = distribute(strategy, uri, split="train", batch_size=256, label="label")
model.fit(train, epochs=3)
"""

from typing import Any

import tensorflow as tf

from trainer_utils.dataset.location import Artifacts
from trainer_utils.input_pipeline import input_fn
from trainer_utils.options import InputOptions

__all__ = ["distribute", "is_chief", "num_workers"]


def distribute(
    strategy: tf.distribute.Strategy,
    artifact_uri: Artifacts,
    split: str | None = None,
    *,
    options: InputOptions | None = None,
    **settings: Any,
) -> tf.distribute.DistributedDataset:
    """Reads a dataset for a strategy, each worker its own equal part of every batch.

    Args:
        strategy: `MirroredStrategy`, `MultiWorkerMirroredStrategy` or another.
        artifact_uri, split: as `input_fn` takes them.
        options, settings: as `input_fn` takes them; `batch_size` is the GLOBAL batch, a multiple
            of the replicas where there are several workers.

    Returns:
        A distributed dataset, to iterate over or to hand to Keras. On one worker its cardinality
        is known and its last batch is shared out among the replicas. On several workers all take
        the same number of steps. Its `state(step)` gives the token to go on from, its
        `resumed_at(token)` the same input from there on.

    Raises:
        DatasetError, ConfigError: as `input_fn`.
    """
    made: list[tf.data.Dataset] = []

    def dataset_fn(context: tf.distribute.InputContext | None) -> tf.data.Dataset:
        made.append(
            input_fn(artifact_uri, split, options=options, input_context=context, **settings)
        )
        return made[-1]

    is_alone = num_workers(strategy) == 1
    if is_alone:
        distributed = strategy.experimental_distribute_dataset(dataset_fn(None))
    else:
        distributed = strategy.distribute_datasets_from_function(dataset_fn)
    pipeline = getattr(made[0], "input_pipeline", None)  # None: a data service's
    if is_alone and pipeline is not None:  # its layout knows no replicas: TensorFlow divides
        pipeline.check_replicas(strategy.num_replicas_in_sync)
    if distributed is not made[0] and pipeline is not None:
        pipeline.attach_to(distributed)  # a strategy without replicas takes a dataset as it is
        chosen = {"options": options, **settings, "start_step": 0}
        distributed.resumed_at = lambda state: distribute(
            strategy, artifact_uri, split, **{**chosen, "state": state}
        )
    return distributed


def num_workers(strategy: tf.distribute.Strategy) -> int:
    """The processes that train together under a strategy, of which this is one."""
    resolver = strategy.cluster_resolver
    if resolver is None or not resolver.cluster_spec():
        return 1
    jobs = resolver.cluster_spec().as_dict()
    return sum(len(tasks) for job, tasks in jobs.items() if job in ("chief", "worker")) or 1


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this worker writes what all of them have alike."""
    resolver = strategy.cluster_resolver
    if resolver is None or num_workers(strategy) == 1:
        return True
    has_chief = "chief" in resolver.cluster_spec().as_dict()
    return bool(resolver.task_type == "chief" if has_chief else resolver.task_id == 0)
