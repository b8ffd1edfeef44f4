"""What becomes of every kind of image, seen by TensorFlow's own decoders."""

import contextlib
import io
import itertools
import struct
from typing import Any

import numpy as np
import pytest
import simplejpeg
import tensorflow as tf
from PIL import Image

import trainer_utils
from components.common.rejects import RejectedInputError
from components.media.images import store_image, store_label_map
from components.media.options import ImageOptions
from tests.components.media import variants
from tests.components.media.variants import HEIGHT, RGB, WIDTH, encode
from trainer_utils.format import Feature

VARIANTS = variants.variants()
KEPT = ("JPEG 2", "JPEG, progressive", "JPEG, grey", "PNG RGB", "PNG grey 8", "PNG RGBA")


def store(data: bytes, filename: str = "photo", **options: object):
    return store_image(data, ImageOptions(**options), filename=filename)


def decoded(stored, channels: int = 3) -> np.ndarray:
    """By the op that Datum uses; BMP by TensorFlow's other one."""
    if stored.format == "BMP":
        return tf.io.decode_image(stored.data, channels, expand_animations=False).numpy()
    return tf.io.decode_jpeg(stored.data, channels, dct_method="INTEGER_ACCURATE").numpy()


def test_a_photo_is_turned_as_its_tag_says_or_kept():
    """How it is turned is compared with Pillow's own in `test_variants.py`."""
    for orientation in range(1, 9):
        data = VARIANTS[f"JPEG, turned {orientation}"]
        stored = store(data)
        assert stored.conversions == (("ORIENTATION",) if orientation > 1 else ())
        assert Image.open(io.BytesIO(stored.data)).getexif().get(0x0112, 1) == 1
        assert store(data, orientation="keep").data is data


@pytest.mark.parametrize(
    ("name", "kind", "mode"),
    [("JPEG 2", "JPEG", "RGB"), ("JPEG, grey", "JPEG", "L"), ("PNG RGBA", "PNG", "RGBA")],
)
def test_larger_images_are_made_smaller(name, kind, mode):
    data = VARIANTS[name]
    stored = store(data, resize_shorter_side=20)
    image = Image.open(io.BytesIO(stored.data))
    assert (image.format, image.mode, image.size) == (kind, mode, (30, 20))
    assert (stored.height, stored.width, stored.conversions) == (20, 30, ("RESIZED",))
    assert store(data, resize_shorter_side=HEIGHT).data is data


@pytest.mark.parametrize(("name", "side"), [("JPEG 2", 16), ("PNG grey 8", 100)])
def test_raw_images_are_pixels_of_one_size(name, side):
    stored = store(VARIANTS[name], encoding="raw", resize_shorter_side=side)
    assert (stored.format, stored.height, stored.width, stored.channels) == ("RAW", side, side, 3)
    pixels = np.frombuffer(stored.data, np.uint8).reshape(side, side, 3)
    width = round(WIDTH * side / HEIGHT)
    left = (width - side) // 2
    whole = RGB.resize((width, side), Image.Resampling.LANCZOS)
    assert np.abs(pixels.astype(int) - whole.crop((left, 0, left + side, side))).mean() < 40


def tiff_of(**entries: int) -> bytes:
    """A TIFF with other values in some entries of its header."""
    data, tags = VARIANTS["TIFF None, 1"], {"compression": 259, "photometric": 262}
    for name, value in entries.items():
        place = data.index(struct.pack("<HHI", tags[name], 3, 1)) + 8
        data = data[:place] + struct.pack("<H", value) + data[place + 2 :]
    return data


def cut(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


REFUSED = {
    "empty": (b"", "EMPTY_FILE"),
    "text": (b"These are words.", "NOT_AN_IMAGE"),
    "PDF": (b"%PDF-1.4 and so on", "UNSUPPORTED_FORMAT"),
    "SVG": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "UNSUPPORTED_FORMAT"),
    "HEIC": (b"\0\0\0\x18ftypheic\0\0\0\0", "UNSUPPORTED_FORMAT"),
    "EPS": (b"%!PS-Adobe-3.0 EPSF-3.0\n", "UNSUPPORTED_FORMAT"),
    "floats": (encode(Image.fromarray(np.ones((5, 5), np.float32)), "TIFF"), "UNSUPPORTED_COLOUR"),
    "TIFF of a compression": (tiff_of(compression=34712), "UNSUPPORTED_FORMAT"),
    "TIFF of colours": (tiff_of(photometric=32844), "UNSUPPORTED_FORMAT"),
    "header of a PNG": (VARIANTS["PNG RGB"][:20], "TRUNCATED_IMAGE"),
    "PNG without its palette": (VARIANTS["PNG, no palette"], "DAMAGED_IMAGE"),
    **{
        f"{name} cut": (cut(VARIANTS[name]), "TRUNCATED_IMAGE")
        for name in (*KEPT, "JPEG in CMYK, Adobe 2", "BMP 24", "GIF")
    },
}


def test_what_is_no_whole_image_is_refused_with_its_code():
    for data, code in REFUSED.values():
        # The same text at every run: no address of an object.
        with pytest.raises(RejectedInputError, match=rf"^(?!.*0x.{{9}}).*{code}"):
            store(data)
    with pytest.raises(RejectedInputError, match="TOO_MANY_PIXELS"):
        store(VARIANTS["JPEG 2"], max_pixels=WIDTH * HEIGHT - 1)


def test_a_jpeg_of_any_sampling_is_kept_only_where_all_that_read_it_can():
    data = encode(RGB, "JPEG", subsampling=0)
    frame = data.index(b"\xff\xc0")
    kept = set()
    for luma, chroma in itertools.product(range(0x11, 0x45), repeat=2):
        changed = bytearray(data)
        changed[frame + 11], changed[frame + 14], changed[frame + 17] = luma, chroma, chroma
        try:
            stored = store(bytes(changed))
        except RejectedInputError:
            continue
        assert decoded(stored).shape == (stored.height, stored.width, 3)
        if stored.data == changed:
            with contextlib.suppress(ValueError):  # read by this one where it knows how
                assert simplejpeg.decode_jpeg_header(stored.data)[:2] == (HEIGHT, WIDTH)
            kept.add((luma, chroma))
    assert (0x14, 0x11) not in kept
    assert kept >= {(0x11, 0x11), (0x21, 0x11), (0x22, 0x11), (0x12, 0x11), (0x41, 0x11)}


IDS = np.arange(60 * 80, dtype=np.uint8).reshape(60, 80) % 21


def palette_map() -> bytes:
    image = Image.fromarray(IDS).convert("L")
    image = Image.frombytes("P", image.size, image.tobytes())
    image.putpalette(np.random.default_rng(0).integers(0, 256, 768, np.uint8).tobytes())
    return encode(image, "PNG")


@pytest.mark.parametrize(
    ("data", "conversions"),
    [(encode(Image.fromarray(IDS), "PNG"), ()), (palette_map(), ("PALETTE",))],
    ids=["grey", "palette"],
)
def test_a_label_map_is_stored_as_its_ids(data, conversions):
    stored = store_label_map(data, ImageOptions())
    pixels = tf.io.decode_jpeg(stored.data, 1, dct_method="INTEGER_ACCURATE").numpy()
    assert np.array_equal(pixels[:, :, 0], IDS)
    assert (stored.channels, stored.conversions) == (1, conversions)


def test_colours_and_large_ids_are_no_label_map():
    for image in (RGB, Image.fromarray(np.full((4, 4), 300, np.uint16))):
        with pytest.raises(RejectedInputError, match="NOT_A_LABEL_MAP"):
            store_label_map(encode(image, "PNG"), ImageOptions())


@pytest.fixture
def read(tmp_path, write_dataset):
    """What `iterate` makes of these values of a feature."""

    def read(feature: Feature, values: list[bytes], **settings: Any) -> np.ndarray:
        rows = [{"image": [value]} for value in values]
        uri = write_dataset(tmp_path / str(len(rows)), {"train": [rows]}, {"image": feature})
        settings = {"features": "image", "shuffle": False, **settings}
        (images,) = trainer_utils.iterate(uri, batch_size=len(rows), **settings)
        return images

    return read


@pytest.mark.parametrize("image_size", [None, (16, 16)])
def test_the_trainer_reads_raw_pixels(read, image_size):
    names, raw = ("PNG RGB", "PNG grey 8"), {"encoding": "raw", "resize_shorter_side": 32}
    stored = [store(VARIANTS[name], **raw) for name in names]
    extra = {"encoding": "raw", "image_shape": [32, 32, 3]}
    feature = Feature(type="string", extra=extra)
    images = read(feature, [image.data for image in stored], image_size=image_size)
    assert images.shape == (2, *(image_size or (32, 32)), 3)
    assert images.dtype == np.uint8
    if image_size is None:
        assert images.tobytes() == stored[0].data + stored[1].data


def test_the_trainer_resizes_label_maps_without_mixing_ids(read):
    data = store_label_map(palette_map(), ImageOptions()).data
    feature = Feature(type="string", shape=(60, 80), extra={"label_map": True})
    ids = read(feature, [data], image_size=(17, 23))
    assert ids.dtype == np.uint8
    assert set(ids.flatten()) <= set(range(21))
