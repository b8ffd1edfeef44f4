"""GIF files' blocks, against what Pillow wrote and counts."""

import io

import numpy as np
import pytest
from PIL import Image

from components.common.rejects import RejectedInputError
from components.media.gif_structure import scan_gif


def gif(frames: int, size: tuple[int, int] = (9, 6), **options) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (frames, size[1], size[0], 3), np.uint8)
    first, *others = [Image.fromarray(each).quantize(16) for each in pixels]
    stream = io.BytesIO()
    first.save(stream, "GIF", save_all=True, append_images=others, **options)
    return stream.getvalue()


@pytest.mark.parametrize("frames", [1, 2, 5])
@pytest.mark.parametrize("size", [(1, 1), (9, 6), (300, 2)])
def test_size_and_frames_are_those_that_pillow_reads(frames, size):
    data = gif(frames, size)
    image = Image.open(io.BytesIO(data))
    found = scan_gif(data)
    assert (found.width, found.height) == image.size
    assert found.frames == image.n_frames
    assert found.doubt is None
    assert not found.is_variant


def test_transparency_is_what_tensorflow_does_not_know():
    assert scan_gif(gif(1, transparency=0)).is_variant


def test_a_file_without_its_trailer_is_a_variant_and_one_without_a_frame_is_cut():
    data = gif(1)
    assert data.endswith(b";")
    assert scan_gif(data[:-1]).is_variant
    for end in (0, 12, 13):
        with pytest.raises(RejectedInputError) as caught:
            scan_gif(data[:end])
        assert caught.value.code == "TRUNCATED_IMAGE"
