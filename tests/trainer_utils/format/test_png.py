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


@pytest.mark.parametrize(
    "pixels",
    [np.zeros((2, 2), np.float32), np.zeros((2, 2, 2), np.uint8), np.zeros(4, np.uint8)],
)
def test_what_are_no_pixels_is_refused(pixels: Any) -> None:
    with pytest.raises(DatasetError, match=r"expected \(height, width\)"):
        encode_png(pixels)


def test_an_image_without_pixels_is_refused() -> None:
    with pytest.raises(DatasetError, match=r"got \(0, 3\)"):
        encode_png(np.zeros((0, 3), np.uint8))
