"""The walk over a JPEG's segments, and the sizes of images, against Pillow."""

import io

import pytest
import simplejpeg
from PIL import Image
from sklearn.datasets import load_sample_images

from tests.components.media.variants import variants
from trainer_utils.format.images import (
    BASELINE,
    PROGRESSIVE,
    image_size,
    jpeg_segments,
    read_jpeg_frame,
)


def photo(**options) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(load_sample_images().images[0]).crop((0, 0, 123, 77)).save(
        stream, "JPEG", **options
    )
    return stream.getvalue()


@pytest.mark.parametrize("progressive", [False, True])
def test_the_frame_of_a_photo_is_what_pillow_says(progressive):
    data = photo(progressive=progressive)
    frame = read_jpeg_frame(data)
    assert (frame.height, frame.width, frame.components, frame.precision) == (77, 123, 3, 8)
    assert frame.process == (PROGRESSIVE if progressive else BASELINE)
    assert int.from_bytes(data[frame.height_offset :][:2], "big") == 77


@pytest.mark.parametrize("between", [b"\xff", b"\xff\xff\xff", b"\xff\x01", b"junk"])
def test_fill_bytes_lone_markers_and_what_is_no_marker_are_passed_over(between):
    data = photo()
    for start, _, _ in jpeg_segments(data):
        more = data[:start] + between + data[start:]
        assert simplejpeg.decode_jpeg_header(more, strict=False)[:2] == (77, 123)
        assert read_jpeg_frame(more)[1:] == read_jpeg_frame(data)[1:]


def test_a_head_that_ends_anywhere_is_no_frame_and_no_error():
    data = photo()
    frame = read_jpeg_frame(data)
    for size in range(frame.start + 10):
        assert read_jpeg_frame(data[:size]) is None
        assert image_size(data[:size]) is None
    assert read_jpeg_frame(data[: frame.start + 10]) == frame


def test_sizes_of_all_kinds_of_files_are_those_that_pillow_says():
    seen = set()
    for what, data in variants().items():
        found = image_size(data)
        # A GIF's screen is enlarged by Pillow, and of two frames of a JPEG it takes the other.
        if found is None or "the screen" in what or what == "JPEG, another frame first":
            continue
        try:
            image = Image.open(io.BytesIO(data))
        except Exception:
            continue
        assert (found.width, found.height) == image.size, what
        seen.add(found.format)
    assert seen == {"JPEG", "PNG", "GIF", "BMP"}
