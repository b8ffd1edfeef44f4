"""Test that TensorFlow reads stored images as Pillow reads the originals, for every kind."""

import contextlib
import io
import itertools
import struct

import numpy as np
import pytest
import simplejpeg
import tensorflow as tf
from PIL import Image, ImageOps

import trainer_utils
from components.inputs.rejects import RejectedInputError
from components.media.images import StoredImage, store_image, store_label_map
from components.media.options import ImageOptions
from tests.components.media import damage, variants
from tests.components.media.variants import GREY, HEIGHT, RGB, WIDTH
from tests.make import encode
from trainer_utils.format import Feature

VARIANTS = variants.variants()
KEPT = ("JPEG 2", "JPEG, progressive", "JPEG, grey", "PNG RGB", "PNG grey 8", "PNG RGBA")
TURNED_BACK = {6: Image.Transpose.ROTATE_90, 3: Image.Transpose.ROTATE_180}


def store(data: bytes, **options: object) -> StoredImage:
    return store_image(data, ImageOptions(**options), filename="photo")


def stored_or_none(data: bytes, **options: object) -> StoredImage | None:
    with contextlib.suppress(RejectedInputError):
        return store(data, **options)
    return None


def read(stored: StoredImage) -> np.ndarray:
    """Read the image with the op that Datum uses."""
    return tf.io.decode_jpeg(stored.data, dct_method="INTEGER_ACCURATE").numpy()


def original(data: bytes) -> Image.Image:
    """Return Pillow's image of a file, upright."""
    image = Image.open(io.BytesIO(data))
    image.load()
    try:
        image = ImageOps.exif_transpose(image)
    except Exception:  # damaged EXIF
        image = Image.open(io.BytesIO(data))
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return image


def colours(pixels: np.ndarray) -> np.ndarray:
    grey = pixels.shape[2] < 3
    return np.repeat(pixels[:, :, :1], 3, axis=2) if grey else pixels[:, :, :3]


@pytest.mark.parametrize("kind", sorted({name.split(",")[0].split()[0] for name in VARIANTS}))
def test_stored_image_is_read_as_the_original(kind):
    for name in VARIANTS:
        if name.split(",")[0].split()[0] == kind:
            for verify in ("structure", "decode"):
                check_stored(name, verify=verify)


def check_stored(name: str, *, verify: str) -> None:
    data = VARIANTS[name]
    stored = stored_or_none(data, verify=verify)
    assert (stored is None) == (name in NONE), name
    if stored is None:
        return
    image = original(data)
    pixels = read(stored)
    assert pixels.shape == (stored.height, stored.width, stored.channels), name
    assert (stored.width, stored.height) == image.size, name
    expected = np.asarray(image.convert("RGB"))
    difference = np.abs(colours(pixels).astype(int) - expected).mean()
    is_encoded_anew = stored.data is not data and stored.format == "JPEG"
    most = 2.0 if is_encoded_anew else 0.1 if stored.format == "JPEG" else 0
    assert difference <= most, name
    if stored.channels in (2, 4) and stored.format == "PNG":
        alpha = np.asarray(image.convert("RGBA"))[:, :, 3]
        assert np.array_equal(pixels[:, :, -1], alpha), name
    assert (stored.data is data) == (not set(stored.conversions) - {"WRONG_EXTENSION"}), name


NONE = {  # variants that are rejected
    *("BMP, cut", "GIF, cut", "GIF, cut, with a trailer", "PNG, a chunk between its pixels"),
    *("PNG without its end", "PNG, interlaced in a way unknown", "PNG, no palette"),
    *("JPEG, 12 bits", "JPEG, said to be arithmetic", "JPEG, progressive, said to be arithmetic"),
    *("JPEG, arithmetic, said to be baseline", "JPEG without its end"),
    *("JPEG, progressive, without its end", "JPEG, cut", "JPEG, two frames"),
    *("JPEG, another frame first", "JPEG, no scan", "JPEG, no quantizers"),
    *("JPEG, sampling: fractions", "JPEG, sampling: four", "JPEG, sampling: zero"),
    *("JPEG without height", "JPEG without width"),
}


def test_files_that_both_libraries_read_alike_are_kept(subtests):
    for name in (
        *KEPT,
        *(f"JPEG, {more} after its end" for more in ("more", "a file")),
        *(f"PNG, {more} after its end" for more in ("more", "a file")),
        *(f"JPEG, bad EXIF: {how}" for how in ("no TIFF", "empty", "cut", "endless", "of zeros")),
        *(f"PNG, bad eXIf {where}" for where in ("first", "last")),
    ):
        with subtests.test(name=name):
            stored = store(VARIANTS[name])
            assert (stored.data, stored.conversions) == (VARIANTS[name], ()), name


COUNTED = {  # the stored format, and the reason
    "BMP, more after its pixels": ("PNG", "BMP"),
    "GIF, transparent": ("PNG", "GIF"),
    "GIF, two frames": ("PNG", "ANIMATION"),
    "GIF, no trailer": ("PNG", "GIF"),
    "GIF, text after its trailer": ("PNG", "GIF"),
    "JPEG, arithmetic": ("JPEG", "JPEG_VARIANT"),
    "JPEG, no tables": ("JPEG", "JPEG_VARIANT"),
    "JPEG, lossless": ("PNG", "JPEG_VARIANT"),
    "JPEG, zeros for its end": ("JPEG", "JPEG_VARIANT"),
    "JPEG in CMYK, Adobe 2": ("JPEG", "CMYK"),
    "PNG palette 8": ("PNG", "PALETTE"),
    "PNG grey 1": ("PNG", "BIT_DEPTH"),
    "PNG RGB 16": ("PNG", "SIXTEEN_BIT"),
    "PNG, an unknown critical chunk": ("PNG", "PNG_VARIANT"),
    "PNG, EXIF in zTXt last": ("PNG", "ORIENTATION"),
    "PNG, XMP first": ("PNG", "ORIENTATION"),
    "TIFF None, 6": ("PNG", "ORIENTATION"),
    "TIFF None, 1": ("PNG", "TIFF"),
    "WebP, lossless True, 1": ("PNG", "WEBP"),
    "WebP, lossless False, 1": ("JPEG", "WEBP"),
}


def test_conversions_are_counted_by_their_reason(subtests):
    for name, (kind, word) in COUNTED.items():
        with subtests.test(name=name):
            stored = store(VARIANTS[name])
            assert (stored.format, word in stored.conversions) == (kind, True), name


@pytest.mark.parametrize("name", [n for n in VARIANTS if n.startswith("TIFF") and n[-1] in "36"])
def test_tiff_is_not_rotated_if_orientation_is_kept(name):
    data, orientation = VARIANTS[name], int(name[-1])
    lies = original(data).transpose(TURNED_BACK[orientation])
    assert np.array_equal(read(store(data, orientation="keep")), np.asarray(lies))
    tag = Image.Exif()
    tag[0x0112] = orientation
    ids = store_label_map(encode(GREY, "TIFF", exif=tag), ImageOptions(orientation="keep"))
    assert np.array_equal(read(ids)[:, :, 0], np.asarray(GREY))


def test_photo_is_rotated_by_its_exif_tag_or_kept():
    for orientation in range(1, 9):
        data = VARIANTS[f"JPEG, turned {orientation}"]
        stored = store(data)
        assert stored.conversions == (("ORIENTATION",) if orientation > 1 else ())
        assert Image.open(io.BytesIO(stored.data)).getexif().get(0x0112, 1) == 1
        assert store(data, orientation="keep").data is data


def refused_by_tensorflow(stored: StoredImage) -> bool:
    try:
        read(stored)
    except tf.errors.OpError:
        return True
    return False


@pytest.mark.parametrize(
    ("options", "most"),
    [({"verify": "structure"}, 3), ({"verify": "decode"}, 0), ({"resize_shorter_side": 10}, 0)],
    ids=str,
)
def test_stored_damaged_images_are_readable_by_tensorflow(options, most):
    """Allow a few failures with `structure`, which does not decode; the files never change."""
    files = damage.whole_files()
    if "verify" in options:
        kept = [data for data in files if store(data, **options).data is data]
        assert kept == [data for data in files if data[:4] in (b"\x89PNG", b"\xff\xd8\xff\xe0")]
    made = list(damage.damaged(files, 2000, seed=1))
    stored = [one for one in (stored_or_none(data, **options) for data in made) if one is not None]
    assert sum(map(refused_by_tensorflow, stored)) <= most
    assert 500 < len(stored) < 1500  # otherwise the test tried nothing


@pytest.mark.parametrize(
    ("name", "kind", "mode"),
    [("JPEG 2", "JPEG", "RGB"), ("JPEG, grey", "JPEG", "L"), ("PNG RGBA", "PNG", "RGBA")],
)
def test_larger_images_are_resized(name, kind, mode):
    data = VARIANTS[name]
    stored = store(data, resize_shorter_side=20)
    image = Image.open(io.BytesIO(stored.data))
    assert (image.format, image.mode, image.size) == (kind, mode, (30, 20))
    assert (stored.height, stored.width, stored.conversions) == (20, 30, ("RESIZED",))
    assert store(data, resize_shorter_side=HEIGHT).data is data


@pytest.mark.parametrize(("name", "side"), [("JPEG 2", 16), ("PNG grey 8", 100)])
def test_raw_images_are_square_pixel_arrays(name, side):
    stored = store(VARIANTS[name], encoding="raw", resize_shorter_side=side)
    assert (stored.format, stored.height, stored.width, stored.channels) == ("RAW", side, side, 3)
    pixels = np.frombuffer(stored.data, np.uint8).reshape(side, side, 3)
    width = round(WIDTH * side / HEIGHT)
    left = (width - side) // 2
    whole = RGB.resize((width, side), Image.Resampling.LANCZOS)
    assert np.abs(pixels.astype(int) - whole.crop((left, 0, left + side, side))).mean() < 40


def tiff_of(**entries: int) -> bytes:
    """Return a TIFF with other values in some entries of its header."""
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


def test_unusable_image_is_rejected_with_its_code(subtests):
    for data, code in REFUSED.values():
        # The detail is the same in every run: it contains no address of an object.
        with subtests.test(data=data):
            with pytest.raises(RejectedInputError, match=rf"^(?!.*0x.{{9}}).*{code}"):
                store(data)
    with pytest.raises(RejectedInputError, match="TOO_MANY_PIXELS"):
        store(VARIANTS["JPEG 2"], max_pixels=WIDTH * HEIGHT - 1)


def test_jpeg_is_kept_only_if_its_sampling_is_readable():
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
        assert read(stored).shape == (stored.height, stored.width, 3)
        if stored.data == changed:
            with contextlib.suppress(ValueError):  # for unsupported sampling
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
def test_label_map_is_stored_as_its_ids(data, conversions):
    stored = store_label_map(data, ImageOptions())
    assert np.array_equal(read(stored)[:, :, 0], IDS)
    assert (stored.channels, stored.conversions) == (1, conversions)


def test_label_map_of_colours_or_large_ids_is_rejected(subtests):
    for image in (RGB, Image.fromarray(np.full((4, 4), 300, np.uint16))):
        with subtests.test(image=image):
            with pytest.raises(RejectedInputError, match="NOT_A_LABEL_MAP"):
                store_label_map(encode(image, "PNG"), ImageOptions())


def test_trainer_reads_raw_pixels(tmp_path, write_dataset):
    raw = {"encoding": "raw", "resize_shorter_side": 32}
    stored = [store(VARIANTS[name], **raw).data for name in ("PNG RGB", "PNG grey 8")]
    feature = Feature(type="string", extra={"encoding": "raw", "image_shape": [32, 32, 3]})
    rows = [{"image": [data]} for data in stored]
    uri = write_dataset(tmp_path / "raw", {"train": [rows]}, {"image": feature})
    (images,) = trainer_utils.iterate(uri, batch_size=2, features="image", shuffle=False)
    assert (images.shape, images.dtype) == ((2, 32, 32, 3), np.uint8)
    assert images.tobytes() == b"".join(stored)
