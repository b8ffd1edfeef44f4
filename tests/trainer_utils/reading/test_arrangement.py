"""What one element looks like: the same of tensors and of arrays."""

import numpy as np
import pytest
import tensorflow as tf

from trainer_utils.options import InputOptions
from trainer_utils.reading.arrangement import arrange

ARRAYS = {
    "image": np.arange(4, dtype=np.uint8),
    "label": np.arange(4),
    "weight": np.array([1, 2, 3, 4]),
    "mask": np.array([1, 1, 1, 0], np.float32),
}


def shape(element):
    """Which features stand where; arrays by what they hold."""
    if isinstance(element, tuple):
        return tuple(map(shape, element))
    if isinstance(element, dict):
        return {name: shape(value) for name, value in element.items()}
    return np.asarray(element).tolist()


PAD = {"remainder": "pad"}
IMAGE, LABEL, MASK = [0, 1, 2, 3], [0, 1, 2, 3], [1.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"features": "image"}, IMAGE),
        ({"features": ["image"]}, {"image": IMAGE}),
        ({"features": "image", "label": "label"}, (IMAGE, LABEL)),
        ({"features": "image", **PAD}, (IMAGE, MASK)),
        ({"features": ["image"], **PAD}, {"image": IMAGE, "mask": MASK}),
        ({"features": "image", "label": "label", **PAD}, (IMAGE, LABEL, MASK)),
        (
            {"features": "image", "label": "label", "labels": {"sample_weight": "weight"}, **PAD},
            (IMAGE, LABEL, [1.0, 2.0, 3.0, 0.0]),
        ),
    ],
)
def test_elements_of_arrays_and_of_tensors(settings, expected):
    # Whoever gives tensors has cast the weights.
    tensors = {name: tf.constant(values) for name, values in ARRAYS.items()}
    tensors["weight"] = tf.cast(tensors["weight"], tf.float32)
    for given in (dict(ARRAYS), tensors):
        assert shape(arrange(InputOptions(**settings), given)) == expected
