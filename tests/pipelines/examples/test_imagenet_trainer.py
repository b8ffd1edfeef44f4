"""The ImageNet trainer on photos of two scenes, small enough for a test."""

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner
from PIL import Image

from pipelines.examples import imagenet_trainer
from pipelines.examples.imagenet_trainer import ImagenetConfig, learning_rates, train
from pipelines.examples.training import LOG_FILE
from trainer_utils.format import ConfigError, Feature

pytestmark = pytest.mark.slow
TRAIN, EVAL = 22, 7


def tiny(config: ImagenetConfig, num_classes: int):
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            tf.keras.Input((*config.size, 3), dtype="uint8"),
            layers.Rescaling(1 / 127.5, -1, dtype="float32"),
            layers.Conv2D(8, 3, strides=2, use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(num_classes, dtype="float32"),
        ]
    )


@pytest.fixture(scope="module")
def uri(tmp_path_factory, photos, write_dataset) -> str:
    def encode(pixels: np.ndarray) -> bytes:
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "JPEG", quality=95)
        return stream.getvalue()

    rows = [{"image": [encode(photo)], "label": [n % 2]} for n, photo in enumerate(photos)]
    features = {
        "image": Feature(type="string", shape=(40, 48, 3), extra={"formats": ["JPEG"]}),
        "label": Feature(type="int", extra={"num_classes": 2}),
    }
    splits = {"train": [rows[:TRAIN]], "eval": [rows[TRAIN : TRAIN + EVAL]]}
    return write_dataset(tmp_path_factory.mktemp("scenes"), splits, features)


@pytest.fixture(scope="module")
def strategy():
    devices = [device.name for device in tf.config.list_logical_devices("CPU")]
    return tf.distribute.MirroredStrategy(devices[:2])


@pytest.fixture
def config(uri, tmp_path):
    return ImagenetConfig(
        uri=uri,
        folder=str(tmp_path / "model"),
        epochs=4,
        batch_size=4,
        image_size=24,
        learning_rate=3.0,
        warmup_epochs=0.5,
        augment=["random_resized_crop", "flip", ("colour", 0.2)],
        checkpoint_steps=3,
        log_steps=1,
    )


def lines(folder: str) -> list[dict]:
    with open(f"{folder}/{LOG_FILE}") as stream:
        return [json.loads(line) for line in stream]


def losses(folder: str) -> dict[int, float]:
    return {line["step"]: line["train_loss"] for line in lines(folder) if "step" in line}


def replace(config: ImagenetConfig, **changes) -> ImagenetConfig:
    return ImagenetConfig(**{**vars(config), **changes})


def test_training_goes_on_where_it_stopped_and_counts_each_record_once(
    config, strategy, tmp_path, photos
):
    found = train(config, strategy, tiny)
    whole = losses(config.folder)
    assert list(whole) == list(range(1, 21))  # 22 records in 5 full batches of 4, 4 times
    assert np.mean(list(whole.values())[-5:]) < 0.8 * np.mean(list(whole.values())[:3])
    epochs = [line for line in lines(config.folder) if "epoch" in line]
    assert [line["epoch"] for line in epochs] == [1, 2, 3, 4]
    assert {line["records"] for line in epochs} == {EVAL}
    assert found["accuracy"] == epochs[-1]["accuracy"]

    class Killed(Exception):
        pass

    def kill(step: int) -> None:
        if step == 8:
            raise Killed

    broken = replace(config, folder=str(tmp_path / "broken"))
    with pytest.raises(Killed):
        train(broken, strategy, tiny, on_step=kill)
    again = []
    resumed = train(broken, strategy, tiny, on_step=again.append)
    assert again == list(range(7, 21))  # from the checkpoint after step 6
    for step, loss in losses(broken.folder).items():
        assert loss == pytest.approx(whole[step], rel=1e-3)
    assert resumed["loss"] == pytest.approx(found["loss"], rel=1e-2)
    assert train(broken, strategy, tiny) == pytest.approx(resumed)  # nothing is left to do

    served = tf.saved_model.load(f"{config.folder}/export").signatures["serving_default"]
    stream = io.BytesIO()
    Image.fromarray(photos[0]).save(stream, "JPEG")
    (probabilities,) = served(image=tf.constant([stream.getvalue()])).values()
    assert probabilities.shape == (1, 2)
    assert float(tf.reduce_sum(probabilities)) == pytest.approx(1)


PROGRAM = """
import json, runpy, sys
import tensorflow as tf
from pipelines.examples.imagenet_trainer import ImagenetConfig, train
from pipelines.examples.training import make_strategy
tiny = runpy.run_path(sys.argv[2])["tiny"]

models = []
def remember(config, num_classes):
    models.append(tiny(config, num_classes))
    return models[0]

strategy = make_strategy()
found = train(ImagenetConfig(**json.loads(sys.argv[1])), strategy, remember)
found["replicas"] = strategy.num_replicas_in_sync
found["computes"] = models[0].layers[1].compute_dtype
found["weights"] = sorted({tf.as_dtype(weight.dtype).name for weight in models[0].weights})
found["policy"] = tf.keras.mixed_precision.global_policy().name
print(json.dumps(found))
"""


def test_two_replicas_train_in_mixed_precision(config):
    settings = json.dumps(
        vars(replace(config, epochs=2, mixed_precision=True, augment=["flip", ("mixup", 0.1)]))
    )
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, settings, __file__],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["replicas"] == 2
    assert found["records"] == EVAL  # of batches of 4, two for each replica
    assert (found["computes"], found["weights"]) == ("bfloat16", ["float32"])
    assert found["policy"] == "float32"
    assert np.isfinite(list(losses(config.folder).values())).all()


def test_the_learning_rate_rises_then_falls_as_half_a_cosine(config):
    rates = learning_rates(replace(config, learning_rate=0.1, batch_size=512), 100)
    values = [float(rates(step)) for step in range(401)]
    expected = [
        0.2 * step / 50 if step < 50 else 0.1 * (1 + np.cos(np.pi * (step - 50) / 350))
        for step in range(401)
    ]
    np.testing.assert_allclose(values, expected, atol=1e-6)


def test_the_command_trains_a_resnet50(uri, tmp_path, monkeypatch):
    made = {}

    def remember(config, strategy):
        made.update(vars(config), model=imagenet_trainer.resnet50(config, 5))
        return {"accuracy": 0.5}

    monkeypatch.setattr(imagenet_trainer, "train", remember)
    monkeypatch.setattr(imagenet_trainer, "make_strategy", lambda: None)
    arguments = [uri, str(tmp_path), "--image-size", "64", "--augment", '["flip", ["mixup", 0.2]]']
    done = CliRunner().invoke(imagenet_trainer.main, arguments)
    assert done.output == "accuracy 0.5000\n", done.exception
    assert made["augment"] == ["flip", ["mixup", 0.2]]
    model = made["model"]
    assert model.count_params() == 23_587_712 + 2048 * 5 + 5  # Keras's own, and 5 classes
    assert model(np.zeros((1, 64, 64, 3), np.uint8)).shape == (1, 5)


def test_a_checkpoint_of_the_other_keras_or_of_another_model_is_refused(
    config, strategy, monkeypatch
):
    tf_keras = pytest.importorskip("tf_keras")
    short = replace(config, epochs=1)
    train(short, strategy, tiny)
    longer = replace(config, epochs=2)

    def wider(config: ImagenetConfig, num_classes: int):
        model = tiny(config, num_classes)
        outputs = tf.keras.layers.Dense(num_classes, dtype="float32")(model.outputs[0])
        return tf.keras.Model(model.inputs, outputs)

    with pytest.raises(ConfigError, match="checkpoint"):
        train(longer, strategy, wider)
    monkeypatch.setattr(tf, "keras", tf_keras)
    with pytest.raises(ConfigError, match=r"of tf-keras, got one that Keras 3 wrote"):
        train(longer, strategy, tiny)
