"""Images turned upright, as Pillow turns them, and EXIF that cannot turn one."""

import io

import numpy as np
import pytest
from PIL import Image, ImageOps

from components.media.jpeg_structure import scan_jpeg
from components.media.orientation import turn_back, turn_image
from tests.components.media import variants

VARIANTS = variants.variants()


def test_exif_that_cannot_turn_an_image_is_told_without_reading_it():
    for orientation in range(1, 9):
        turned = VARIANTS[f"JPEG, turned {orientation}"]
        assert scan_jpeg(turned).has_metadata == (orientation > 1)
    assert scan_jpeg(VARIANTS["JPEG, two EXIF"]).has_metadata
    assert scan_jpeg(VARIANTS["JPEG, turned by XMP"]).has_metadata
    # The number of the tag where no entry is: Pillow has to look.
    exif = variants.exif(1) + b"\x01\x12"
    assert scan_jpeg(
        variants.after_start(VARIANTS["JPEG 2"], variants.app1_exif(exif))
    ).has_metadata


@pytest.mark.parametrize("orientation", range(10))
def test_an_image_is_turned_as_pillow_turns_it_and_back(orientation):
    pixels = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)
    image = Image.fromarray(pixels)
    stream = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(stream, "PNG", exif=exif)
    expected = ImageOps.exif_transpose(Image.open(stream))
    turned = turn_image(image, orientation)
    np.testing.assert_array_equal(np.asarray(turned), np.asarray(expected))
    np.testing.assert_array_equal(np.asarray(turn_back(turned, orientation)), pixels)
