"""Pixels in plain colours, and whole or damaged, against numpy and Pillow."""

import numpy as np
import pytest
from PIL import Image

from components.common.rejects import RejectedInputError
from components.media.pixels import ImageBytes, encode_image, in_plain_colours, load

CHANCE = np.random.default_rng(0)
RGB = CHANCE.integers(0, 256, (5, 7, 3), np.uint8)


def test_colours_are_those_that_pillow_makes():
    plain = {"1": "L", "P": "RGB", "CMYK": "RGB", "YCbCr": "RGB"}
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr"):
        image = Image.fromarray(RGB).convert(mode)
        made = in_plain_colours(image)
        assert made.mode == plain.get(mode, mode)
        np.testing.assert_array_equal(np.asarray(made), np.asarray(image.convert(made.mode)))


def test_of_16_bits_the_upper_8_are_kept():
    values = CHANCE.integers(0, 1 << 16, (5, 7)).astype(np.uint16)
    made = in_plain_colours(Image.fromarray(values))
    np.testing.assert_array_equal(np.asarray(made), values // 256)


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_an_image_that_is_cut_is_told_from_one_that_is_damaged(kind):
    large = CHANCE.integers(0, 256, (64, 64, 3), np.uint8)
    data = encode_image(Image.fromarray(large), kind)
    load(Image.open(ImageBytes(data)))
    with pytest.raises(RejectedInputError) as caught:
        load(Image.open(ImageBytes(data[: len(data) // 2])))
    assert caught.value.code == "TRUNCATED_IMAGE"
