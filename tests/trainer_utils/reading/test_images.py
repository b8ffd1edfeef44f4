"""Batches of images against TensorFlow's decoders, Pillow and plain numpy."""

import gc
import importlib.util
import io
import os
import pickle
import signal
import struct
import sys
import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tests.make import refusing
from tests.trainer_utils.reading.jpegs import LARGE, ODD, PIXELS, PLAIN, cuts, encode, image_options
from trainer_utils import ConfigError, DatasetError
from trainer_utils.options.pixels import NORMALIZATIONS
from trainer_utils.reading.image_plans import are_mirrored, plan_images
from trainer_utils.reading.images import ImageDecoder
from trainer_utils.runtime.buffers import Buffers

KEYS = np.arange(1, 1000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
CROPS = {"augment": ["random_resized_crop"]}


def decode(images: list[Any], *, channels: int = 3, label_map: bool = False, **settings) -> Any:
    decoder = ImageDecoder(image_options(**settings), channels=channels, label_map=label_map)
    return decoder.decode(images, KEYS[: len(images)])


def by_tensorflow(data: bytes, channels: int = 3, ratio: int = 1) -> np.ndarray:
    settings = {"dct_method": "INTEGER_ACCURATE", "fancy_upscaling": True, "ratio": ratio}
    return tf.io.decode_jpeg(data, channels=channels, **settings).numpy()


def resized(pixels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    return np.rint(tf.image.resize(pixels, size).numpy())


def differences(one: Any, other: Any) -> tuple[float, float]:
    """Return the mean and the largest difference, in levels of 255."""
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    assert one.shape == other.shape
    return np.abs(one - other).mean(), np.abs(one - other).max()


# --- Pixels ---


@pytest.mark.parametrize("channels", [1, 3])
def test_jpegs_of_unchanged_size_equal_tensorflows(channels):
    for data in PLAIN:
        expected = by_tensorflow(data, channels)
        np.testing.assert_array_equal(decode([data], channels=channels)[0], expected)


def photos() -> list[np.ndarray]:
    """Return whole photos: scikit-learn's two, and scikit-image's if it is installed."""
    from sklearn.datasets import load_sample_images

    found = list(load_sample_images().images)
    skimage = importlib.util.find_spec("skimage")
    if skimage is not None and skimage.origin:
        names = "astronaut.png", "chelsea.png", "coffee.png", "retina.jpg", "rocket.jpg"
        files = [Path(skimage.origin).parent / "data" / name for name in names]
        found += [np.asarray(Image.open(file).convert("RGB")) for file in files if file.exists()]
    return found


@pytest.mark.parametrize(
    ("size", "kind"),
    [
        (None, {"quality": 85, "progressive": True}),
        ((224, 224), {"quality": 75}),
        ((224, 224), {"quality": 90, "mode": "CMYK"}),
        ((300, 100), {"quality": 92, "subsampling": 0}),
        ((700, 900), {"quality": 95}),
        ((64, 48), {"quality": 85, "progressive": True}),
    ],
)
def test_photos_are_within_two_to_eight_levels_of_tensorflow(size, kind):
    """Compare with the decoded scale, and with `tf.image.resize` of the whole image."""
    for photo in photos():
        data = encode(photo, **kind)
        for dct_scaling in (True, False):
            ratio = 1
            if size and dct_scaling and kind.get("mode") is None:
                ratio = plan_images(image_options(image_size=size), [photo.shape[:2]])[0].ratio
            expected = by_tensorflow(data, ratio=ratio)
            got = decode([data], image_size=size, dct_scaling=dct_scaling)[0]
            mean, most = differences(got, resized(expected, size) if size else expected)
            assert mean <= 0.5
            assert most <= 2


@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
@pytest.mark.parametrize("size", [(1, 1), (100, 60), (40, 400)])
def test_parts_are_cut_scaled_and_padded_like_tensorflow(resize, size, subtests):
    """Compute part and scale by hand: a displaced part would be many levels off."""
    for data in LARGE:
        with subtests.test(data=data):
            whole = by_tensorflow(data)
            top, left, (height, width) = 0, 0, whole.shape[:2]
            if resize == "crop":
                height = min(height, max(1, round(width * size[0] / size[1])))
                width = min(width, max(1, round(whole.shape[0] * size[1] / size[0])))
                top, left = (whole.shape[0] - height) // 2, (whole.shape[1] - width) // 2
            part = whole[top : top + height, left : left + width]
            scale = min(Fraction(most, side) for most, side in zip(size, part.shape, strict=False))
            inner = tuple(max(1, int(scale * side)) for side in part.shape[:2])
            expected = np.zeros((*size, 3))
            if resize != "pad":
                inner = size
            above, before = ((most - side) // 2 for most, side in zip(size, inner, strict=True))
            expected[above : above + inner[0], before : before + inner[1]] = resized(part, inner)
            got = decode([data], image_size=size, resize=resize, dct_scaling=False)[0]
            assert differences(got, expected)[1] <= 1


@pytest.mark.parametrize(
    ("size", "ratio", "resize"),
    [
        ((213, 319), 2, "stretch"),
        ((100, 100), 4, "crop"),
        ((60, 30), 4, "pad"),
        ((30, 50), 8, "stretch"),
        ((213, 319), 2, "random"),
    ],
)
def test_a_smaller_scale_moves_nothing_by_more_than_a_pixel(size, ratio, resize):
    """Encode the position in red and green, 0.4 and 0.6 levels a pixel."""
    ramps = np.full((427, 640, 3), 128, np.uint8)
    ramps[:, :, 0] = np.linspace(0, 255, 640).round()
    ramps[:, :, 1] = np.linspace(0, 255, 427).round()[:, np.newaxis]
    settings = CROPS if resize == "random" else {"resize": resize}
    if resize == "random":
        size, ratio = (size[0] // 3, size[1] // 3), 8
    data = [encode(ramps, quality=98)] * 8
    got = decode(data, image_size=size, **settings).astype(int)
    exact = decode(data, image_size=size, dct_scaling=False, **settings)
    assert not np.array_equal(got, exact)
    inner = (got.any(axis=3) & exact.any(axis=3))[:, 1:-1, 1:-1]
    off = np.abs(got - exact)[:, 1:-1, 1:-1][inner]
    assert off.max(axis=0)[0] <= 0.4 * ratio + 3
    assert off.max(axis=0)[1] <= 0.6 * ratio + 3


@pytest.mark.parametrize("augment", [["random_resized_crop"], ["random_resized_crop", "flip"]])
def test_random_crop_is_a_part_of_the_image(augment, subtests):
    settings = image_options(image_size=(48, 60), augment=augment, dct_scaling=False)
    sizes = [by_tensorflow(data).shape[:2] for data in LARGE]
    plans = plan_images(settings, sizes, KEYS[: len(LARGE)])
    got = ImageDecoder(settings, channels=3).decode(LARGE, KEYS[: len(LARGE)])
    for data, plan, image in zip(LARGE, plans, got, strict=True):
        with subtests.test(data=data):
            top, left, height, width = plan.box
            part = by_tensorflow(data)[top : top + height, left : left + width]
            expected = resized(part, (48, 60))
            assert differences(image, expected[:, ::-1] if plan.is_mirrored else expected)[1] <= 1
    mirrored = sum(plan.is_mirrored for plan in plans)
    assert 0 < mirrored < len(LARGE) if "flip" in augment else mirrored == 0


# --- Other formats ---


def png16(pixels: np.ndarray) -> bytes:
    """Encode 16-bit colours, which Pillow does not write."""
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + (row.astype(">u2") * 256 + 77).tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    parts = [
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def files() -> dict[str, bytes]:
    colour, grey = Image.fromarray(PIXELS), Image.fromarray(PIXELS[..., 0])
    clear = colour.copy()
    clear.putalpha(grey)

    def save(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
        stream = io.BytesIO()
        image.save(stream, kind, **options)
        return stream.getvalue()

    return {
        **{name: data for name, data in ODD.items() if name not in ("end missing", "JPEG")},
        "BMP": save(colour, "BMP"),
        "grey BMP": save(grey, "BMP"),
        "colour GIF": save(colour, "GIF"),
        "film": save(grey, "GIF", save_all=True, append_images=[grey.rotate(90)] * 2),
        "PNG with alpha": save(clear),
        "grey PNG with alpha": save(clear.convert("LA")),
        "indexed PNG": save(colour.convert("P")),
        "indexed PNG with alpha": save(colour.convert("P"), transparency=3),
        "PNG of 1 bit": save(colour.convert("1")),
        "grey PNG of 16 bits": save(Image.fromarray(PIXELS[..., 0].astype(np.uint16) * 257)),
        "PNG of 16 bits": png16(PIXELS),
        "JPEG 4:1:1": _with_sampling(0x41),
        "JPEG 4:4:1": _with_sampling(0x14),
    }


def _with_sampling(luma: int) -> bytes:
    """Return the blocks of a 4:2:0 JPEG as another sampling with the same number of blocks."""
    data = encode(cuts([(64, 64)])[0], subsampling=2)
    place = data.index(b"\xff\xc0") + 11
    return data[:place] + bytes([luma]) + data[place + 1 :]


FILES = files()


@pytest.mark.parametrize("name", FILES)
def test_every_format_has_tensorflows_pixels(name):
    for channels in (1, 3):
        check_format(name, FILES[name], channels)


def check_format(name: str, data: bytes, channels: int) -> None:
    if data.startswith((b"BM", b"GIF")):
        expected = tf.io.decode_image(data, expand_animations=False).numpy()[..., :3]
        if channels == 1:
            expected = np.asarray(Image.fromarray(np.squeeze(expected)).convert("L"))[..., None]
        expected = np.broadcast_to(expected, (*expected.shape[:2], channels))
    elif (name, channels) == ("CMYK", 1):  # TensorFlow rejects it
        expected = np.asarray(Image.fromarray(by_tensorflow(data)).convert("L"))[..., None]
    else:
        expected = by_tensorflow(data, channels)
    got = decode([data], channels=channels)[0]
    mean, most = differences(got, expected)
    assert mean <= 0.5
    assert most <= 2


def test_exif_orientation_is_ignored():
    exif = Image.Exif()
    exif[0x0112] = 6
    for kind in ("JPEG", "PNG"):
        np.testing.assert_array_equal(
            decode([encode(PIXELS, kind, exif=exif)]), decode([encode(PIXELS, kind)])
        )


@pytest.mark.parametrize("resize", ["stretch", "random"])
def test_damaged_images_are_handled_like_in_tensorflow(resize):
    rng = np.random.default_rng(3)
    settings = CROPS if resize == "random" else {"resize": resize}
    images = [b"", b"\xff", b"\xff\xd8\xff", b"no image", b"\x89PNG\r\n\x1a\n", ODD["end missing"]]
    for data in (LARGE[0], LARGE[4], LARGE[-1], ODD["PNG"]):
        images += [data[: int(rng.integers(0, len(data)))] for _ in range(6)]
        for _ in range(12):
            noisy = bytearray(data)
            noisy[int(rng.integers(2, 700 if rng.random() < 0.4 else len(data) - 2))] ^= 0x55
            images.append(bytes(noisy))
    decoder = ImageDecoder(image_options(image_size=(50, 50), **settings), channels=3)
    alike, failed = 0, []
    for row, data in enumerate(images):
        try:
            decoder.decode([data], KEYS[row : row + 1])
        except Exception:
            failed.append(row)
        try:
            by_tensorflow(data)
        except tf.errors.InvalidArgumentError:
            alike += row in failed
        else:
            alike += row not in failed
    assert 5 < len(failed) < len(images)
    assert alike >= 0.95 * len(images)  # Pillow rejects some headers that libjpeg accepts


# --- Values ---


RAMP = np.arange(256, dtype=np.uint8).reshape(16, 16, 1)
STEPS = {"float32": 2**-23, "bfloat16": 2**-7, "float16": 2**-10}  # relative, for each type
GIVEN = ["unit", "symmetric", "imagenet", (10, 3.5), ((1, 2, 3), (4, 5, 6))]


@pytest.mark.parametrize(
    ("given", "dtype"),
    [*((given, "float32") for given in GIVEN), ("imagenet", "bfloat16"), ("unit", "float16")],
    ids=str,
)
def test_normalized_values_follow_the_formula(given, dtype):
    pixels = np.concatenate([RAMP, RAMP[::-1], RAMP.transpose(1, 0, 2)], axis=-1)
    pair = NORMALIZATIONS[given] if isinstance(given, str) else given
    mean, deviation = (np.asarray(part, np.float64) for part in pair)
    (written,) = decode([pixels], normalize=given, dtype=dtype)
    expected = (pixels.astype(np.float64) - mean) / deviation
    assert written.dtype == tf.as_dtype(dtype).as_numpy_dtype
    scale = np.abs(expected).max()
    np.testing.assert_allclose(written.astype(np.float64), expected, atol=STEPS[dtype] * scale)


def test_bfloat16_without_ml_dtypes_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ConfigError, match=r"dtype: expected float32 or float16 .*'bfloat16'"):
        decode([PIXELS], normalize="unit", dtype="bfloat16")


# --- Batches ---


SETTINGS: list[dict[str, Any]] = [
    {},
    {"augment": "random_resized_crop"},
    {"resize": "pad", "augment": ["flip"], "normalize": "imagenet"},
    {"augment": ["random_resized_crop", "colour", "rotation", "blur"], "dtype": "float16",
     "normalize": "unit"},
]  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS)
def test_an_image_is_the_same_in_any_batch_and_thread_count(settings, monkeypatch):
    images = [*LARGE, *(FILES[name] for name in ("PNG", "GIF", "CMYK"))]
    keys = KEYS[: len(images)]
    chosen = image_options(image_size=(32, 40), **settings)
    decoder = ImageDecoder(chosen, channels=3)
    expected = decoder.decode(images, keys)
    assert expected.shape == (len(images), 32, 40, 3) == (len(images), *decoder.shape)
    assert expected.dtype == decoder.dtype
    order = np.random.default_rng(0).permutation(len(images))
    shuffled = decoder.decode([images[n] for n in order], keys[order])
    np.testing.assert_array_equal(shuffled, expected[order])
    views = [memoryview(data) for data in images]
    np.testing.assert_array_equal(decoder.decode(views, keys), expected)
    for most in (1, 7):
        monkeypatch.setattr("trainer_utils.runtime.threads.most_threads", most)
        np.testing.assert_array_equal(decoder.decode(images, keys), expected)
    copied = pickle.loads(pickle.dumps(decoder))
    np.testing.assert_array_equal(copied.decode(images, keys), expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_decodes_the_same_pixels(monkeypatch):
    """Decode in new threads, since the parent's, which also decoded, do not exist here."""
    monkeypatch.setattr("trainer_utils.runtime.threads.usable_cores", lambda: 4)
    decoder = ImageDecoder(image_options(image_size=(32, 40)), channels=3)
    expected = decoder.decode(LARGE)
    child = os.fork()
    if not child:
        signal.alarm(60)
        os._exit(int(not np.array_equal(decoder.decode(LARGE), expected)))
    assert os.waitpid(child, 0)[1] == 0


def test_images_of_several_sizes_need_an_image_size():
    photos = cuts([(40, 48)] * 3)
    images = [encode(photos[0]), encode(photos[1], "PNG"), encode(photos[2], progressive=True)]
    batch = decode(images)
    for got, data in zip(batch, images, strict=True):
        np.testing.assert_array_equal(got, by_tensorflow(data))
    with pytest.raises(DatasetError, match=r"\(30, 48\), \(40, 48\).*Set image_size"):
        decode([*images, encode(photos[0][:30])])
    assert decode([]).shape == (0, 0, 0, 3)
    assert decode([], image_size=(5, 6)).shape == (0, 5, 6, 3)


def test_unused_memory_is_used_again():
    buffers = Buffers()
    first = buffers.take((3, 5, 7), np.float32)
    address = first.ctypes.data
    assert address % 64 == 0
    part = first[1:]
    second = buffers.take((3, 5, 7), np.float32)
    del first
    assert part.base is not None
    assert second.ctypes.data != address
    del part
    gc.collect()
    assert buffers.take((3, 5, 7), np.float32).ctypes.data == address


def test_memory_with_a_live_view_is_not_used_again():
    buffers = Buffers()
    part = buffers.take((4, 16), np.uint8)[1:]
    part[:] = 7
    for _ in range(8):
        pickle.loads(pickle.dumps(buffers)).take((4, 16), np.uint8)[:] = 0
        buffers.take((4, 16), np.uint8)[:] = 0
    assert (part == 7).all()
    view = memoryview(part)  # like a framework that shares the memory
    del part
    for _ in range(8):
        buffers.take((4, 16), np.uint8)[:] = 0
    assert set(view.tobytes()) == {7}


# --- Raw pixels, and label maps ---


@pytest.mark.parametrize("resize", ["pad", "random"])
def test_raw_pixels_decode_like_the_encoded_image(resize):
    settings = CROPS if resize == "random" else {"resize": resize}
    pixels = np.stack(cuts([(96, 128)] * 4))
    images = [encode(one, "PNG") for one in pixels]
    for size in [(32, 48), (96, 128), (200, 100)]:
        for more in ({}, {"normalize": "unit"}):
            chosen = image_options(image_size=size, **settings, **more)
            decoder = ImageDecoder(chosen, channels=3)
            expected = decoder.decode(images, KEYS[:4])
            np.testing.assert_array_equal(decoder.decode([*pixels], KEYS[:4]), expected)


@pytest.mark.parametrize("settings", [{}, {"resize": "pad"}, CROPS])
def test_label_maps_keep_class_ids(settings, subtests):
    ids = np.arange(40 * 60, dtype=np.uint8).reshape(40, 60) % 7 * 30
    indexed = Image.fromarray(ids)
    indexed.putpalette(np.random.default_rng(0).integers(0, 256, 768).tolist())
    stream = io.BytesIO()
    indexed.save(stream, "PNG")
    for size in [(17, 23), (80, 120), (40, 60)]:
        with subtests.test(size=size):
            chosen = {"image_size": size, "normalize": "imagenet", **settings}
            for data in (encode(ids, "PNG"), stream.getvalue()):
                got = decode([data], channels=1, label_map=True, **chosen)
                assert got.shape == (1, *size, 1)
                assert got.dtype == np.uint8
                assert set(got.flat) <= {0, *ids.flat}
    if not settings:
        expected = tf.image.resize(ids[..., None], (16, 24), "nearest").numpy()  # without ties
        got = decode([encode(ids, "PNG")], channels=1, label_map=True, image_size=(16, 24))
        np.testing.assert_array_equal(got[0], expected)


# --- Augmentation ---


def test_flip_mirrors_half_of_the_images():
    images = decode([encode(PIXELS, "PNG")] * 200, augment=["flip"])
    mirrored = are_mirrored(KEYS[:200])
    for image, is_mirrored in zip(images, mirrored, strict=True):
        np.testing.assert_array_equal(image, PIXELS[:, ::-1] if is_mirrored else PIXELS)
    assert 75 <= mirrored.sum() <= 125  # binomial: 100, standard deviation 7


def invert(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    image[:] = 255 - image
    return np.roll(image, int(rng.integers(0, 50)), axis=1)


def test_functions_get_the_generator_of_the_key():
    """Run functions between other operations; they may modify their copy, but not the dataset."""
    pixels = np.stack([PIXELS] * 8)
    before = pixels.copy()
    decoder = ImageDecoder(image_options(augment=["flip", invert]), channels=3)
    changed = decoder.decode([*pixels], KEYS[:8])
    np.testing.assert_array_equal(pixels, before)
    np.testing.assert_array_equal(decoder.decode([*pixels], KEYS[:8]), changed)
    for image, is_mirrored in zip(changed, are_mirrored(KEYS[:8]), strict=True):
        whole = 255 - (PIXELS[:, ::-1] if is_mirrored else PIXELS)
        assert any(np.array_equal(np.roll(whole, n, axis=1), image) for n in range(50))
    assert len({image.tobytes() for image in changed}) > 4
    alone = ImageDecoder(image_options(augment=invert), channels=3)
    assert alone.decode([*pixels], KEYS[:8]).shape == pixels.shape


def test_errors_of_functions_are_not_blamed_on_images(subtests):
    def fail(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        raise KeyError("mine")

    for made in (PIXELS / 2, PIXELS[:3], None):
        with subtests.test(made=made), refusing("augment"):
            decode([encode(PIXELS)], augment=[lambda image, rng, made=made: made])
    decoder = ImageDecoder(image_options(augment=[fail]), channels=3)
    with pytest.raises(KeyError, match="mine"):
        decoder.decode([encode(PIXELS)], KEYS[:1])


def test_missing_size_or_wrong_channels_are_refused(subtests):
    for part in ({"augment": "random_resized_crop"}, {"resize": "pad"}):
        with subtests.test(part=part), refusing("image_size"):
            image_options(**part)
    with refusing("normalize"):
        decode([LARGE[0]], channels=1, normalize="imagenet")
