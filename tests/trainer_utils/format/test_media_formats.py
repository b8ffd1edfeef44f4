"""Test signatures, extensions and headers against Pillow, libsndfile and TensorFlow."""

import bz2
import gzip
import io
import itertools
import lzma
import zipfile
from typing import Any

import numpy as np
import pytest
import simplejpeg
import soundfile
import tensorflow as tf
from PIL import Image

from tests.components.media.variants import variants
from tests.make import jpeg, photo
from trainer_utils.core.errors import DatasetError
from trainer_utils.format.media_formats import (
    BASELINE,
    EXTENSIONS,
    FORMATS,
    PROGRESSIVE,
    encode_png,
    format_of,
    image_size,
    is_other_image,
    jpeg_segments,
    packing_of,
    read_jpeg_frame,
)

# Pillow reads HEIF with a plug-in only; another test covers that.
IMAGES = [known.name for known in FORMATS if known.kind == "image" and known.name != "HEIF"]
SOUNDS = ["WAV", "FLAC", "OGG", "MP3"]
OTHER_NAMES = {"WAVEX": "WAV", "RF64": "WAV"}


def sound_file(name: str) -> bytes:
    stream = io.BytesIO()
    soundfile.write(stream, np.zeros(2000), 16_000, format=name)
    return stream.getvalue()


def test_formats_are_detected_from_12_bytes(subtests):
    for name in IMAGES:
        with subtests.test(name=name):
            found = format_of(photo(kind=name)[:12])
            assert (found.name, found.kind) == (name, "image")
    for name in (*SOUNDS, *OTHER_NAMES):
        with subtests.test(name=name):
            found = format_of(sound_file(name)[:12])
            assert (found.name, found.kind) == (OTHER_NAMES.get(name, name), "audio")


def test_heif_is_detected_from_12_bytes():
    pillow_heif = pytest.importorskip("pillow_heif", reason="needs the extra heif")
    stream = io.BytesIO()
    pillow_heif.from_pillow(Image.new("RGB", (64, 64))).save(stream)
    assert format_of(stream.getvalue()[:12]).name == "HEIF"


def test_supported_variants_match_pillow():
    for what, data in variants().items():
        try:
            with Image.open(io.BytesIO(data), formats=IMAGES) as image:
                name = "JPEG" if image.format == "MPO" else image.format
        except Exception:
            continue
        assert format_of(data).name == name, what


def test_unsupported_images_are_recognized(subtests):
    for name in ("PPM", "JPEG2000", "ICO", "EPS"):
        with subtests.test(name=name):
            assert is_other_image(photo(kind=name))
            assert format_of(photo(kind=name)) is None


def test_extensions_are_unique_and_match_pillow(subtests):
    endings = [ending for known in FORMATS for ending in known.extensions]
    assert len(endings) == len(set(endings))
    assert set(endings) == EXTENSIONS["image"] | EXTENSIONS["audio"]
    theirs = Image.registered_extensions() | {".dib": "BMP"}  # a BMP without its first 14 bytes
    for known in FORMATS:
        with subtests.test(known=known):
            if known.name in IMAGES:
                assert {theirs[ending] for ending in known.extensions} == {known.name}


def test_packed_files_are_described(subtests):
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("cat/1.jpg", b"\xff\xd8\xff")
    packed = {"gzip": gzip.compress(b"x"), "bzip2": bz2.compress(b"x"), "xz": lzma.compress(b"x")}
    for name, data in {"ZIP": zipped.getvalue(), **packed}.items():
        with subtests.test(name=name):
            assert name in packing_of(data)


BITMAPS = {name: data for name, data in variants().items() if data.startswith(b"BM")}


@pytest.mark.parametrize("name", BITMAPS)
def test_bmp_size_matches_tensorflow(name):
    data = BITMAPS[name]
    found = image_size(data)
    try:
        shape = tf.io.decode_image(data, expand_animations=False).shape.as_list()
    except tf.errors.InvalidArgumentError:
        shape = None
    if "RLE" in name:  # the op treats compressed bytes as pixels
        shape = None
    assert (found and [found.height, found.width, found.channels]) == shape


def test_bmp_header_file_size_is_ignored(subtests):
    for name, size in itertools.product(["BMP 24", "BMP 8"], [0, 1, 77, 2**31, 2**32 - 1]):
        with subtests.test(name=name):
            data = BITMAPS[name][:2] + size.to_bytes(4, "little") + BITMAPS[name][6:]
            found = image_size(data)
            assert (found.width, found.height) == Image.open(io.BytesIO(data)).size
    for text in (b"BM", b"BMW " * 40, b"BMI: 22.5\n" * 9, b"BM\0\0" + bytes(90)):
        with subtests.test(text=text):
            assert image_size(text) is None


SIZE = (123, 77)


def test_jpeg_frame_has_the_size_of_the_photo(subtests):
    for progressive in (False, True):
        with subtests.test(progressive=progressive):
            data = jpeg(size=SIZE, progressive=progressive)
            frame = read_jpeg_frame(data)
            assert (frame.height, frame.width, frame.components, frame.precision) == (77, 123, 3, 8)
            assert frame.process == (PROGRESSIVE if progressive else BASELINE)
            assert int.from_bytes(data[frame.height_offset :][:2], "big") == 77


@pytest.mark.parametrize("between", [b"\xff", b"\xff\xff\xff", b"\xff\x01", b"junk"])
def test_bytes_between_jpeg_segments_are_skipped(between):
    data = jpeg(size=SIZE)
    for start, _, _ in jpeg_segments(data):
        more = data[:start] + between + data[start:]
        assert simplejpeg.decode_jpeg_header(more, strict=False)[:2] == (77, 123)
        assert read_jpeg_frame(more)[1:] == read_jpeg_frame(data)[1:]


def test_truncated_headers_return_none():
    data, bitmap = jpeg(size=SIZE), BITMAPS["BMP 24"]
    frame = read_jpeg_frame(data)
    assert read_jpeg_frame(data[: frame.start + 10]) == frame
    heads = [data[:size] for size in range(frame.start + 10)]
    for head in heads + [bitmap[:size] for size in range(len(bitmap))]:
        assert read_jpeg_frame(head) is image_size(head) is None


def test_image_sizes_match_pillow():
    seen = set()
    for what, data in variants().items():
        found = image_size(data)
        # Pillow enlarges a GIF's screen, and takes the second of two frames of a JPEG.
        if found is None or "the screen" in what or what == "JPEG, another frame first":
            continue
        try:
            image = Image.open(io.BytesIO(data))
        except Exception:
            continue
        assert (found.width, found.height) == image.size, what
        seen.add(found.format)
    assert seen == {"JPEG", "PNG", "GIF", "BMP"}


@pytest.mark.parametrize("channels", [None, 1, 3, 4])
def test_encoded_png_is_decoded_to_the_same_pixels(photos: list[Any], channels: int | None) -> None:
    pixels = photos[0][:7, :11]
    if channels == 4:
        pixels = np.concatenate([pixels, pixels[..., :1]], axis=-1)
    elif channels != 3:
        pixels = pixels[..., 0] if channels is None else pixels[..., :1]
    data = encode_png(pixels)
    as_3d = pixels.reshape(7, 11, -1)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(data))), as_3d.squeeze())
    np.testing.assert_array_equal(tf.io.decode_png(data), as_3d)


@pytest.mark.parametrize("shape", [(2, 2, 2), (4,), (0, 3), (2, 2)])
def test_encoding_invalid_pixels_raises(shape: tuple[int, ...]) -> None:
    pixels = np.zeros(shape, np.float32 if shape == (2, 2) else np.uint8)
    with pytest.raises(DatasetError, match=r"expected \(height, width\).*got \("):
        encode_png(pixels)
