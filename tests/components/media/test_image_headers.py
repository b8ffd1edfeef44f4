"""What headers of images say, against the channels that TensorFlow decodes."""

import io
import struct

import numpy as np
import pytest
from PIL import Image

from components.common.rejects import RejectedInputError
from components.media.image_headers import open_image

RGB = np.random.default_rng(0).integers(0, 256, (6, 9, 3), np.uint8)


def encoded(kind: str, mode: str) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(RGB).convert(mode).save(stream, kind)
    return stream.getvalue()


def test_what_is_refused_says_why():
    png = encoded("PNG", "RGB")
    for data, code in (
        (png, "TOO_MANY_PIXELS"),
        (b"not an image", "NOT_AN_IMAGE"),
        (png[:20], "TRUNCATED_IMAGE"),
    ):
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
    with pytest.raises(
        RejectedInputError, match=f"compression {entries.get('compression', 1)}"
    ) as caught:
        open_image(data, max_pixels=4)
    assert caught.value.code == "UNSUPPORTED_FORMAT"
    with pytest.raises(RejectedInputError) as caught:
        open_image(data[:20], max_pixels=4)
    assert caught.value.code == "TRUNCATED_IMAGE"
