"""Whatever is stored of an image: TensorFlow reads it as Pillow reads the original."""

import io
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from components.common.rejects import RejectedInputError
from components.media.images import StoredImage, store_image, store_label_map
from components.media.jpeg_structure import scan_jpeg
from components.media.options import ImageOptions
from tests.components.media import damage, variants

VARIANTS = variants.variants()
TURNED_BACK = {6: Image.Transpose.ROTATE_90, 3: Image.Transpose.ROTATE_180}


def store(data: bytes, **options: object) -> StoredImage | None:
    try:
        return store_image(data, ImageOptions(**options), filename="photo")
    except RejectedInputError:
        return None


def original(data: bytes) -> Image.Image:
    """What Pillow says of a file, upright."""
    image = Image.open(io.BytesIO(data))
    image.load()
    try:
        image = ImageOps.exif_transpose(image)
    except Exception:  # damaged EXIF
        image = Image.open(io.BytesIO(data))
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return image


def read(stored: StoredImage) -> np.ndarray:
    """As `input_fn` does."""
    if stored.format == "BMP":
        return tf.io.decode_image(stored.data, expand_animations=False).numpy()
    return tf.io.decode_jpeg(stored.data, dct_method="INTEGER_ACCURATE").numpy()


def colours(pixels: np.ndarray) -> np.ndarray:
    grey = pixels.shape[2] < 3
    return np.repeat(pixels[:, :, :1], 3, axis=2) if grey else pixels[:, :, :3]


@pytest.mark.parametrize("verify", ["structure", "decode"])
@pytest.mark.parametrize("name", VARIANTS)
def test_what_is_stored_is_read_as_the_original(name, verify):
    data = VARIANTS[name]
    stored = store(data, verify=verify)
    if stored is None:
        assert name in REFUSED
        return
    assert name not in REFUSED
    image = original(data)
    pixels = read(stored)
    assert pixels.shape == (stored.height, stored.width, stored.channels)
    assert (stored.width, stored.height) == image.size
    expected = np.asarray(image.convert("RGB"))
    difference = np.abs(colours(pixels).astype(int) - expected).mean()
    is_encoded_anew = stored.data is not data and stored.format == "JPEG"
    assert difference <= (2.0 if is_encoded_anew else 0.1 if stored.format == "JPEG" else 0)
    if stored.channels in (2, 4) and stored.format == "PNG":
        alpha = np.asarray(image.convert("RGBA"))[:, :, 3]
        assert np.array_equal(pixels[:, :, -1], alpha)
    assert (stored.data is data) == (not set(stored.conversions) - {"WRONG_EXTENSION"})


REFUSED = {
    *(f"BMP 32, RBGX, header {size}" for size in (40, 56, 108, 124)),
    "BMP 32, RGBA, header 40",  # masks that Pillow does not know in a header without alpha
    "GIF, cut",
    "GIF, cut, with a trailer",
    "PNG, a chunk between its pixels",
    "PNG without its end",
    "PNG, interlaced in a way unknown",
    "PNG, no palette",
    "JPEG, 12 bits",
    "JPEG without its end",
    "JPEG, progressive, without its end",
    "JPEG, cut",
    "JPEG, two frames",
    "JPEG, another frame first",
    "JPEG, no scan",
    "JPEG, no quantizers",
    "JPEG, sampling: fractions",
    "JPEG, sampling: four",
    "JPEG, sampling: zero",
    "JPEG without height",
    "JPEG without width",
}


@pytest.mark.parametrize(
    "name",
    [
        "BMP, no size in its header",
        "BMP, a wrong size in its header",
        "GIF, more after its trailer",
        "GIF, text after its trailer",
        "GIF, zeros after its trailer",
        "JPEG, more after its end",
        "JPEG, a file after its end",
        "JPEG, no tables",
        "PNG, more after its end",
        "PNG, a file after its end",
        *(f"JPEG, bad EXIF: {how}" for how in ("no TIFF", "empty", "cut", "endless", "of zeros")),
        *(f"PNG, bad eXIf {where}" for where in ("first", "last")),
    ],
)
def test_what_both_read_alike_is_kept(name):
    stored = store(VARIANTS[name])
    assert stored is not None
    assert (stored.data, stored.conversions) == (VARIANTS[name], ())


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("BMP RLE8", "BMP_VARIANT"),
        ("BMP, a profile after its pixels", "BMP_VARIANT"),
        ("BMP, more after its pixels", "BMP_VARIANT"),
        ("BMP 32, ABGR, header 124", "BMP_VARIANT"),
        ("GIF, transparent", "GIF_VARIANT"),
        ("GIF, a part at the corner", "GIF_VARIANT"),
        ("GIF, no trailer", "GIF_VARIANT"),
        ("GIF, no end of its frame", "GIF_VARIANT"),
        ("JPEG, lossless", "JPEG_VARIANT"),
        ("JPEG, zeros for its end", "JPEG_VARIANT"),
        ("PNG, an unknown critical chunk", "PNG_VARIANT"),
        ("PNG, EXIF in zTXt last", "ORIENTATION"),
        ("PNG, XMP first", "ORIENTATION"),
        ("TIFF None, 6", "ORIENTATION"),
    ],
)
def test_what_is_converted_is_counted_by_its_reason(name, word):
    stored = store(VARIANTS[name])
    assert stored is not None
    assert word in stored.conversions


@pytest.mark.parametrize("name", [n for n in VARIANTS if n.startswith("TIFF") and n[-1] in "36"])
def test_a_tiff_stays_as_it_lies_where_its_orientation_is_kept(name):
    data = VARIANTS[name]
    stored = store(data, orientation="keep")
    upright = original(data)
    assert stored is not None
    lies = upright.transpose(TURNED_BACK[int(name[-1])])
    assert np.array_equal(read(stored), np.asarray(lies))
    grey = io.BytesIO()
    tag = Image.Exif()
    tag[0x0112] = int(name[-1])
    variants.GREY.copy().save(grey, "TIFF", exif=tag)
    ids = store_label_map(grey.getvalue(), ImageOptions(orientation="keep"))
    assert np.array_equal(read(ids)[:, :, 0], np.asarray(variants.GREY))


def refused_by_tensorflow(stored: StoredImage) -> bool:
    try:
        read(stored)
    except tf.errors.OpError:
        return True
    return False


@pytest.mark.parametrize("verify", ["structure", "decode"])
def test_of_damaged_files_nothing_is_stored_that_tensorflow_refuses(verify):
    """With `structure` nothing promises it but for few; the files are the same each time."""
    files = damage.whole_files()
    assert all(store(data, verify=verify).data is data for data in files)
    made = list(damage.damaged(files, 2000, seed=1))
    stored = [one for one in (store(data, verify=verify) for data in made) if one is not None]
    refused = sum(map(refused_by_tensorflow, stored))
    assert refused <= (3 if verify == "structure" else 0)
    assert 500 < len(stored) < 1500  # else nothing was tried


_SWEEP = """
import random, sys
from components.common.rejects import RejectedInputError
from components.media.jpeg_structure import scan_jpeg
from components.media.images import store_image
from components.media.options import ImageOptions
from tests.components.media.variants import jpegs

NAMES = ("JPEG 2", "JPEG, progressive", "JPEG, grey", "JPEG, lossless", "JPEG, lossless grey",
         "JPEG in RGB", "JPEG in CMYK, Adobe 2")
OPTIONS = [ImageOptions(resize_shorter_side=4), ImageOptions(),
           ImageOptions(encoding="raw", resize_shorter_side=3)]
FACTORS = (0, 0x11, 0x21, 0x12, 0x22, 0x41, 0x14, 0x44, 0x31, 0x13, 0x51, 0xFF)
chance = random.Random(0)
tried = stored = 0


def attempt(data):
    global tried, stored
    for options in OPTIONS:
        tried += 1
        try:
            store_image(data, options, filename="x")
            stored += 1
        except RejectedInputError:
            pass


for name, data in jpegs():
    if name not in NAMES:
        continue
    frame = min(p for m in (0xC0, 0xC2, 0xC3) if (p := data.find(bytes([0xFF, m]))) > 0)
    components = data[frame + 9]
    for marker in range(0xC0, 0xD0):
        for precision in (0, 7, 8, 12, 16):
            changed = bytearray(data)
            changed[frame + 1], changed[frame + 4] = marker, precision
            attempt(bytes(changed))
    for marker in (0xC0, 0xC1, 0xC2, 0xC3, 0xC9, 0xCA, 0xCB):
        for _ in range(60):
            changed = bytearray(data)
            changed[frame + 1] = marker
            for number in range(components):
                changed[frame + 11 + 3 * number] = chance.choice(FACTORS)
            if chance.random() < 0.5:
                edges = (0, 1, 2, 30, 45, 60, 90, 255, 1000)
                size = [chance.choice(edges), chance.choice(edges)]
                changed[frame + 5 : frame + 9] = b"".join(n.to_bytes(2, "big") for n in size)
            attempt(bytes(changed))
print(tried, stored)
"""


def test_no_header_of_a_jpeg_ends_the_process():
    """Processes, frames and precisions of every kind, resized, raw and as they are."""
    done = subprocess.run(
        [sys.executable, "-c", _SWEEP],
        env=os.environ | {"MALLOC_CHECK_": "3", "MALLOC_PERTURB_": "165"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    tried, stored = map(int, done.stdout.split()[-2:])
    assert tried > 5000
    assert stored > 300


@settings(max_examples=400)
@given(
    st.sampled_from([data for data in VARIANTS.values() if data[:2] == b"\xff\xd8"]),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=9)), max_size=4),
)
def test_whatever_bytes_a_jpeg_has_its_scan_ends_with_a_structure_or_a_reject(data, inserted):
    for place, more in inserted:
        cut = int(place * len(data))
        data = data[:cut] + more + data[cut:]
    for stop in (len(data), len(data) // 2, 700, 30):
        try:
            structure = scan_jpeg(data[:stop])
        except RejectedInputError:
            continue
        assert structure.width > 0 < structure.height
        assert structure.components in (1, 3, 4)


def test_exif_that_cannot_turn_an_image_is_told_without_reading_it():
    for orientation in range(1, 9):
        turned = VARIANTS[f"JPEG, turned {orientation}"]
        assert scan_jpeg(turned).has_metadata == (orientation > 1)
    assert scan_jpeg(VARIANTS["JPEG, two EXIF"]).has_metadata
    assert scan_jpeg(VARIANTS["JPEG, turned by XMP"]).has_metadata
    # The number of the tag where no entry is: Pillow has to look.
    exif = variants.exif(1) + b"\x01\x12"
    assert scan_jpeg(
        variants.after_start(VARIANTS["JPEG 2"], variants.app1_exif(exif))
    ).has_metadata
