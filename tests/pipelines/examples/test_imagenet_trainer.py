"""The ImageNet trainer on a small set of photos of two scenes."""

import dataclasses
import io
import types

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner
from PIL import Image

import trainer_utils
from pipelines.examples import imagenet_trainer
from pipelines.examples.imagenet_trainer import ImagenetConfig, learning_rates, train
from trainer_utils import ConfigError

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
def uri(tmp_path_factory, photos) -> str:
    folder = str(tmp_path_factory.mktemp("scenes") / "photos")
    with trainer_utils.DatasetWriter(folder, vocabulary=["a", "b"]) as writer:
        for number, photo in enumerate(photos[: TRAIN + EVAL]):
            split = "train" if number < TRAIN else "eval"
            writer.write(split, {"image": photo, "label": "ab"[number % 2]})
    return folder


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
        backup_steps=3,
    )


def test_training_resumes_and_counts_each_record_once(config, strategy, tmp_path, photos):
    found = train(config, strategy, tiny).history
    assert {name: len(values) for name, values in found.items()} == dict.fromkeys(
        ("loss", "accuracy", "val_loss", "val_accuracy"), 4
    )
    assert found["loss"][-1] < 0.8 * found["loss"][0]
    right = np.array(found["val_accuracy"]) * EVAL  # integers, because padding has no weight
    np.testing.assert_allclose(right, np.round(right), atol=1e-4)

    class Killed(Exception):
        pass

    class Kill(tf.keras.callbacks.Callback):
        steps = 0

        def on_train_batch_end(self, batch, logs=None):
            self.steps += 1
            if self.steps == 8:
                raise Killed

    broken = dataclasses.replace(config, folder=str(tmp_path / "broken"))
    with pytest.raises(Killed):
        train(broken, strategy, tiny, callbacks=[Kill()])
    again = Kill()
    again.steps = 8
    resumed = train(broken, strategy, tiny, callbacks=[again]).history
    assert again.steps == 8 + 14  # 22 records: 5 full batches of 4 in 4 epochs, from the 7th step
    for name, values in found.items():
        assert resumed[name] == pytest.approx(values, rel=1e-2), name
    assert train(broken, strategy, tiny).history == resumed  # the training is complete

    served = tf.saved_model.load(f"{config.folder}/export").signatures["serving_default"]
    stream = io.BytesIO()
    Image.fromarray(photos[0]).save(stream, "JPEG")
    (probabilities,) = served(image=tf.constant([stream.getvalue()])).values()
    assert probabilities.shape == (1, 2)
    assert float(tf.reduce_sum(probabilities)) == pytest.approx(1)


def test_mixed_precision_computes_in_bfloat16_and_keeps_float32(config, strategy):
    models = []

    def remember(config, num_classes):
        models.append(tiny(config, num_classes))
        return models[0]

    small = dataclasses.replace(
        config, epochs=1, mixed_precision=True, augment=["flip", ("mixup", 0.1)]
    )
    found = train(small, strategy, remember).history
    assert np.isfinite([*found.values()]).all()
    assert models[0].layers[1].compute_dtype == "bfloat16"
    assert {tf.as_dtype(weight.dtype).name for weight in models[0].weights} == {"float32"}
    assert tf.keras.mixed_precision.global_policy().name == "float32"


def test_the_learning_rate_rises_then_falls_as_half_a_cosine(config):
    rates = learning_rates(dataclasses.replace(config, learning_rate=0.1, batch_size=512), 100)
    values = [float(rates(step)) for step in range(401)]
    expected = [
        0.2 * step / 50 if step < 50 else 0.1 * (1 + np.cos(np.pi * (step - 50) / 350))
        for step in range(401)
    ]
    np.testing.assert_allclose(values, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("schedule", "middle"), [("cosine", 0.11), ("linear", 0.11), ("exponential", np.sqrt(0.004))]
)
def test_schedules_fall_from_the_peak_to_the_final_rate(config, schedule, middle):
    chosen = dataclasses.replace(
        config, learning_rate=0.1, final_learning_rate=0.01, batch_size=512, schedule=schedule
    )
    rates = learning_rates(chosen, 100)
    found = [float(rates(step)) for step in (0, 25, 50, 225, 400, 500)]
    np.testing.assert_allclose(found, [0, 0.1, 0.2, middle, 0.02, 0.02], rtol=1e-5)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop"])
def test_optimizers_decay_no_biases(config, optimizer):
    chosen = dataclasses.replace(
        config, optimizer=optimizer, epsilon=0.1, weight_decay=0.5, learning_rate=6.4
    )  # the peak is 0.1 for a batch of 256, scaled to a batch of 4
    chosen = dataclasses.replace(chosen, warmup_epochs=0.0)
    model = tiny(chosen, 2)
    made = imagenet_trainer.make_optimizer(chosen, 100)
    assert made.name.lower() == optimizer
    made.build(model.trainable_variables)
    made.iterations.assign(1)
    before = [variable.numpy() for variable in model.trainable_variables]
    made.apply_gradients(
        [(tf.zeros(variable.shape), variable) for variable in model.trainable_variables]
    )
    for variable, values in zip(model.trainable_variables, before, strict=True):
        share = 0.95 if variable.name.endswith(("kernel", "kernel:0")) else 1
        np.testing.assert_allclose(variable.numpy(), values * share, rtol=1e-5)


def test_gradients_of_an_iteration_make_one_update(config, strategy):
    chosen = dataclasses.replace(config, epochs=2, iteration_size=5, learning_rate=0.1)
    if strategy.num_replicas_in_sync > 1:
        with pytest.raises(ConfigError, match=r"^iteration_size: expected 1 with several"):
            train(chosen, strategy, tiny)
    models = []

    def remember(config, num_classes):
        models.append(tiny(config, num_classes))
        return models[0]

    found = train(chosen, tf.distribute.get_strategy(), remember).history
    assert np.isfinite([*found.values()]).all()
    assert int(models[0].optimizer.iterations.numpy()) == 2  # 5 batches make 2 full iterations


def test_dropout_is_before_the_last_layer(config):
    small = dataclasses.replace(config, image_size=32, dropout=0.4)
    *_, dropout, last = imagenet_trainer.resnet50(small, 3).layers
    assert (dropout.rate, last.units) == (0.4, 3)


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "lamb"},
        {"schedule": "step"},
        {"dropout": 1.0},
        {"iteration_size": 0},
        {"final_learning_rate": 9.0},
        {"schedule": "exponential", "final_learning_rate": 0.0},
    ],
)
def test_invalid_settings_are_refused(config, settings):
    with pytest.raises(ConfigError, match=f"^{[*settings][-1]}: "):
        dataclasses.replace(config, **settings)


def test_the_command_trains_a_resnet50(uri, tmp_path, monkeypatch):
    made = {}

    def remember(config, strategy):
        made.update(vars(config), model=imagenet_trainer.resnet50(config, 5))
        return types.SimpleNamespace(history={"accuracy": [0.25, 0.5]})

    monkeypatch.setattr(imagenet_trainer, "train", remember)
    monkeypatch.setattr(imagenet_trainer, "make_strategy", lambda: None)
    arguments = [uri, str(tmp_path), "--image-size", "64", "--augment", '["flip", ["mixup", 0.2]]']
    done = CliRunner().invoke(imagenet_trainer.main, arguments)
    assert done.output == "accuracy 0.5000\n", done.exception
    assert made["augment"] == ["flip", ["mixup", 0.2]]
    model = made["model"]
    assert model.count_params() == 23_587_712 + 2048 * 5 + 5  # the body of Keras, and 5 classes
    assert model(np.zeros((1, 64, 64, 3), np.uint8)).shape == (1, 5)
