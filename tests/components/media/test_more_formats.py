"""Test AVIF, HEIC, 16-bit and very large images against Pillow and OpenCV."""

import io
import sys

import cv2
import numpy as np
import pytest
from PIL import Image, features
from sklearn.datasets import load_sample_images

from components.inputs.rejects import RejectedInputError
from components.media import image_opening
from components.media.images import StoredImage, store_image
from components.media.options import ImageOptions
from tests.make import encode
from trainer_utils.core.errors import ConfigError
from trainer_utils.format.media_formats import format_of

PHOTO = Image.fromarray(load_sample_images().images[0][:240, :320])
needs_avif = pytest.mark.skipif(
    not ("avif" in features.modules and features.check("avif")),
    reason="this Pillow has no AVIF",
)


def store(data: bytes, filename: str = "photo", **options: object) -> StoredImage:
    return store_image(data, ImageOptions(**options), filename=filename)


def pixels_of(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), np.int32)


def deep(*shape: int, most: int = 65_535) -> np.ndarray:
    return np.linspace(0, most, int(np.prod(shape))).reshape(shape).astype(np.uint16)


def png_of(pixels: np.ndarray) -> bytes:
    swapped = pixels if pixels.ndim == 2 else pixels[..., [2, 1, 0, *range(3, pixels.shape[2])]]
    return cv2.imencode(".png", swapped)[1].tobytes()


def read_deep(data: bytes) -> np.ndarray:
    found = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    return found if found.ndim == 2 else found[..., [2, 1, 0, *range(3, found.shape[2])]]


@needs_avif
def test_avif_is_converted_to_jpeg_and_counted():
    data = encode(PHOTO, "AVIF", quality=90)
    stored = store(data, "photo.avif")
    assert (stored.format, stored.conversions) == ("JPEG", ("AVIF",))
    assert (stored.height, stored.width, stored.channels) == (240, 320, 3)
    assert np.abs(pixels_of(stored.data) - pixels_of(data)).mean() < 2


@needs_avif
def test_avif_with_transparency_is_converted_to_png():
    image = PHOTO.copy()
    image.putalpha(Image.new("L", image.size, 100))
    data = encode(image, "AVIF", quality=90)
    stored = store(data)
    assert (stored.format, stored.channels) == ("PNG", 4)
    original = np.asarray(Image.open(io.BytesIO(data)))
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(stored.data))), original)


@needs_avif
def test_rotated_avif_is_stored_upright():
    exif = Image.Exif()
    exif[0x0112] = 6
    stored = store(encode(PHOTO, "AVIF", exif=exif))
    assert (stored.height, stored.width) == (320, 240)
    assert stored.conversions == ("AVIF", "ORIENTATION")


@needs_avif
def test_truncated_avif_is_rejected(subtests):
    data = encode(PHOTO, "AVIF", quality=90)
    for size in (20, 300, len(data) // 2):
        with subtests.test(size=size):
            with pytest.raises(RejectedInputError, match=r"TRUNCATED_IMAGE|DAMAGED_IMAGE"):
                store(data[:size])


def test_avif_with_a_generic_brand_is_not_heic():
    general = b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf"
    assert format_of(general).name == "AVIF"
    assert format_of(general.replace(b"avif", b"heic")).name == "HEIF"
    assert format_of(general[:12]).name == "HEIF"


def test_heic_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    image_opening._factory.cache_clear()
    try:
        with pytest.raises(RejectedInputError) as caught:
            store(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(200))
    finally:
        image_opening._factory.cache_clear()
    assert caught.value.code == "UNSUPPORTED_FORMAT"
    assert "pip install 'tfx-shards[heif]'" in caught.value.detail


def heic(image: Image.Image, **options: object) -> bytes:
    pillow_heif = pytest.importorskip("pillow_heif", reason="pillow-heif is not installed")
    stream = io.BytesIO()
    pillow_heif.from_pillow(image).save(stream, quality=90, **options)
    return stream.getvalue()


def test_heic_is_converted_to_jpeg_and_counted():
    stored = store(heic(PHOTO), "photo.HEIC")
    assert (stored.format, stored.conversions) == ("JPEG", ("HEIF",))
    assert (stored.height, stored.width, stored.channels) == (240, 320, 3)
    assert np.abs(pixels_of(stored.data) - np.asarray(PHOTO, np.int32)).mean() < 4


def test_damaged_heic_is_rejected(subtests):
    data = heic(PHOTO)
    for size in (20, 300, len(data) // 2):
        with subtests.test(size=size):
            with pytest.raises(RejectedInputError, match=r"TRUNCATED_IMAGE|DAMAGED_IMAGE"):
                store(data[:size])


@pytest.mark.parametrize("shape", [(30, 40), (30, 40, 3), (30, 40, 4)])
def test_16_bit_png_is_kept_byte_for_byte(shape):
    data = png_of(deep(*shape))
    stored = store(data, sixteen_bit="keep")
    assert (stored.data, stored.conversions, stored.bits) == (data, (), 16)
    assert stored.channels == (shape[2] if len(shape) > 2 else 1)


@pytest.mark.parametrize("shape", [(30, 40), (30, 40, 3)])
def test_16_bit_png_is_scaled_to_its_upper_8_bits(shape):
    pixels = deep(*shape, most=4095)
    stored = store(png_of(pixels))
    assert (stored.conversions, stored.bits) == (("SIXTEEN_BIT",), 8)
    assert np.array_equal(read_deep(stored.data), pixels >> 8)
    assert stored.sixteen_bit_peak == 4095


def test_grey_16_bit_tiff_is_kept_as_a_16_bit_png():
    pixels = deep(30, 40)
    stored = store(encode(Image.fromarray(pixels), "TIFF"), sixteen_bit="keep")
    assert (stored.format, stored.conversions, stored.bits) == ("PNG", ("TIFF",), 16)
    assert np.array_equal(read_deep(stored.data), pixels)


def test_16_bit_colour_tiff_is_rejected_unless_scaled():
    data = cv2.imencode(".tif", deep(30, 40, 3))[1].tobytes()
    with pytest.raises(RejectedInputError, match=r"UNSUPPORTED_COLOUR.*sixteen_bit='scale'"):
        store(data, sixteen_bit="keep")
    assert store(data).format == "PNG"


@pytest.mark.parametrize("orientation", range(2, 9))
def test_rotated_16_bit_image_is_stored_upright(orientation):
    pixels = deep(30, 40)
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encode(Image.fromarray(pixels), "PNG", exif=exif)
    stored = store(data, sixteen_bit="keep")
    eight = store(encode(Image.fromarray((pixels >> 8).astype(np.uint8)), "PNG", exif=exif))
    assert (stored.bits, stored.conversions) == (16, ("ORIENTATION",))
    assert np.array_equal(read_deep(stored.data) >> 8, read_deep(eight.data))


def test_resized_16_bit_image_keeps_16_bits():
    flat = np.full((60, 80, 3), 12_345, np.uint16)
    stored = store(png_of(flat), sixteen_bit="keep", resize_shorter_side=30)
    assert (stored.height, stored.width, stored.bits) == (30, 40, 16)
    assert stored.conversions == ("RESIZED",)
    assert (read_deep(stored.data) == 12_345).all()


def test_raw_encoding_with_16_bits_raises():
    with pytest.raises(ConfigError, match="sixteen_bit"):
        ImageOptions(encoding="raw", resize_shorter_side=8, sixteen_bit="keep").check_compatible()


def test_image_beyond_pillows_own_limit_is_stored():
    side = 13_400  # 179.6 million pixels
    image = Image.new("1", (side, side))
    stored = store(encode(image, "PNG"), max_pixels=1 << 31)
    assert (stored.height, stored.width, stored.conversions) == (side, side, ("BIT_DEPTH",))
    with pytest.raises(RejectedInputError, match="TOO_MANY_PIXELS"):
        store(encode(image, "PNG"), max_pixels=side * side - 1)
    assert Image.MAX_IMAGE_PIXELS == 89_478_485
