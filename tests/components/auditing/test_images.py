"""What an image looks like, by Pillow's own reading of all its pixels."""

import io

import numpy as np
import pytest
from PIL import Image, ImageStat

from components.auditing.images import look_at_image, look_at_pixels
from tests.components.auditing.pictures import cut_tiles, jpeg, png


@pytest.mark.parametrize("encode", [jpeg, png])
def test_brightness_and_size_are_pillows(encode):
    image = cut_tiles(213)[2].resize((500, 375))
    look = look_at_image(encode(image))
    assert (look.height, look.width) == (375, 500)
    assert look.brightness == pytest.approx(ImageStat.Stat(image.convert("L")).mean[0], abs=2)
    whole = image.convert("L").resize((32, 32), Image.Resampling.BOX)
    assert np.abs(look.thumbnail.astype(int) - np.asarray(whole, int)).mean() < 3


def test_pixels_are_looked_at_as_a_file_of_them():
    image = cut_tiles(213)[2]
    found, same = look_at_pixels(np.asarray(image)), look_at_image(png(image))
    assert np.array_equal(found.thumbnail, same.thumbnail)
    assert found.sharpness == same.sharpness


def test_every_mode_has_a_thumbnail_and_what_is_no_image_has_no_look():
    for mode in ("1", "L", "LA", "P", "RGBA", "CMYK", "I;16"):
        stream = io.BytesIO()
        image = Image.new("L", (10, 300), 0).convert("RGB" if mode == "CMYK" else "L")
        image.convert(mode).save(stream, "TIFF")
        assert look_at_image(stream.getvalue()).thumbnail.shape == (32, 32)
    for data in (b"", b"no image", b"\xff\xd8\xff\xe0", png(Image.new("L", (9, 9)))[:40]):
        assert look_at_image(data) is None
