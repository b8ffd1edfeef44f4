"""PNG files: Pillow and TensorFlow read the pixels that were given."""

import io
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from trainer_utils.format import DatasetError
from trainer_utils.format.images import encode_png


@pytest.mark.parametrize("channels", [None, 1, 3, 4])
def test_others_read_the_same_pixels(photos: list[Any], channels: int | None) -> None:
    pixels = photos[0][:7, :11]
    if channels == 4:
        pixels = np.concatenate([pixels, pixels[..., :1]], axis=-1)
    elif channels != 3:
        pixels = pixels[..., 0] if channels is None else pixels[..., :1]
    data = encode_png(pixels)
    as_3d = pixels.reshape(7, 11, -1)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(data))), as_3d.squeeze())
    np.testing.assert_array_equal(tf.io.decode_png(data), as_3d)


def test_what_are_no_pixels_is_refused() -> None:
    for shape, dtype in (((2, 2), "f4"), ((2, 2, 2), "u1"), ((4,), "u1"), ((0, 3), "u1")):
        with pytest.raises(DatasetError):
            encode_png(np.zeros(shape, dtype))
