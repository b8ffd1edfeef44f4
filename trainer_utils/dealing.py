"""Deals a worker's records out as batches of the sizes that the layout says.

batches = deal(order(epoch, step), share=share, from_rows=0, ...)
"""

from collections.abc import Callable

import tensorflow as tf

from trainer_utils.dataflow import mapped, rebatched
from trainer_utils.layout import Share

__all__ = ["deal"]


def deal(
    vectors: tf.data.Dataset,
    *,
    share: Share,
    passed: tf.Tensor,
    is_static: bool,
    filler: Callable[[], tf.data.Dataset] | None = None,
) -> tf.data.Dataset:
    """Cuts and fills up a worker's records to its elements.

    Args:
        vectors: `(any,) string` each, the records that are used, without those of the first
            `passed` elements.
        share: what the worker gets.
        passed: how many full elements an earlier process took.
        is_static: whether all elements have the same, static, number of rows.
        filler: makes a dataset of one record, for rows of weight 0. None: there are no such rows,
            nor a mask.

    Returns:
        `(rows,) string` each; with `filler` beside `(rows,) float32`, 0 in rows to leave out.
    """
    if filler is not None:
        masked = mapped(vectors, lambda records: (records, tf.ones(tf.shape(records))))
        if share.padded:
            rows = mapped(filler(), lambda record: tf.repeat(record, share.padded))
            masked = masked.concatenate(mapped(rows, lambda r: (r, tf.zeros(tf.shape(r)))))
        return rebatched(masked, share.rows, drop_remainder=True)
    if is_static or len(share.tail) < 2:
        return rebatched(vectors, share.rows, drop_remainder=is_static)
    sizes = tf.constant([share.rows] * share.full + list(share.tail), tf.int64)
    return rebatched(vectors, sizes[passed:])
