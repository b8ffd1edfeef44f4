"""Heads of JPEG files, against Pillow and libjpeg-turbo."""

import io

import numpy as np
import pytest
from PIL import Image

from tests.trainer_utils.reading.jpegs import LARGE, ODD, PLAIN
from trainer_utils.reading.jpeg_head import JpegHead

simplejpeg = pytest.importorskip("simplejpeg")
pytest.importorskip("cv2")


# --- Heads ---


def test_a_head_has_the_size_and_components():
    for data in PLAIN:
        head, image = JpegHead.of(data), Image.open(io.BytesIO(data))
        assert (head.width, head.height) == image.size
        assert head.components == len(image.getbands())
        assert head.is_one_scan != bool(image.info.get("progressive"))


@pytest.mark.parametrize("data", LARGE[7:14], ids=lambda data: str(len(data)))
def test_an_image_that_is_cut_has_the_upper_rows(data):
    head = JpegHead.of(data)
    whole = simplejpeg.decode_jpeg(data)
    for rows in (3, 16, 50, head.height - 1):
        cut = head.cut_to(data, rows)
        if not head.is_one_scan:
            assert cut is data
            continue
        got = simplejpeg.decode_jpeg(cut, strict=False)
        assert len(got) == rows
        np.testing.assert_array_equal(got[: rows - 2], whole[: rows - 2])
    assert head.cut_to(data, head.height) is data
    assert head.cut_to(data[:-1], 5) is not None


@pytest.mark.parametrize("data", [b"", b"\xff\xd8", b"GIF89a", ODD["PNG"], LARGE[0][:200]])
def test_what_has_no_whole_head_has_none(data):
    assert JpegHead.of(data) is None
