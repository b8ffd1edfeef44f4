"""A seed for each epoch, so that augmentation differs from epoch to epoch and yet repeats.

records = with_epoch_seed(records, seed=0)      # (record, int64 scalar) pairs
"""

import tensorflow as tf

__all__ = ["with_epoch_seed"]


def with_epoch_seed(dataset: tf.data.Dataset, seed: int) -> tf.data.Dataset:
    """Pairs each element with one number, another each time the dataset is gone through.

    Args:
        dataset: of any elements.
        seed: the n-th pass of two datasets with equal seeds has equal numbers.

    Returns:
        A dataset of `(element, int64 scalar)` with the cardinality of `dataset`.
    """
    passes = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True)
    numbers = passes.take(1).flat_map(lambda number: tf.data.Dataset.from_tensors(number).repeat())
    pairs = tf.data.Dataset.zip(dataset, numbers)
    # What flat_map gives has no known cardinality.
    return pairs.apply(tf.data.experimental.assert_cardinality(dataset.cardinality()))
