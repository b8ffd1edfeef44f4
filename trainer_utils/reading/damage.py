"""`on_corrupt="skip"`: records that cannot be read are removed from their batches.

elements = without_unreadable(
    elements,
    keeps_rows=False,
    keeps_elements=True,
    spare=record,
    first=epoch * steps,
    report_lost=lost.add,
)
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from trainer_utils.reading.raw_ops import map_elements
from trainer_utils.reading.shard_reader import UNREADABLE

__all__ = ["without_unreadable"]


def without_unreadable(
    elements: tf.data.Dataset,
    *,
    keeps_rows: bool,
    keeps_elements: bool,
    spare: bytes,
    first: tf.Tensor,
    report_lost: Callable[[int], None],
) -> tf.data.Dataset:
    """Leaves out rows that could not be read.

    Args:
        elements: `(rows,) string` each, or with a mask `((rows,) string, (rows,) float32)`.
        keeps_rows: whether all elements must keep their rows, for static shapes: others of the
            batch then stand in, with weight 0 where there is a mask.
        keeps_elements: whether each must have a row at least, because other workers wait for it.
        spare: a record that stands in where a whole element could not be read.
        first: `() int64`, the number of the first element.
        report_lost: called with the number of each element that is removed entirely.
    """

    def clean(records: tf.Tensor, *mask: tf.Tensor) -> tuple[tf.Tensor, ...]:
        is_good = tf.not_equal(records, UNREADABLE)
        good = tf.boolean_mask(records, is_good)
        candidates = tf.concat([good, [spare]], 0)
        if keeps_rows:
            kept = tf.where(is_good, records, candidates[0])
            return (kept, *(weights * tf.cast(is_good, tf.float32) for weights in mask))
        if keeps_elements:
            least = tf.minimum(tf.size(records), 1)  # some have no row to begin with
            return (candidates[: tf.maximum(tf.size(good), least)],)
        return (good,)

    is_masked = isinstance(elements.element_spec, tuple)
    cleaned = map_elements(elements, clean if is_masked else lambda records: clean(records)[0])
    if keeps_rows or keeps_elements:
        return cleaned

    def leave_out(number: np.int64) -> bool:
        report_lost(int(number))
        return False

    def is_kept(number: tf.Tensor, records: tf.Tensor) -> tf.Tensor:
        return tf.cond(
            tf.size(records) > 0,
            lambda: True,
            lambda: tf.ensure_shape(tf.numpy_function(leave_out, [number], tf.bool), ()),
        )

    numbered = tf.data.Dataset.zip((tf.data.Dataset.range(first, tf.int64.max), cleaned))
    return map_elements(numbered.filter(is_kept), lambda _, records: records)
