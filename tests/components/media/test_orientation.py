"""Images turned upright, as Pillow turns them, and EXIF that cannot turn one."""

import io

import numpy as np
from PIL import Image, ImageOps

from components.media.orientation import turn_back, turn_image


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
