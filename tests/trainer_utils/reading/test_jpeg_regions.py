"""Rectangles of JPEGs by the TurboJPEG library equal those parts of the whole image."""

import concurrent.futures
import logging
import random

import numpy as np
import pytest
import simplejpeg

from tests.trainer_utils.reading.jpegs import PLAIN, cuts, encode, image_options
from trainer_utils.reading import images, jpeg_regions
from trainer_utils.reading.images import ImageDecoder

SCALES = [
    (number, ratio)
    for number, data in enumerate(PLAIN)
    for ratio in (1, 2, 4, 8)
    if ratio == 1 or max(simplejpeg.decode_jpeg_header(data)[:2]) >= images.SMALLEST_SCALED
]
PHOTO = encode(cuts([(375, 427)])[0], quality=90)


@pytest.fixture(autouse=True)
def decoder():
    jpeg_regions.region_decoder.cache_clear()
    found = jpeg_regions.region_decoder()
    if found is None:
        pytest.skip("TurboJPEG 3 is not installed: pip install turbojpeg")
    yield found
    jpeg_regions.region_decoder.cache_clear()


def whole_image(data: bytes, ratio: int, channels: int) -> np.ndarray:
    height, width, _, _ = simplejpeg.decode_jpeg_header(data)
    scaled = -(-height // ratio), -(-width // ratio)
    least = {"min_height": scaled[0], "min_width": scaled[1]} if ratio > 1 else {}
    return simplejpeg.decode_jpeg(data, "RGB" if channels == 3 else "GRAY", **least)


def random_box(size: tuple[int, int], rng: random.Random) -> tuple[int, int, int, int]:
    top, left = rng.randrange(size[0]), rng.randrange(size[1])
    return top, left, rng.randint(1, size[0] - top), rng.randint(1, size[1] - left)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("number", "ratio"), SCALES)
def test_rectangles_equal_parts_of_the_whole(number, ratio, channels, decoder):
    data, rng = PLAIN[number], random.Random(number)
    whole = whole_image(data, ratio, channels)
    size = whole.shape[:2]
    for top, left, height, width in [(0, 0, *size), *(random_box(size, rng) for _ in range(4))]:
        box = top, left, height, width
        part = decoder.decode(data, box, size, ratio=ratio, channels=channels)
        np.testing.assert_array_equal(
            part, whole[top : top + height, left : left + width], err_msg=str(box)
        )


@pytest.mark.parametrize("sampling", ["444", "422", "420", "440", "411"])
def test_every_sampling_of_colours_has_equal_pixels(sampling, decoder):
    data = simplejpeg.encode_jpeg(cuts([(90, 120)])[0], 90, "RGB", sampling)
    whole = whole_image(data, 1, 3)
    part = decoder.decode(data, (13, 37, 40, 50), (90, 120), ratio=1, channels=3)
    np.testing.assert_array_equal(part, whole[13:53, 37:87])


def test_memory_views_are_decoded_like_bytes(decoder):
    view = memoryview(b"before" + PHOTO)[6:]
    box, size = (10, 20, 30, 40), (375, 427)
    np.testing.assert_array_equal(
        decoder.decode(view, box, size, ratio=1, channels=3),
        decoder.decode(PHOTO, box, size, ratio=1, channels=3),
    )


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff\xd8\xff", PHOTO[:200], PHOTO[: len(PHOTO) // 2], encode(cuts([(9, 9)])[0], "PNG")],
    ids=["empty", "start", "header", "half", "png"],
)
def test_damaged_data_is_left_to_the_other_decoder(data, decoder):
    assert decoder.decode(data, (300, 20, 70, 40), (375, 427), ratio=1, channels=3) is None


def test_a_damaged_record_does_not_spoil_the_next_one(decoder):
    box, size = (10, 20, 30, 40), (375, 427)
    expected = decoder.decode(PHOTO, box, size, ratio=1, channels=3)
    decoder.decode(PHOTO[: len(PHOTO) // 2], (300, 20, 70, 40), size, ratio=1, channels=3)
    again = decoder.decode(PHOTO, box, size, ratio=1, channels=3)
    np.testing.assert_array_equal(again, expected)


def test_threads_decode_at_the_same_time(decoder):
    rng = random.Random(1)
    boxes = [random_box((375, 427), rng) for _ in range(200)]
    whole = whole_image(PHOTO, 1, 3)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        parts = pool.map(
            lambda box: decoder.decode(PHOTO, box, (375, 427), ratio=1, channels=3), boxes
        )
        for (top, left, height, width), part in zip(boxes, parts, strict=True):
            np.testing.assert_array_equal(part, whole[top : top + height, left : left + width])


@pytest.mark.parametrize("size", [(224, 224), (100, 100), (32, 32)])
def test_batches_are_the_same_without_the_library(size, monkeypatch):
    options = image_options(image_size=size, augment=["random_resized_crop", "flip"])
    keys = np.arange(len(PLAIN), dtype=np.uint64)
    with_library = ImageDecoder(options, channels=3).decode(PLAIN, keys)
    monkeypatch.setattr(images, "region_decoder", lambda: None)
    without = ImageDecoder(options, channels=3).decode(PLAIN, keys)
    np.testing.assert_array_equal(with_library, without)


def test_crops_are_decoded_by_the_library(monkeypatch):
    boxes = []
    decode = jpeg_regions.RegionDecoder.decode

    def counted(self, data, box, size, **settings):
        boxes.append(box)
        return decode(self, data, box, size, **settings)

    monkeypatch.setattr(jpeg_regions.RegionDecoder, "decode", counted)
    options = image_options(image_size=(100, 100), resize="crop", dct_scaling=False)
    ImageDecoder(options, channels=3).decode([PHOTO] * 3)
    assert boxes == [(0, 26, 375, 375)] * 3


def test_a_library_with_other_pixels_is_not_used(monkeypatch, caplog):
    decode = jpeg_regions.RegionDecoder.decode
    monkeypatch.setattr(
        jpeg_regions.RegionDecoder,
        "decode",
        lambda self, *given, **settings: decode(self, *given, **settings) ^ 1,
    )
    jpeg_regions.region_decoder.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert jpeg_regions.region_decoder() is None
    assert "pixels differ from simplejpeg's for sampling 444 at 1/1 of the scale" in caplog.text


def test_no_library_means_no_decoder(monkeypatch):
    monkeypatch.setattr(jpeg_regions, "_paths", lambda: ["libno-such-turbojpeg.so.0"])
    jpeg_regions.region_decoder.cache_clear()
    assert jpeg_regions.region_decoder() is None
