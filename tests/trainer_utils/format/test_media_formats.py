"""The table of signatures and extensions, against the files that Pillow and libsndfile write."""

import bz2
import gzip
import io
import lzma
import zipfile

import numpy as np
import soundfile
from PIL import Image

from tests.components.media.variants import variants
from trainer_utils.format.media_formats import (
    EXTENSIONS,
    FORMATS,
    format_of,
    is_other_image,
    packing_of,
)

IMAGES = [known.name for known in FORMATS if known.kind == "image"]
SOUNDS = ["WAV", "FLAC", "OGG", "MP3"]
OTHER_NAMES = {"WAVEX": "WAV", "RF64": "WAV"}


def image_file(name: str) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (5, 4)).save(stream, name)
    return stream.getvalue()


def sound_file(name: str) -> bytes:
    stream = io.BytesIO()
    soundfile.write(stream, np.zeros(2000), 16_000, format=name)
    return stream.getvalue()


def test_an_image_or_sound_is_told_by_its_first_12_bytes():
    for name in IMAGES:
        found = format_of(image_file(name)[:12])
        assert (found.name, found.kind) == (name, "image")
    for name in (*SOUNDS, *OTHER_NAMES):
        found = format_of(sound_file(name)[:12])
        assert (found.name, found.kind) == (OTHER_NAMES.get(name, name), "audio")


def test_whatever_pillow_opens_as_one_of_ours_is_told_as_that():
    for what, data in variants().items():
        try:
            with Image.open(io.BytesIO(data), formats=IMAGES) as image:
                name = "JPEG" if image.format == "MPO" else image.format
        except Exception:
            continue
        assert format_of(data).name == name, what


def test_images_that_are_not_taken_are_known_as_images():
    for name in ("PPM", "JPEG2000", "ICO", "EPS"):
        assert is_other_image(image_file(name))
        assert format_of(image_file(name)) is None


def test_no_extension_is_of_two_formats_and_pillow_knows_those_of_images():
    endings = [ending for known in FORMATS for ending in known.extensions]
    assert len(endings) == len(set(endings))
    assert set(endings) == EXTENSIONS["image"] | EXTENSIONS["audio"]
    theirs = Image.registered_extensions() | {".dib": "BMP"}  # a BMP without its first 14 bytes
    for known in FORMATS:
        if known.kind == "image":
            assert {theirs[ending] for ending in known.extensions} == {known.name}


def zip_file() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("cat/1.jpg", b"\xff\xd8\xff")
    return stream.getvalue()


def test_what_is_packed_is_told_by_what_it_is_packed_as():
    packed = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}
    for name, data in {"ZIP": zip_file(), **{n: pack(b"x") for n, pack in packed.items()}}.items():
        assert name in packing_of(data)
