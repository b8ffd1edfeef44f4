"""TFRecorder's encoding of images, against the standard library."""

import base64

import numpy as np
import pytest

from trainer_utils.format.base64_pixels import base64_size, decode_base64_pixels, is_base64_of


@pytest.mark.parametrize("size", [(1, 1, 1), (2, 1, 1), (1, 1, 3), (3, 5, 3), (7, 5, 1)])
def test_what_pillow_and_base64_write_is_known(size):
    pixels = np.random.default_rng(0).bytes(int(np.prod(size)))
    value = base64.b64encode(pixels, altchars=b"-_")
    assert is_base64_of(value, size)
    assert decode_base64_pixels(value) == pixels
    height, width, channels = size
    assert not is_base64_of(value, (height + 1, width, channels))


@pytest.mark.parametrize("value", [b"AAA", b"AA A", b"AA+/", b"A===", b"=AAA", b"AAA\n", b""])
def test_other_text_is_not(value):
    assert not is_base64_of(value, (1, 1, 3))


@pytest.mark.parametrize(
    ("values", "size"),
    [
        ({"x_height": [2], "x_width": [3], "x_channels": [1]}, (2, 3, 1)),
        ({"x_height": [2], "x_width": [3]}, None),
        ({"x_height": [2], "x_width": [3], "x_channels": [4]}, None),
        ({"x_height": [2, 2], "x_width": [3], "x_channels": [1]}, None),
        ({"x_height": [-2], "x_width": [3], "x_channels": [1]}, None),
        ({"x_height": [2.0], "x_width": [3], "x_channels": [1]}, None),
    ],
)
def test_the_integers_beside_an_image_say_its_size(values, size):
    assert base64_size("x", values) == size
