"""The turbo decoder against TensorFlow's: the same pixels, crops and errors."""

import gc
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer_utils.reading.jpegs import LARGE, ODD, PLAIN, encode
from trainer_utils import ConfigError, InputOptions, input_fn
from trainer_utils.format import Feature
from trainer_utils.reading import decoding_threads
from trainer_utils.reading.images import ImageReading

pytest.importorskip("cv2")

REPOSITORY = Path(__file__).parents[3]


def seeds_of(count: int) -> np.ndarray:
    return np.stack([np.arange(count), np.full(count, 9)], axis=1)


def by_tensorflow(images: list[bytes], channels: int = 3, **settings: Any) -> list[Any]:
    """One by one; where TensorFlow refuses one, its error."""
    reading = ImageReading(**settings)
    read = tf.function(
        lambda data, seed: reading.decode(data, channels=channels, seed=seed),
        input_signature=[tf.TensorSpec((), tf.string), tf.TensorSpec((2,), tf.int64)],
        autograph=False,
    )
    results: list[Any] = []
    for data, seed in zip(images, seeds_of(len(images)), strict=True):
        try:
            results.append(read(data, seed).numpy())
        except tf.errors.InvalidArgumentError as error:
            results.append(error)
    return results


def turbo_of(channels: int = 3, **settings: Any) -> Any:
    """A function of images, whose seeds are those of their places from `first` on."""
    reading = ImageReading(decoder="turbo", **settings)
    decode = tf.function(
        lambda data, seeds: reading.decode(data, channels=channels, seed=seeds),
        input_signature=[tf.TensorSpec((None,), tf.string), tf.TensorSpec((None, 2), tf.int64)],
        autograph=False,
    )

    def read(images: list[bytes], first: int = 0) -> np.ndarray:
        return decode(images, seeds_of(first + len(images))[first:]).numpy()

    return read


def by_turbo(images: list[bytes], channels: int = 3, **settings: Any) -> np.ndarray:
    return turbo_of(channels, **settings)(images)


def most_levels(one: Any, other: Any) -> float:
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    assert one.shape == other.shape
    return float(np.abs(one - other).max())


CROPS = {"augment": "random_resized_crop"}


# --- Pixels ---


@pytest.mark.parametrize("channels", [1, 3])
def test_jpegs_of_their_own_size_are_those_of_tensorflow_to_the_bit(channels):
    read = turbo_of(channels)
    for data in PLAIN:
        expected = tf.io.decode_jpeg(data, channels=channels, dct_method="INTEGER_ACCURATE")
        np.testing.assert_array_equal(read([data])[0], expected)


@pytest.mark.parametrize(
    "settings",
    [
        *({"image_size": size} for size in [(1, 1), (30, 41), (100, 90), (224, 224), (400, 30)]),
        {"image_size": (64, 64), "dct_scaling": False},
        {"image_size": (100, 60), "resize": "crop"},
        {"image_size": (30, 40), "resize": "crop", "channels": 1},
        {"image_size": (224, 224), "resize": "crop", "flip": True},
        {"image_size": (112, 40), "resize": "pad"},
        {"image_size": (30, 41), "resize": "pad", "flip": True},
        {"image_size": (224, 224), **CROPS},
        {"image_size": (48, 60), **CROPS},
        {"image_size": (20, 20), **CROPS, "crop_area": (0.3, 1.0), "channels": 1},
        {"image_size": (64, 64), **CROPS, "dct_scaling": False, "flip": False},
    ],
    ids=str,
)
def test_pixels_are_those_of_tensorflow_within_a_level(settings):
    """The same part, scale and mirroring: of any other, edges and noise are many levels off."""
    expected = by_tensorflow(PLAIN, **settings)
    got = by_turbo(PLAIN, **settings)
    assert got.dtype == np.uint8
    assert [most_levels(*pair) <= 1 for pair in zip(got, expected, strict=True)] == [True] * 63


@pytest.mark.parametrize("resize", ["stretch", "crop"])
def test_crops_are_cut_of_the_whole_decoded_image(resize):
    """TensorFlow's too: at the border of a part libjpeg lacks the neighbours of its colours."""
    for data in LARGE[:7]:
        whole = tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE").numpy()
        size = (whole.shape[0], 57) if resize == "crop" else whole.shape[:2]
        left = (whole.shape[1] - size[1]) // 2
        for read in (by_turbo, by_tensorflow):
            got = read([data], image_size=size, resize=resize)[0]
            np.testing.assert_array_equal(got, whole[:, left : left + size[1]])


@pytest.mark.parametrize(
    "settings", [{"image_size": (30, 40)}, {"image_size": (40, 40), **CROPS}], ids=str
)
def test_what_is_no_plain_jpeg_is_decoded_too(settings):
    images = [*ODD.values(), *LARGE[:2]]
    results = by_tensorflow(images, **settings)
    good = [n for n, result in enumerate(results) if not isinstance(result, Exception)]
    assert len(good) >= len(images) - 1
    read = turbo_of(**settings)
    for n in good:
        assert most_levels(read([images[n]], first=n)[0], results[n]) <= 1
    if len(good) == len(images):
        assert max(map(most_levels, read(images), results)) <= 1


@pytest.mark.parametrize("resize", ["stretch", "crop", CROPS["augment"]])
def test_damaged_images_come_out_or_are_refused_as_by_tensorflow(resize):
    rng = np.random.default_rng(3)
    settings = {"augment": resize} if resize in CROPS.values() else {"resize": resize}
    images = [b"", b"\xff", b"\xff\xd8\xff", b"no image", ODD["end missing"]]
    for data in (LARGE[0], LARGE[4], LARGE[-1]):
        images += [data[: int(rng.integers(0, len(data)))] for _ in range(6)]
        for _ in range(12):
            noisy = bytearray(data)
            noisy[int(rng.integers(2, 700 if rng.random() < 0.4 else len(data) - 2))] ^= 0x55
            images.append(bytes(noisy))
    results = by_tensorflow(images, image_size=(50, 50), **settings)
    read = turbo_of(image_size=(50, 50), **settings)
    for n, (data, expected) in enumerate(zip(images, results, strict=True)):
        if isinstance(expected, Exception):
            with pytest.raises(tf.errors.InvalidArgumentError):
                read([data], first=n)
        else:
            assert most_levels(read([data], first=n)[0], expected) <= 1
    assert 5 < sum(isinstance(result, Exception) for result in results) < len(images)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("normalize", ["unit", "symmetric", "imagenet", ((1, 2, 3), 4), (9, 5)])
@pytest.mark.parametrize("flip", [True, False])
def test_normalised_values_are_those_of_the_uint8_image(dtype, normalize, flip):
    settings: dict[str, Any] = {"image_size": (20, 30), "flip": flip}
    levels = by_turbo(LARGE[:9], **settings).astype(np.float64)
    named = {
        "unit": (0, 255),
        "symmetric": (127.5, 127.5),
        "imagenet": (
            np.array([0.485, 0.456, 0.406]) * 255,
            np.array([0.229, 0.224, 0.225]) * 255,
        ),
    }
    mean, deviation = named[normalize] if isinstance(normalize, str) else normalize
    expected = (levels - np.asarray(mean)) / np.asarray(deviation)
    got = by_turbo(LARGE[:9], normalize=normalize, image_dtype=dtype, **settings)
    assert got.dtype == tf.as_dtype(dtype).as_numpy_dtype
    step = {"float32": 2.0**-22, "bfloat16": 2.0**-8, "float16": 2.0**-10}[dtype]
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=step, atol=2e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_raw_images_are_normalised_too(tmp_path, photos, write_dataset, dtype):
    raw = Feature(type="string", extra={"encoding": "raw", "image_shape": [40, 48, 3]})
    examples = [{"image": [photo.tobytes()]} for photo in photos[:9]]
    uri = write_dataset(tmp_path, {"train": [examples]}, {"image": raw})
    settings: dict[str, Any] = {"features": "image", "normalize": "imagenet", "shuffle": False}
    settings.update(image_dtype=dtype, batch_size=4)
    for turbo, plain in zip(
        input_fn(uri, decoder="turbo", **settings),
        input_fn(uri, decoder="tensorflow", **settings),
        strict=True,
    ):
        assert turbo.dtype == plain.dtype == tf.as_dtype(dtype)
        step = 2.0**-8 if dtype == "bfloat16" else 2.0**-21
        turbo, plain = (tf.cast(one, tf.float32).numpy() for one in (turbo, plain))
        np.testing.assert_allclose(turbo, plain, rtol=step, atol=2e-6)


# --- Batches of a dataset ---


@pytest.fixture(scope="module")
def uri(tmp_path_factory, write_dataset) -> str:
    images = [*LARGE, *ODD.values()]
    images.pop(-3)  # without its end
    examples = [{"image": [data], "id": [n]} for n, data in enumerate(images)]
    features = {
        "image": Feature(type="string", shape=(40, 48, 3), extra={"sizes": "mixed"}),
        "id": Feature(type="int"),
    }
    shards = [examples[:10], examples[10:19], examples[19:]]
    return write_dataset(tmp_path_factory.mktemp("mixed"), {"train": shards}, features)


def epoch(uri: str, **settings: Any) -> dict[int, np.ndarray]:
    dataset = input_fn(uri, features="image", label="id", **{"batch_size": 6, **settings})
    if settings.get("batch_size", 6) is None:
        dataset = dataset.batch(1)
    return {
        int(number): image
        for images, numbers in dataset.as_numpy_iterator()
        for number, image in zip(numbers, images, strict=True)
    }


SETTINGS = [{"image_size": (32, 40)}, {"image_size": (32, 32), **CROPS}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_input_fn_gives_the_same_with_either_decoder(uri, settings):
    expected = epoch(uri, decoder="tensorflow", **settings)
    for name in ("turbo", "auto"):
        got = epoch(uri, decoder=name, **settings)
        assert got.keys() == expected.keys() == set(range(28))
        assert max(most_levels(got[n], expected[n]) for n in got) <= 1
    # And auto is the turbo decoder, which a resize shows.
    assert any(not np.array_equal(got[n], expected[n]) for n in got)


def test_batches_that_are_kept_stay_as_they_are(uri):
    """Although memory is used again: here batches of three epochs, in floats, all at once."""
    settings = {"features": "image", "normalize": "unit", "shuffle": False, "batch_size": 4}
    dataset = input_fn(uri, repeat=3, decoder="turbo", image_size=(64, 64), **settings)
    kept = list(dataset)
    parts = [batch[1:, 5] for batch in kept]
    assert len(kept) == 21
    for first, second, third in zip(kept[:7], kept[7:14], kept[14:], strict=True):
        np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(first, third)
    del kept, first, second, third
    list(dataset)
    for first, second in zip(parts[:7], parts[7:14], strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_record_comes_out_the_same_in_any_batch_and_with_any_number_of_threads(
    uri, settings, monkeypatch
):
    expected = epoch(uri, decoder="turbo", **settings)
    ways: list[dict[str, Any]] = [
        {"batch_size": 1},
        {"batch_size": 28},
        {"batch_size": None},
        {"batch_size": 5, "remainder": "pad", "shuffle": "global"},
        {"pre_batching_callback": lambda example: example},
        {"post_batching_callback": lambda batch: batch},
    ]
    for way in ways:
        if way.get("remainder"):
            batches = input_fn(uri, **settings, **way, decoder="turbo").as_numpy_iterator()
            got = {
                int(n): image
                for batch in batches
                for n, image, weight in zip(batch["id"], batch["image"], batch["mask"], strict=True)
                if weight
            }
        else:
            got = epoch(uri, decoder="turbo", **settings, **way)
        assert got.keys() == expected.keys()
        assert all(np.array_equal(got[n], expected[n]) for n in got), way
    for cores in (1, 7):
        monkeypatch.setattr(decoding_threads, "usable_cores", lambda cores=cores: cores)
        got = epoch(uri, decoder="turbo", **settings)
        assert all(np.array_equal(got[n], expected[n]) for n in got)


def test_a_resumed_input_goes_on_with_the_same_batches(uri):
    settings: dict[str, Any] = {"batch_size": 4, "repeat": 3, "features": "image", **SETTINGS[1]}
    settings["decoder"] = "turbo"
    whole = list(input_fn(uri, **settings).as_numpy_iterator())
    rest = list(input_fn(uri, start_step=9, **settings).as_numpy_iterator())
    assert len(whole) == 21
    for one, other in zip(whole[9:], rest, strict=True):
        np.testing.assert_array_equal(one, other)


def test_images_of_one_size_need_none_and_others_are_refused(tmp_path, photos, write_dataset):
    image = Feature(type="string", shape=(40, 48, 3), extra={"sizes": "fixed"})
    examples = [{"image": [encode(photo)]} for photo in photos[:5]]
    good = write_dataset(tmp_path / "good", {"train": [examples]}, {"image": image})
    (batch,) = input_fn(good, features="image", shuffle=False, decoder="turbo")
    for got, example in zip(batch.numpy(), examples, strict=True):
        exact = tf.io.decode_jpeg(example["image"][0], dct_method="INTEGER_ACCURATE")
        np.testing.assert_array_equal(got, exact)
    for number, data in enumerate([encode(photos[3][:30]), b"no image"]):
        bad = [*examples[:3], {"image": [data]}]
        uri = write_dataset(tmp_path / f"bad-{number}", {"train": [bad]}, {"image": image})
        with pytest.raises(tf.errors.InvalidArgumentError):
            list(input_fn(uri, features="image", decoder="turbo"))


def test_a_label_map_is_cut_and_mirrored_with_its_image(tmp_path, write_dataset):
    """Each pixel's value is its class, so the two agree but for the mixing at edges."""
    ids = (np.arange(64 * 96).reshape(64, 96) // 16 % 6 * 40).astype(np.uint8)
    grey = Feature(type="string", shape=(64, 96), extra={"formats": ["JPEG"]})
    labels = Feature(type="string", shape=(64, 96), extra={"label_map": True, "formats": ["PNG"]})
    example = {"image": [encode(ids, quality=98)], "label": [encode(ids, "PNG")]}
    uri = write_dataset(tmp_path, {"train": [[example] * 8]}, {"image": grey, "label": labels})
    settings: dict[str, Any] = {"image_size": (32, 32), **CROPS, "decoder": "turbo"}
    for batch in input_fn(uri, batch_size=4, **settings).as_numpy_iterator():
        off = np.abs(batch["image"].astype(int) - batch["label"]) < 20
        assert off.mean() > 0.6


# --- Settings ---


def test_without_its_packages_turbo_is_refused_and_auto_is_tensorflows(uri, monkeypatch):
    from trainer_utils.reading import decoding

    monkeypatch.setattr(decoding, "is_turbo_installed", lambda: False)
    with pytest.raises(ConfigError, match=r"decoder: .*'turbo'.*pip install 'tfx-shards\[turbo\]'"):
        InputOptions(decoder="turbo")
    assert InputOptions().images.decoder == "tensorflow"


def test_a_data_service_decodes_with_tensorflow():
    service = "grpc://localhost:5000"
    assert InputOptions().images.decoder == "turbo"
    assert InputOptions(data_service=service).images.decoder == "tensorflow"
    with pytest.raises(ConfigError, match=r"decoder: expected 'auto' or 'tensorflow' with a data"):
        InputOptions(data_service=service, decoder="turbo")
    with pytest.raises(ConfigError, match=r"data_service: expected an address such as grpc://"):
        InputOptions(data_service="localhost:5000")


@pytest.mark.parametrize(
    ("setting", "value"), [("decoder", "gpu"), ("decoder", None), ("image_dtype", "float64")]
)
def test_a_setting_that_is_not_allowed_is_named_with_its_value(setting, value):
    with pytest.raises(ConfigError) as caught:
        InputOptions(**{setting: value})
    assert str(caught.value).startswith(f"{setting}: expected ")
    assert repr(value) in str(caught.value)


# --- What is left behind ---


def names_of_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if "tfx-shards-decode" in one.name]


def test_a_dropped_iterator_leaves_no_threads(uri):
    batches = iter(input_fn(uri, features="image", repeat=True, decoder="turbo", **SETTINGS[0]))
    next(batches)
    del batches
    gc.collect()
    deadline = time.monotonic() + 60
    while names_of_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert names_of_threads() == []


@pytest.mark.e2e
def test_a_process_ends_with_an_iterator_half_way(uri):
    code = (
        "from trainer_utils import input_fn\n"
        f"batches = iter(input_fn({uri!r}, features='image', image_size=(224, 224), repeat=True, "
        "batch_size=8, decoder='turbo'))\n"
        "next(batches)\n"
        "raise SystemExit(7)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=False, timeout=300)
    assert ended.returncode == 7
