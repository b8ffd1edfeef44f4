"""`distribute`: a dataset's examples for every replica of a `tf.distribute` strategy.

strategy = tf.distribute.MirroredStrategy()
train = distribute(strategy, uri, split="train", batch_size=256, label="label")
model.fit(train, epochs=3)
"""

from typing import Any

import tensorflow as tf

from trainer_utils.input_pipeline import input_fn

__all__ = ["distribute"]


def distribute(
    strategy: tf.distribute.Strategy, artifact_uri: Any, split: str = "train", **options: Any
) -> tf.distribute.DistributedDataset:
    """Reads a dataset for a strategy, each worker its own equal range of the records.

    Args:
        strategy: `MirroredStrategy`, `MultiWorkerMirroredStrategy` or another.
        artifact_uri, split: as `input_fn` takes them.
        options: the keyword arguments of `input_fn`; `batch_size` is the GLOBAL batch, a multiple
            of the replicas where there are several workers.

    Returns:
        A distributed dataset, to iterate over or to hand to Keras. On one worker its cardinality
        is known and its last batch is shared out among the replicas. On several workers all take
        the same number of steps.

    Raises:
        DatasetError, ConfigError: as `input_fn`.
    """
    if _num_workers(strategy) == 1:
        return strategy.experimental_distribute_dataset(input_fn(artifact_uri, split, **options))

    def dataset_fn(context: tf.distribute.InputContext) -> tf.data.Dataset:
        return input_fn(artifact_uri, split, input_context=context, **options)

    return strategy.distribute_datasets_from_function(dataset_fn)


def _num_workers(strategy: tf.distribute.Strategy) -> int:
    resolver = strategy.cluster_resolver
    if resolver is None or not resolver.cluster_spec():
        return 1
    jobs = resolver.cluster_spec().as_dict()
    return sum(len(tasks) for job, tasks in jobs.items() if job in ("chief", "worker")) or 1
