"""Sides of boxes, mirrored."""

import numpy as np
import tensorflow as tf

from trainer_utils.reading.boxes import mirror_boxes

LEFT, RIGHT = np.float32([0.0, 0.25]), np.float32([0.5, 1.0])


def test_lists_and_single_values_are_mirrored_alike():
    for is_sparse in (False, True):
        parsed = {"xmin": tf.constant(LEFT), "xmax": tf.constant(RIGHT), "ymin": tf.constant([0.1])}
        if is_sparse:
            parsed = {name: tf.sparse.from_dense(value + 1) for name, value in parsed.items()}
            parsed = {n: tf.SparseTensor(v.indices, v.values - 1, [2]) for n, v in parsed.items()}
        for is_mirrored in (False, True):
            made = mirror_boxes(parsed, tf.constant(is_mirrored))
            values = {name: getattr(value, "values", value) for name, value in made.items()}
            left, right = (1 - RIGHT, 1 - LEFT) if is_mirrored else (LEFT, RIGHT)
            np.testing.assert_allclose(values["xmin"], left)
            np.testing.assert_allclose(values["xmax"], right)
            np.testing.assert_allclose(values["ymin"], [0.1], rtol=1e-6)


def test_what_has_no_boxes_stays():
    parsed = {"id": tf.constant(1)}
    assert mirror_boxes(parsed, tf.constant(True)) == parsed
