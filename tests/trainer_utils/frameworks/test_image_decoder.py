"""`image_decoder`: a served model decodes photos to the pixels that training saw."""

import types
from typing import Any

import numpy as np
import pytest

import trainer_utils
from tests.trainer_utils.reading.jpegs import KINDS, LARGE, ODD, PLAIN, cuts, encode
from trainer_utils import ConfigError

tf = pytest.importorskip("tensorflow")

PHOTOS = [encode(part, quality=90) for part in cuts([(427, 640), (300, 500), (240, 240)] * 2)]


def dataset_of(folder: Any, images: list[bytes]) -> str:
    with trainer_utils.DatasetWriter(folder) as writer:
        for number, data in enumerate(images):
            writer.write("train", {"image": data, "label": number})
    return str(folder)


def trained(uri: str, **settings: Any) -> np.ndarray:
    """Return the pixels that training sees."""
    batches = trainer_utils.input_fn(uri, batch_size=1000, shuffle=False, **settings)
    return next(batches.as_numpy_iterator())


def served(folder: Any, images: list[bytes], **settings: Any) -> np.ndarray:
    """Return the pixels that a SavedModel makes of the same images."""
    module = tf.Module()
    spec = tf.TensorSpec([None], tf.string)
    module.decode = tf.function(trainer_utils.image_decoder(**settings), input_signature=[spec])
    tf.saved_model.save(module, str(folder))
    return tf.saved_model.load(str(folder)).decode(tf.constant(images)).numpy()


@pytest.mark.parametrize(
    "settings",
    [
        {"image_size": (64, 64)},
        {"image_size": (64, 64), "image": {"dct_scaling": False}},
        {"image_size": (100, 230)},
        {"image_size": (33, 47), "image": {"resize": "crop"}},
        {"image_size": (48, 90), "image": {"resize": "pad"}},
        {"image_size": (213, 230), "image": {"channels": 1}},
    ],
    ids=repr,
)
def test_served_photos_have_the_pixels_of_training(tmp_path, settings):
    images = [*PHOTOS, *LARGE[len(KINDS) :]]  # all are larger than the target
    uri = dataset_of(tmp_path / "set", images)
    expected = trained(uri, features="image", **settings)
    found = served(tmp_path / "model", images, **settings)
    assert found.dtype == expected.dtype == np.uint8
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
def test_enlarged_images_are_at_most_a_level_off(tmp_path, resize):
    settings: dict[str, Any] = {"image_size": (120, 90), "image": {"resize": resize}}
    expected = trained(dataset_of(tmp_path / "set", PLAIN), features="image", **settings)
    found = served(tmp_path / "model", PLAIN, **settings)
    assert np.abs(found.astype(int) - expected).max() <= 1


@pytest.mark.parametrize("kind", ["PNG", "grey PNG", "GIF", "CMYK"])
def test_other_formats_are_served_as_trained(tmp_path, kind):
    settings: dict[str, Any] = {"image_size": (20, 30), "image": {"channels": 3}}
    uri = dataset_of(tmp_path / "set", [ODD[kind]])
    expected = trained(uri, features="image", **settings)
    np.testing.assert_array_equal(served(tmp_path / "model", [ODD[kind]], **settings), expected)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("normalize", ["unit", "imagenet", (3.0, (50.0, 60.0, 70.0))])
def test_served_floats_match_training(tmp_path, normalize, dtype):
    settings: dict[str, Any] = {"image_size": (64, 48)}
    settings["image"] = {"normalize": normalize, "dtype": dtype}
    expected = trained(dataset_of(tmp_path / "set", PHOTOS), features="image", **settings)
    found = served(tmp_path / "model", PHOTOS, **settings)
    assert found.dtype == expected.dtype
    precision = {"float32": 1e-6, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    pair = (values.astype(np.float64) for values in (found, expected))
    np.testing.assert_allclose(*pair, rtol=precision, atol=precision)


def test_the_image_trainer_exports_the_pixels_that_it_trains_on(tmp_path, monkeypatch):
    image_trainer = pytest.importorskip("pipelines.examples.image_trainer")
    seen: dict[str, Any] = {}
    monkeypatch.setattr(image_trainer, "make_strategy", lambda: None)
    monkeypatch.setattr(
        image_trainer, "train_classifier", lambda *_, make_model, **read: seen.update(read)
    )
    monkeypatch.setattr(
        image_trainer, "export_classifier", lambda model, folder, decode: seen.update(served=decode)
    )
    image_trainer.run_fn(types.SimpleNamespace(custom_config={}, serving_model_dir="unused"))
    decode = seen.pop("served")
    expected = trained(dataset_of(tmp_path / "set", PHOTOS), **seen)
    np.testing.assert_array_equal(decode(tf.constant(PHOTOS)), expected)


def test_a_setting_that_images_do_not_have_is_refused():
    with pytest.raises(ConfigError, match=r"^resize: "):
        trainer_utils.image_decoder(image_size=(8, 8), image={"resize": "fit"})
    with pytest.raises(ConfigError, match=r"^image_size: "):
        trainer_utils.image_decoder(image_size=(8, 0))
