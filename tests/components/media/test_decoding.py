"""What Pillow makes of images, against Pillow itself."""

import io
import struct

import numpy as np
import pytest
from PIL import Image, ImageOps

from components.common.rejects import RejectedInputError
from components.media.decoding import (
    ImageBytes,
    encode_image,
    in_plain_colours,
    load,
    open_image,
    turn_back,
    turn_image,
)

CHANCE = np.random.default_rng(0)
RGB = CHANCE.integers(0, 256, (6, 9, 3), np.uint8)


def encoded(kind: str, mode: str) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(RGB).convert(mode).save(stream, kind)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("data", "code"),
    [(encoded("PNG", "RGB"), "TOO_MANY_PIXELS"), (b"not an image", "NOT_AN_IMAGE"),
     (encoded("PNG", "RGB")[:20], "TRUNCATED_IMAGE")],
)  # fmt: skip
def test_what_is_refused_says_why(data, code):
    with pytest.raises(RejectedInputError) as caught:
        open_image(data, max_pixels=53)
    assert caught.value.code == code


def tiff_of(**entries: int) -> bytes:
    """A TIFF of 2 x 2 pixels with other values in some entries of its header."""
    stream = io.BytesIO()
    Image.fromarray(RGB[:2, :2]).save(stream, "TIFF")
    data, tags = stream.getvalue(), {"compression": 259, "photometric": 262, "samples": 277}
    for name, value in entries.items():
        place = data.index(struct.pack("<HHI", tags[name], 3, 1)) + 8
        data = data[:place] + struct.pack("<H", value) + data[place + 2 :]
    return data


@pytest.mark.parametrize("entries", [{"compression": 34712}, {"photometric": 32844}])
def test_a_whole_tiff_of_an_unknown_kind_is_not_called_cut_short(entries):
    data = tiff_of(**entries)
    assert open_image(tiff_of(), max_pixels=4).size == (2, 2)
    with pytest.raises(RejectedInputError, match="a TIFF of a kind") as caught:
        open_image(data, max_pixels=4)
    assert caught.value.code == "UNSUPPORTED_FORMAT"
    with pytest.raises(RejectedInputError) as caught:
        open_image(data[:20], max_pixels=4)
    assert caught.value.code == "TRUNCATED_IMAGE"


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_an_image_that_is_cut_is_told_from_one_that_is_damaged(kind):
    large = CHANCE.integers(0, 256, (64, 64, 3), np.uint8)
    data = encode_image(Image.fromarray(large), kind)
    load(Image.open(ImageBytes(data)))
    with pytest.raises(RejectedInputError) as caught:
        load(Image.open(ImageBytes(data[: len(data) // 2])))
    assert caught.value.code == "TRUNCATED_IMAGE"


def test_an_image_is_turned_as_pillow_turns_it_and_back():
    pixels = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)
    image = Image.fromarray(pixels)
    for orientation in range(10):
        stream = io.BytesIO()
        exif = Image.Exif()
        exif[0x0112] = orientation
        image.save(stream, "PNG", exif=exif)
        expected = ImageOps.exif_transpose(Image.open(stream))
        turned = turn_image(image, orientation)
        np.testing.assert_array_equal(np.asarray(turned), np.asarray(expected))
        np.testing.assert_array_equal(np.asarray(turn_back(turned, orientation)), pixels)


def test_colours_are_those_that_pillow_makes():
    plain = {"1": "L", "P": "RGB", "CMYK": "RGB", "YCbCr": "RGB"}
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr"):
        image = Image.fromarray(RGB).convert(mode)
        made = in_plain_colours(image)
        assert made.mode == plain.get(mode, mode)
        np.testing.assert_array_equal(np.asarray(made), np.asarray(image.convert(made.mode)))
