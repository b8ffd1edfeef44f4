"""The sizes of BMP files, against TensorFlow and Pillow; `test_jpeg` has those of all kinds."""

import io

import pytest
from PIL import Image

from tests.components.media.variants import variants
from trainer_utils.format.images import image_size

BITMAPS = {name: data for name, data in variants().items() if data.startswith(b"BM")}


@pytest.mark.parametrize("name", BITMAPS)
def test_a_bmp_has_the_size_that_tensorflow_decodes_it_to(name):
    import tensorflow as tf

    data = BITMAPS[name]
    found = image_size(data)
    try:
        shape = tf.io.decode_image(data, expand_animations=False).shape.as_list()
    except tf.errors.InvalidArgumentError:
        shape = None
    if "RLE" in name:  # whose bytes the op takes for pixels
        shape = None
    assert (found and [found.height, found.width, found.channels]) == shape


@pytest.mark.parametrize("name", ["BMP 24", "BMP 8"])
@pytest.mark.parametrize("size", [0, 1, 77, 2**31, 2**32 - 1])
def test_the_size_that_a_header_gives_for_the_file_does_not_matter(name, size):
    data = BITMAPS[name][:2] + size.to_bytes(4, "little") + BITMAPS[name][6:]
    found = image_size(data)
    assert (found.width, found.height) == Image.open(io.BytesIO(data)).size


def test_a_bmp_that_is_cut_anywhere_is_none():
    data = BITMAPS["BMP 24"]
    assert image_size(data) is not None
    for size in range(len(data)):
        assert image_size(data[:size]) is None


@pytest.mark.parametrize("text", [b"BM", b"BMW " * 40, b"BMI: 22.5\n" * 9, b"BM\0\0" + bytes(90)])
def test_bytes_that_begin_like_a_bmp_are_not_taken_for_one(text):
    assert image_size(text) is None
