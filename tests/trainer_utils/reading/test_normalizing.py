"""Pixel values in floats, against numpy in float64."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from trainer_utils import ConfigError
from trainer_utils.reading.images import Normalization

VALUES = np.arange(256, dtype=np.uint8).reshape(16, 16, 1)
STEPS = {"float32": 2**-23, "bfloat16": 2**-7, "float16": 2**-10}  # relative, of each kind
GIVEN = ["unit", "symmetric", "imagenet", (10, 3.5), ((1, 2, 3), (4, 5, 6))]


@pytest.mark.parametrize(
    ("given", "dtype"),
    [*((given, "float32") for given in GIVEN), ("imagenet", "bfloat16"), ("unit", "float16")],
    ids=str,
)
def test_values_are_those_of_the_formula(given, dtype):
    pixels = np.concatenate([VALUES, VALUES[::-1], VALUES.transpose(1, 0, 2)], axis=-1)
    normalization = Normalization.of(given, channels=3, dtype=dtype)
    expected = (pixels - normalization.mean) / normalization.deviation
    assert normalization.dtype == tf.as_dtype(dtype).as_numpy_dtype
    written = np.empty(pixels.shape, normalization.dtype)
    normalization.write(pixels, to=written)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(written.astype(np.float64), expected, atol=STEPS[dtype] * scale)


def test_without_its_package_bfloat16_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ConfigError, match=r"dtype: expected float32 or float16 .*'bfloat16'"):
        Normalization.of("unit", channels=3, dtype="bfloat16")
