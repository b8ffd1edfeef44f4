"""A whole trainer of ImageNet's kind: ResNet-50 with all that its training takes.

    python -m pipelines.examples.imagenet_trainer datasets/imagenet out/model --epochs 90
    train(ImagenetConfig(uri="datasets/imagenet", folder="out/model"), make_strategy())

Cosine learning rate with warm-up, label smoothing, mixed precision, evaluation that counts each
record once, a backup that `trainer_utils.fit` goes on from within an epoch, and a model to serve.
Run again with the same folder, it goes on where it was.
"""

import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import click
import tensorflow as tf

import trainer_utils
from pipelines.examples.training import export_classifier, make_strategy
from trainer_utils import ImageOptions, LabelOptions
from trainer_utils.dataset import open_dataset
from trainer_utils.frameworks.tensorflow import is_chief
from trainer_utils.reading.images import NORMALIZATIONS

MakeModel = Callable[["ImagenetConfig", int], Any]
"""Of the settings and the number of classes: a Keras model of uint8 images, which gives logits."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImagenetConfig:
    """What is trained, and how.

    Source: Goyal et al., "Accurate, Large Minibatch SGD", 2017; He et al., "Bag of Tricks for
    Image Classification with Convolutional Neural Networks", 2018.
    """

    uri: str  # of the dataset, with an encoded image and an int label in each record
    folder: str  # of the backup and the exported model
    train_split: str = "train"  # a slice, as `input_fn` takes it
    eval_split: str = "eval"
    image: str = "image"  # the feature's name
    label: str = "label"
    epochs: int = 90
    batch_size: int = 256  # of all replicas together
    image_size: int = 224  # pixels a side
    augment: Any = ("random_resized_crop", "flip")  # of the training split
    learning_rate: float = 0.1  # its peak, for a batch of 256; it grows with the batch
    warmup_epochs: float = 5.0  # in which it rises from 0
    weight_decay: float = 1e-4  # a step, of weights that are no biases or scales, times the rate
    label_smoothing: float = 0.1
    mixed_precision: bool = False  # bfloat16 where it is enough; weights and loss are float32
    backup_steps: int = 1000  # between backups
    seed: int = 0  # of the weights and the order

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of images."""
        return self.image_size, self.image_size


def train(
    config: ImagenetConfig,
    strategy: tf.distribute.Strategy,
    make_model: MakeModel | None = None,
    *,
    callbacks: Sequence[Any] = (),
) -> Any:
    """Trains, evaluates after each epoch, and exports; goes on from the last backup.

    Args:
        config: what and how.
        strategy: that the work is shared out by.
        make_model: None: `resnet50`.
        callbacks: of Keras.

    Returns:
        Keras's History: `loss`, `accuracy`, `val_loss` and `val_accuracy` of each epoch.
    """
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
        remainder="pad",  # with rows that count nowhere
        **read,
    )
    before = tf.keras.mixed_precision.global_policy()
    tf.keras.mixed_precision.set_global_policy(
        "mixed_bfloat16" if config.mixed_precision else "float32"  # needs no scaling of the loss
    )
    try:
        with strategy.scope():
            model = (make_model or resnet50)(config, num_classes)
            optimizer = tf.keras.optimizers.SGD(
                learning_rates(config, train_set.input_steps),
                momentum=0.9,
                nesterov=True,
                weight_decay=config.weight_decay,
            )
            optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
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


def learning_rates(config: ImagenetConfig, steps_per_epoch: int) -> Any:
    """A straight line from 0 to the peak, then half a cosine down to 0.

    Source: Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2017.
    """
    warmup = round(config.warmup_epochs * steps_per_epoch)
    return tf.keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.0,
        decay_steps=max(config.epochs * steps_per_epoch - warmup, 1),
        warmup_target=config.learning_rate * config.batch_size / 256,
        warmup_steps=max(warmup, 1),
    )


def resnet50(config: ImagenetConfig, num_classes: int) -> Any:
    """ResNet-50 of uint8 images; what normalises them is part of it, a quarter of the bytes."""
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
    return tf.keras.Model(images, layers.Dense(num_classes, dtype="float32")(body(scaled)))


def _main(augment: str, **settings: Any) -> None:
    """Trains ResNet-50 on the dataset at URI, or goes on with it, and exports it into FOLDER."""
    config = ImagenetConfig(augment=json.loads(augment), **settings)
    found = train(config, make_strategy()).history
    click.echo(", ".join(f"{name} {values[-1]:.4f}" for name, values in found.items()))


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
