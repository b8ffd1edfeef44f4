"""PNG files' chunks, against what Pillow wrote."""

import io

import numpy as np
import pytest
from PIL import Image

from components.common.rejects import RejectedInputError
from components.media.image_structure import scan_png

RGB = np.random.default_rng(0).integers(0, 256, (6, 9, 3), np.uint8)


def png(mode: str = "RGB", **options) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(RGB).convert(mode).save(stream, "PNG", **options)
    return stream.getvalue()


def test_a_whole_file_is_without_doubt():
    for mode in ("1", "L", "RGB", "P", "LA", "RGBA"):
        assert scan_png(png(mode))[:4] == ("PNG", (9, 6), 0, None)
        assert not scan_png(png(mode)).has_metadata


def test_a_file_cut_anywhere_is_refused():
    data = png()
    for end in range(8, len(data)):
        with pytest.raises(RejectedInputError) as caught:
            scan_png(data[:end])
        assert caught.value.code in ("TRUNCATED_IMAGE", "DAMAGED_IMAGE")


def test_each_flipped_bit_behind_the_signature_is_refused_or_doubted():
    data = png()
    for place in range(8, len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[place] ^= 1 << bit
            try:
                assert scan_png(bytes(damaged)).doubt is not None, (place, bit)
            except RejectedInputError:
                continue
