"""Images of 16 bits are read as uint16; OpenCV is the oracle."""

import cv2
import numpy as np
import pytest

import trainer_utils
from pipelines import convert
from trainer_utils.core.errors import ConfigError

SIDE = 24
MIXED = {"a/deep.png": 16, "b/flat.png": 8, "b/photo.jpg": 8}


def image_of(bits: int, channels: int) -> np.ndarray:
    shape = (SIDE, SIDE) if channels == 1 else (SIDE, SIDE, channels)
    values = np.linspace(0, (1 << bits) - 1, int(np.prod(shape))).reshape(shape)
    return values.astype(np.uint16 if bits == 16 else np.uint8)


@pytest.fixture(params=[1, 3])
def channels(request):
    return request.param


@pytest.fixture
def dataset(tmp_path, channels):
    for name, bits in MIXED.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(tmp_path / "in" / name), image_of(bits, channels))
    convert(str(tmp_path / "in"), str(tmp_path / "out"), sixteen_bit="keep", splits={"train": 1})
    return str(tmp_path / "out")


def read(dataset, batch_size=1, **options):
    found = {}
    for batch in trainer_utils.iterate(
        dataset, "train", batch_size=batch_size, shuffle=False, **options
    ):
        for name, image in zip(batch["filename"], batch["image"], strict=True):
            found[name.decode()] = image
    return found


def expected(name: str, channels: int, folder: str) -> np.ndarray:
    pixels = cv2.imread(f"{folder}/{name}", cv2.IMREAD_UNCHANGED).reshape(SIDE, SIDE, channels)
    pixels = pixels[..., ::-1]  # OpenCV's are BGR
    return pixels if pixels.dtype == np.uint16 else pixels.astype(np.uint16) * 257


def test_every_image_of_the_feature_is_uint16(dataset, channels, tmp_path, subtests):
    found = read(dataset)
    assert {name: image.dtype for name, image in found.items()} == dict.fromkeys(MIXED, np.uint16)
    for name, bits in MIXED.items():
        with subtests.test(name=name):
            difference = np.abs(found[name].astype(int) - expected(name, channels, tmp_path / "in"))
            assert difference.max() <= (0 if name.endswith("png") else 2 * 257), (name, bits)


def test_a_mirrored_image_of_16_bits_keeps_its_values(dataset, channels, tmp_path):
    whole = expected("a/deep.png", channels, tmp_path / "in")
    for seed in range(4):
        image = read(dataset, augment=["flip"], seed=seed)["a/deep.png"]
        assert any(np.array_equal(image, one) for one in (whole, whole[:, ::-1]))


def test_unit_floats_reach_one(dataset):
    options = trainer_utils.ImageOptions(normalize="unit")
    image = read(dataset, image=options)["a/deep.png"]
    assert (image.dtype, image.min(), image.max()) == (np.float32, 0, 1)


def test_resizing_keeps_16_bits(dataset):
    image = read(dataset, batch_size=3, image_size=(8, 8))["a/deep.png"]
    assert image.dtype == np.uint16
    assert image.max() > 60_000


def test_other_augmentation_of_16_bits_is_refused(dataset, subtests):
    for chain in (["colour"], ["blur"], ["randaugment"]):
        with subtests.test(chain=chain), pytest.raises(ConfigError, match="16 bits"):
            read(dataset, augment=chain)
