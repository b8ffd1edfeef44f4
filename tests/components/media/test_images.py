"""What becomes of every kind of image, seen by TensorFlow's own decoders."""

import contextlib
import io
import itertools
from typing import Any

import numpy as np
import pytest
import simplejpeg
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFilter
from sklearn.datasets import load_sample_images

import trainer_utils
from components.common.rejects import RejectedInputError
from components.media.images import store_image, store_label_map
from components.media.options import ImageOptions
from trainer_utils.format import Feature

# Smooth, so that little is lost in a JPEG.
RGB = Image.fromarray(load_sample_images().images[0][100:160, 200:280]).filter(
    ImageFilter.GaussianBlur(3)
)
GREY = RGB.convert("L")
PALETTE = RGB.convert("P", palette=Image.Palette.ADAPTIVE)


def with_alpha(image: Image.Image) -> Image.Image:
    image = image.copy()
    image.putalpha(GREY)
    return image


def encode(image: Image.Image, kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def turned(orientation: int, kind: str = "JPEG") -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encode(RGB, kind, exif=exif, **({"quality": 100} if kind == "JPEG" else {}))


def store(data: bytes, filename: str = "photo", **options: object):
    return store_image(data, ImageOptions(**options), filename=filename)


def decoded(stored, channels: int = 3) -> np.ndarray:
    """By the op that Datum uses; BMP by TensorFlow's other one."""
    if stored.format == "BMP":
        return tf.io.decode_image(stored.data, channels, expand_animations=False).numpy()
    return tf.io.decode_jpeg(stored.data, channels, dct_method="INTEGER_ACCURATE").numpy()


def difference(pixels: np.ndarray, image: Image.Image) -> float:
    expected = np.asarray(image.convert("RGB"))
    assert pixels.shape == expected.shape
    return float(np.abs(pixels.astype(int) - expected).mean())


KEPT = {
    "JPEG": encode(RGB, "JPEG"),
    "progressive JPEG": encode(RGB, "JPEG", progressive=True),
    "grey JPEG": encode(GREY, "JPEG"),
    "PNG": encode(RGB, "PNG"),
    "grey PNG": encode(GREY, "PNG"),
    "PNG with alpha": encode(with_alpha(RGB), "PNG"),
}
CONVERTED = {
    "CMYK": encode(RGB.convert("CMYK"), "JPEG"),
    "palette with alpha": encode(PALETTE, "PNG", transparency=3),
    "16 bits": encode(Image.fromarray(np.asarray(GREY).astype(np.uint16) << 8 | 7), "PNG"),
    "TIFF": encode(RGB, "TIFF"),
    "lossy WebP": encode(RGB, "WEBP", quality=95),
    "BMP": encode(RGB, "BMP"),
    "GIF": encode(PALETTE, "GIF", save_all=True, append_images=[PALETTE.transpose(0)]),
}


@pytest.mark.parametrize(
    ("orientation", "kind"), [*((number, "JPEG") for number in range(1, 9)), (6, "PNG")]
)
def test_photos_are_turned_as_their_tag_says(orientation, kind):
    ways = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_270,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_90,
    }
    data = turned(orientation, kind)
    upright = RGB.transpose(ways[orientation]) if orientation > 1 else RGB
    stored = store(data)
    assert (stored.width, stored.height) == upright.size
    assert difference(decoded(stored), upright) < 3
    assert stored.conversions == (("ORIENTATION",) if orientation > 1 else ())
    assert Image.open(io.BytesIO(stored.data)).getexif().get(0x0112, 1) == 1
    assert store(data, orientation="keep").data is data


@pytest.mark.parametrize(
    ("data", "kind", "mode"),
    [
        (KEPT["JPEG"], "JPEG", "RGB"),
        (KEPT["grey JPEG"], "JPEG", "L"),
        (KEPT["PNG with alpha"], "PNG", "RGBA"),
    ],
)
def test_larger_images_are_made_smaller(data, kind, mode):
    stored = store(data, resize_shorter_side=30)
    image = Image.open(io.BytesIO(stored.data))
    assert (image.format, image.mode, image.size) == (kind, mode, (40, 30))
    assert (stored.height, stored.width, stored.conversions) == (30, 40, ("RESIZED",))
    assert store(data, resize_shorter_side=60).data is data


@pytest.mark.parametrize(("name", "side"), [("JPEG", 32), ("grey PNG", 100)])
def test_raw_images_are_pixels_of_one_size(name, side):
    stored = store(KEPT[name], encoding="raw", resize_shorter_side=side)
    assert (stored.format, stored.height, stored.width, stored.channels) == ("RAW", side, side, 3)
    pixels = np.frombuffer(stored.data, np.uint8).reshape(side, side, 3)
    width = round(80 * side / 60)
    left = (width - side) // 2
    whole = RGB.resize((width, side), Image.Resampling.LANCZOS)
    assert np.abs(pixels.astype(int) - whole.crop((left, 0, left + side, side))).mean() < 40


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
    **{f"{name} cut": (cut(data), "TRUNCATED_IMAGE") for name, data in KEPT.items()},
    "CMYK cut": (cut(CONVERTED["CMYK"]), "TRUNCATED_IMAGE"),
}


def test_what_is_no_whole_image_is_refused_with_its_code():
    for data, code in REFUSED.values():
        with pytest.raises(RejectedInputError, match=code):
            store(data)


def check_is_read(data: bytes, **options: object) -> bool:
    """What is stored of a file is what its readers decode, in the size that is said; or nothing."""
    try:
        stored = store(data, **options)
    except RejectedInputError:
        return False
    height, width = stored.height, stored.width
    assert decoded(stored).shape == (height, width, 3)
    if stored.format == "JPEG":  # read by this one where it knows how, else by TensorFlow
        with contextlib.suppress(ValueError):
            assert simplejpeg.decode_jpeg_header(stored.data)[:2] == (height, width)
    return stored.data is data


@settings(max_examples=300)
@given(
    st.sampled_from([*KEPT.values(), *CONVERTED.values()]),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4),
    st.floats(0, 1),
)
def test_hostile_bytes_are_an_image_that_is_read_or_a_reject(data, flips, keep):
    changed = bytearray(data)
    for place, value in flips:
        changed[int(place * len(changed))] = value
    check_is_read(bytes(changed))
    check_is_read(bytes(changed), verify="decode")
    check_is_read(bytes(changed[: int(len(changed) * (0.5 + keep))]), verify="decode")
    check_is_read(bytes(changed), resize_shorter_side=10)


def test_a_jpeg_of_any_sampling_is_kept_only_where_all_that_read_it_can():
    data = encode(RGB, "JPEG", subsampling=0)
    frame = data.index(b"\xff\xc0")
    kept = set()
    for luma, chroma in itertools.product(range(0x11, 0x45), repeat=2):
        changed = bytearray(data)
        changed[frame + 11], changed[frame + 14], changed[frame + 17] = luma, chroma, chroma
        if check_is_read(bytes(changed)):
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
    stored = [store(KEPT[n], encoding="raw", resize_shorter_side=32) for n in ("PNG", "grey PNG")]
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
