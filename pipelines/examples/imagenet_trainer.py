"""A complete ImageNet trainer: ResNet-50 with everything that its training needs.

    python -m pipelines.examples.imagenet_trainer datasets/imagenet out/model --epochs 90
    train(ImagenetConfig(uri="datasets/imagenet", folder="out/model"), make_strategy())

It has a cosine learning rate with warm-up, label smoothing, mixed precision, an evaluation that
counts each record once, backups within an epoch for `trainer_utils.fit` to resume, and a model to
serve. Another run with the same folder resumes the training.
"""

import dataclasses
import json
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import click
import tensorflow as tf

import trainer_utils
from pipelines.examples.training import export_classifier, make_strategy
from trainer_utils import ConfigError, ImageOptions, LabelOptions
from trainer_utils.core.settings import NumberRule, Predicate, one_of
from trainer_utils.dataset import open_dataset
from trainer_utils.frameworks.tensorflow import is_chief
from trainer_utils.options.pixels import NORMALIZATIONS

_OPTIMIZERS = {"sgd": "SGD", "adam": "Adam", "rmsprop": "RMSprop"}  # names of tf.keras
MakeModel = Callable[["ImagenetConfig", int], Any]
"""A function (settings, number of classes) -> Keras model of uint8 images that returns logits."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImagenetConfig:
    """The settings of a training.

    Source: Goyal et al., "Accurate, Large Minibatch SGD", 2017; He et al., "Bag of Tricks for
    Image Classification with Convolutional Neural Networks", 2018.
    """

    uri: str  # the uri of the dataset, with an encoded image and an int label in each record
    folder: str  # the folder for the backup and the exported model
    train_split: str = "train"  # a split or a slice of one
    eval_split: str = "eval"
    image: str = "image"  # the name of the feature
    label: str = "label"
    epochs: int = 90
    batch_size: int = 256  # global batch size, over all replicas
    image_size: int = 224  # height and width in pixels
    augment: Any = ("random_resized_crop", "flip")  # augmentations of the training split
    optimizer: str = "sgd"  # sgd (with Nesterov momentum of 0.9), adam or rmsprop
    epsilon: float = 1e-7  # for adam and rmsprop; keras_imagenet uses 0.1
    learning_rate: float = 0.1  # the peak for a batch of 256, scaled with the batch size
    final_learning_rate: float = 0.0  # after the last step, for a batch of 256
    schedule: str = "cosine"  # from the peak to the end: cosine, linear or exponential
    warmup_epochs: float = 5.0  # epochs for the rise from 0 to the peak
    weight_decay: float = 1e-4  # per step, times the learning rate; not for biases and scales
    label_smoothing: float = 0.1
    dropout: float = 0.0  # fraction of the features before the last layer that are dropped
    iteration_size: int = 1  # batches to accumulate per update; on one replica, in Keras 3
    mixed_precision: bool = False  # compute in bfloat16; weights and loss are float32
    backup_steps: int = 1000  # steps between backups
    seed: int = 0  # seed of the weights and the order

    def __post_init__(self) -> None:
        one_of(*_OPTIMIZERS)("optimizer", self.optimizer)
        one_of("cosine", "linear", "exponential")("schedule", self.schedule)
        NumberRule(1)("iteration_size", self.iteration_size)
        Predicate(lambda value: 0 <= value < 1, "a share in [0, 1)")("dropout", self.dropout)
        is_valid = self.final_learning_rate > 0 if self.schedule == "exponential" else True
        if not is_valid or not 0 <= self.final_learning_rate <= self.learning_rate:
            rule = "a rate up to learning_rate, above 0 with schedule='exponential'"
            raise ConfigError.of("final_learning_rate", self.final_learning_rate, allowed=rule)

    @property
    def size(self) -> tuple[int, int]:
        """The height and width of images."""
        return self.image_size, self.image_size


def train(
    config: ImagenetConfig,
    strategy: tf.distribute.Strategy,
    make_model: MakeModel | None = None,
    *,
    callbacks: Sequence[Any] = (),
) -> Any:
    """Train a model, evaluating it after each epoch, and export it; resume from the last backup.

    Args:
        config: the settings.
        strategy: the distribution strategy to train with.
        make_model: returns the model for the settings and the number of classes; None: `resnet50`.
        callbacks: further callbacks of Keras.

    Returns:
        Keras's History: `loss`, `accuracy`, `val_loss` and `val_accuracy` of each epoch.
    """
    if config.iteration_size > 1:  # Keras accumulates gradients only with the default strategy
        if strategy.num_replicas_in_sync > 1:
            rule = "1 with several replicas, whose gradients Keras does not accumulate"
            cure = "Set a larger batch_size, or train on one replica"
            raise ConfigError.of("iteration_size", config.iteration_size, allowed=rule, advice=cure)
        strategy = tf.distribute.get_strategy()
    tf.keras.utils.set_random_seed(config.seed)
    dataset = open_dataset(config.uri)
    said = dataset.features[config.label].extra.get("num_classes")
    num_classes = int(str(said or len(dataset.vocabularies[config.label])))
    read: dict[str, Any] = {
        "features": config.image,
        "label": config.label,
        "batch_size": config.batch_size,
        "image_size": config.size,
        "seed": config.seed,
    }
    eval_image = ImageOptions(channels=3, resize="crop")
    labels = LabelOptions(one_hot=True, num_classes=num_classes)
    train_set = trainer_utils.distribute(
        strategy,
        config.uri,
        config.train_split,
        augment=config.augment,
        image=ImageOptions(channels=3),
        labels=dataclasses.replace(labels, smoothing=config.label_smoothing),
        remainder="drop",
        **read,
    )
    eval_set = trainer_utils.distribute(
        strategy,
        config.uri,
        config.eval_split,
        image=eval_image,
        labels=labels,
        shuffle=False,
        remainder="pad",  # with rows of weight 0
        **read,
    )
    before = tf.keras.mixed_precision.global_policy()
    tf.keras.mixed_precision.set_global_policy(
        "mixed_bfloat16" if config.mixed_precision else "float32"  # bfloat16 needs no loss scaling
    )
    try:
        with strategy.scope():
            model = (make_model or resnet50)(config, num_classes)
            optimizer = make_optimizer(config, train_set.input_steps)
            loss = tf.keras.losses.CategoricalCrossentropy(from_logits=True)
            model.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"])
    finally:
        tf.keras.mixed_precision.set_global_policy(before)
    history = trainer_utils.fit(
        model,
        strategy,
        train_set,
        eval_set,
        epochs=config.epochs,
        callbacks=callbacks,
        backup_dir=os.path.join(config.folder, "backup"),
        backup_every=config.backup_steps,
    )
    if is_chief(strategy):
        decode = trainer_utils.image_decoder(image_size=config.size, image=eval_image)
        export_classifier(model, os.path.join(config.folder, "export"), decode)
    return history


def make_optimizer(config: ImagenetConfig, steps_per_epoch: int) -> Any:
    """Return the optimizer for the settings, without weight decay of biases and scales.

    Args:
        config: the settings.
        steps_per_epoch: number of training steps per epoch.
    """
    settings: dict[str, Any] = {"weight_decay": config.weight_decay}
    if config.optimizer == "sgd":
        settings |= {"momentum": 0.9, "nesterov": True}
    else:
        settings["epsilon"] = config.epsilon
    if config.iteration_size > 1:
        settings["gradient_accumulation_steps"] = config.iteration_size
    kind = getattr(tf.keras.optimizers, _OPTIMIZERS[config.optimizer])
    optimizer = kind(learning_rates(config, steps_per_epoch), **settings)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return optimizer


def learning_rates(config: ImagenetConfig, steps_per_epoch: int) -> Any:
    """Return the learning rate schedule: a linear rise to the peak, then a curve to the final rate.

    Args:
        config: the settings.
        steps_per_epoch: number of training steps per epoch.

    Source: Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2017.
    """
    scale = config.batch_size * config.iteration_size / 256
    warmup = round(config.warmup_epochs * steps_per_epoch)
    return WarmUp(
        schedule=config.schedule,
        peak=config.learning_rate * scale,
        final=config.final_learning_rate * scale,
        warmup_steps=max(warmup, 1),
        decay_steps=max(config.epochs * steps_per_epoch - warmup, 1),
    )


class WarmUp(tf.keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
    """A learning rate that rises linearly to its peak, then falls by a schedule."""

    def __init__(
        self, *, schedule: str, peak: float, final: float, warmup_steps: int, decay_steps: int
    ) -> None:
        super().__init__()
        self._config: dict[str, Any] = {"schedule": schedule, "peak": peak, "final": final}
        self._config |= {"warmup_steps": warmup_steps, "decay_steps": decay_steps}

    def __call__(self, step: Any) -> Any:
        """Return the learning rate of a step."""
        schedule, peak, final, warmup, decay = self._config.values()
        step = tf.cast(step, tf.float32)
        done = tf.clip_by_value((step - warmup) / decay, 0.0, 1.0)
        if schedule == "cosine":
            rate = final + (peak - final) * (1 + tf.cos(math.pi * done)) / 2
        elif schedule == "linear":
            rate = peak + (final - peak) * done
        else:
            rate = peak * (final / peak) ** done
        return tf.where(step < warmup, peak * step / warmup, rate)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return self._config


def resnet50(config: ImagenetConfig, num_classes: int) -> Any:
    """Return a ResNet-50 that normalises uint8 images itself; they are a quarter of float32.

    Args:
        config: the settings.
        num_classes: number of classes.
    """
    mean, deviation = (list(numbers) for numbers in NORMALIZATIONS["imagenet"])
    layers = tf.keras.layers
    images = tf.keras.Input((*config.size, 3), dtype="uint8")
    scaled = layers.Rescaling(
        [1 / d for d in deviation],
        [-m / d for m, d in zip(mean, deviation, strict=True)],
        dtype="float32",
    )(images)
    body = tf.keras.applications.ResNet50(
        include_top=False, weights=None, input_shape=(*config.size, 3), pooling="avg"
    )
    features = layers.Dropout(config.dropout)(body(scaled)) if config.dropout else body(scaled)
    return tf.keras.Model(images, layers.Dense(num_classes, dtype="float32")(features))


def _main(augment: str, **settings: Any) -> None:
    """Train ResNet-50 on the dataset at URI, or resume its training, and export it to FOLDER."""
    config = ImagenetConfig(augment=json.loads(augment), **settings)
    history = train(config, make_strategy()).history
    click.echo(", ".join(f"{name} {values[-1]:.4f}" for name, values in history.items()))


def _parameter(field: Any) -> click.Parameter:
    if field.default is dataclasses.MISSING:
        return click.Argument([field.name])
    default = json.dumps(field.default) if field.name == "augment" else field.default
    flag = f"--{field.name.replace('_', '-')}"
    return click.Option([flag], default=default, is_flag=field.type is bool, show_default=True)


main = click.Command(
    "imagenet_trainer",
    callback=_main,
    help=_main.__doc__,
    params=[_parameter(field) for field in dataclasses.fields(ImagenetConfig)],
)


if __name__ == "__main__":
    main()
