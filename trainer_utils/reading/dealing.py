"""Deals a worker's rows of each batch out to its replicas, as elements.

elements = deal(order(epoch, step), layout=layout, is_static=False, filler=None, padded=0)
"""

from collections.abc import Callable

import tensorflow as tf

from trainer_utils.order.layout import Layout
from trainer_utils.reading.dataflow import flat_mapped, mapped, rebatched

__all__ = ["deal"]


def deal(
    vectors: tf.data.Dataset,
    *,
    layout: Layout,
    padded: int,
    is_static: bool,
    filler: Callable[[], tf.data.Dataset] | None = None,
) -> tf.data.Dataset:
    """Cuts each batch's rows into one element for each replica of the worker.

    Args:
        vectors: `(any,) string` each, a worker's rows of each batch.
        layout: of an epoch.
        padded: rows of weight 0 that are added to the last batch.
        is_static: whether all elements have the same, static, number of rows.
        filler: makes a dataset of one record, for rows of weight 0. None: there are no such rows,
            nor a mask.

    Returns:
        `(rows,) string` each; with `filler` beside `(rows,) float32`, 0 in rows to leave out.
    """
    if filler is not None:
        masked = mapped(vectors, lambda records: (records, tf.ones(tf.shape(records))))
        if padded:
            rows = mapped(filler(), lambda record: tf.repeat(record, padded))
            masked = masked.concatenate(mapped(rows, lambda r: (r, tf.zeros(tf.shape(r)))))
        return rebatched(masked, layout.rows_per_replica, drop_remainder=True)
    if is_static:
        return rebatched(vectors, layout.rows_per_replica, drop_remainder=True)
    replicas = layout.replicas_per_worker
    if replicas == 1:
        return vectors

    def parts(records: tf.Tensor) -> tf.data.Dataset:
        size = tf.size(records, tf.int64)
        numbers = tf.data.Dataset.range(replicas)
        return mapped(numbers, lambda n: records[n * size // replicas : (n + 1) * size // replicas])

    return flat_mapped(vectors, parts)
