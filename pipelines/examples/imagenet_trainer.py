"""A whole trainer of ImageNet's kind: ResNet-50 with all that its training takes.

    python -m pipelines.examples.imagenet_trainer datasets/imagenet out/model --epochs 90
    train(ImagenetConfig(uri="datasets/imagenet", folder="out/model"), make_strategy())

Cosine learning rate with warm-up, label smoothing, mixed precision, evaluation that counts each
record once, checkpoints that training goes on from within an epoch, and a model to serve. Run again
with the same folder, it goes on where it was. The loop is its own, since Keras 3's `fit` does not
run under `MultiWorkerMirroredStrategy`.
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import click
import tensorflow as tf

import trainer_utils
from pipelines.examples.training import (
    MetricsLog,
    export_classifier,
    make_strategy,
    restore_checkpoint,
    worker_of,
)
from trainer_utils import ImageOptions, LabelOptions
from trainer_utils.dataset import open_dataset
from trainer_utils.frameworks.tensorflow import is_chief
from trainer_utils.reading.normalizing import NORMALIZATIONS

__all__ = ["ImagenetConfig", "learning_rates", "make_evaluation", "resnet50", "train"]

_MOMENTUM = 0.9

MakeModel = Callable[["ImagenetConfig", int], Any]
"""Of the settings and the number of classes: a Keras model of uint8 images, which gives logits."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImagenetConfig:
    """What is trained, and how.

    Args:
        uri: of the dataset, with an encoded image and an int label in each record.
        folder: of checkpoints, `metrics.jsonl` and the exported model.
        train_split, eval_split: slices as `input_fn` takes them.
        image, label: the names of these features.
        epochs: of all training.
        batch_size: of all replicas together.
        image_size: pixels a side.
        augment: as `input_fn` takes it, of the training split.
        learning_rate: its peak, for a batch of 256; it grows with the batch.
        warmup_epochs: in which it rises from 0.
        weight_decay: times half the squares of all weights that are no biases or scales is added
            to the loss that is minimised.
        label_smoothing: from 0 to 1.
        mixed_precision: bfloat16 where it is enough; weights and loss are float32 all the same.
        checkpoint_steps: steps between checkpoints; there is one at the end of each epoch too.
        log_steps: steps whose mean loss is a line of `metrics.jsonl`.
        seed: of the weights and the order.

    Source: Goyal et al., "Accurate, Large Minibatch SGD", 2017; He et al., "Bag of Tricks for
    Image Classification with Convolutional Neural Networks", 2018.
    """

    uri: str
    folder: str
    train_split: str = "train"
    eval_split: str = "eval"
    image: str = "image"
    label: str = "label"
    epochs: int = 90
    batch_size: int = 256
    image_size: int = 224
    augment: Any = ("random_resized_crop", "flip")
    learning_rate: float = 0.1
    warmup_epochs: float = 5.0
    weight_decay: float = 1e-4
    label_smoothing: float = 0.1
    mixed_precision: bool = False
    checkpoint_steps: int = 1000
    log_steps: int = 100
    seed: int = 0

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of images."""
        return self.image_size, self.image_size


def train(
    config: ImagenetConfig,
    strategy: tf.distribute.Strategy,
    make_model: MakeModel | None = None,
    *,
    on_step: Callable[[int], None] | None = None,
) -> dict[str, float]:
    """Trains, evaluates after each epoch, and exports; goes on from the last checkpoint.

    Args:
        config: what and how.
        strategy: that the work is shared out by.
        make_model: None: `resnet50`.
        on_step: called after each step with the number of steps so far, of all epochs.

    Returns:
        The last evaluation: `loss`, `accuracy` and `records`.
    """
    tf.keras.utils.set_random_seed(config.seed)
    num_classes = _num_classes(config)
    plan = trainer_utils.plan(
        config.uri, config.train_split, batch_size=config.batch_size, remainder="drop"
    )
    with strategy.scope(), _precision(config):
        model = (make_model or resnet50)(config, num_classes)
        rates = learning_rates(config, plan.steps)
        optimizer = _optimizer(model, rates)
    progress = trainer_utils.InputProgress()
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, input=progress)
    checkpoints = os.path.join(config.folder, "checkpoints")
    own = checkpoints if is_chief(strategy) else f"{checkpoints}-{worker_of(strategy)}"
    manager = tf.train.CheckpointManager(checkpoint, own, max_to_keep=2)  # all have to save
    if (latest := tf.train.latest_checkpoint(checkpoints)) is not None:
        restore_checkpoint(checkpoint, latest)
    dataset = trainer_utils.distribute(
        strategy,
        config.uri,
        config.train_split,
        **_reading(config),
        augment=config.augment,
        image=ImageOptions(channels=3),
        labels=LabelOptions(
            one_hot=True, smoothing=config.label_smoothing, num_classes=num_classes
        ),
        remainder="drop",
        repeat=config.epochs,
        state=progress.state,
    )
    run = _train_step(model, optimizer, strategy, config)
    evaluate = make_evaluation(model, config, strategy)
    log = MetricsLog(config.folder, strategy)
    step = dataset.input_start.epoch * dataset.input_steps + dataset.input_start.step
    found: dict[str, float] = {}
    for images, labels in progress.follow(dataset):
        log.add(run(images, labels))
        step += 1
        epoch, within = divmod(step, dataset.input_steps)
        if step % config.log_steps == 0:
            log.write_loss(step, float(rates(step)))
        if within == 0:
            found = evaluate()
            log.write(epoch=epoch, **found)
        if within == 0 or step % config.checkpoint_steps == 0:
            manager.save(checkpoint_number=step)
        if on_step is not None:
            on_step(step)
    found = found or evaluate()  # all was done before
    if is_chief(strategy):
        export_classifier(model, os.path.join(config.folder, "export"), _decode(config))
    return found


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


def make_evaluation(
    model: Any, config: ImagenetConfig, strategy: tf.distribute.Strategy
) -> Callable[[], dict[str, float]]:
    """What evaluates a model as it is then, on all records of the split, each counted once.

    The last batch is filled up with rows of weight 0, so that all replicas have as many.

    Returns:
        A function that gives `loss` (mean cross-entropy, without smoothing), `accuracy` (0 to 1)
        and `records`.
    """
    dataset = trainer_utils.distribute(
        strategy,
        config.uri,
        config.eval_split,
        **_reading(config),
        image=ImageOptions(channels=3, resize="crop"),
        shuffle=False,
        remainder="pad",
    )

    def sums(images: Any, labels: Any, weights: Any) -> Any:
        def own(images: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
            logits = tf.cast(model(images, training=False), tf.float32)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            is_right = tf.cast(tf.argmax(logits, axis=-1) == labels, tf.float32)
            parts = [losses * weights, is_right * weights, weights]
            return tf.stack([tf.reduce_sum(part) for part in parts])

        return strategy.reduce("SUM", strategy.run(own, (images, labels, weights)), axis=None)

    compiled = tf.function(sums, autograph=False)

    def evaluate() -> dict[str, float]:
        total = sum(compiled(*batch).numpy().astype("float64") for batch in dataset)
        loss, right, records = total.tolist()
        return {"loss": loss / records, "accuracy": right / records, "records": records}

    return evaluate


def _train_step(
    model: Any, optimizer: Any, strategy: tf.distribute.Strategy, config: ImagenetConfig
) -> Callable[[Any, Any], tf.Tensor]:
    """One step of all replicas; gives the batch's mean loss."""
    variables = model.trainable_variables
    kernels = [variable for variable in variables if len(variable.shape) > 1]
    # The optimizer adds up the gradients of all replicas.
    decay = config.weight_decay / strategy.num_replicas_in_sync

    def own(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = tf.cast(model(images, training=True), tf.float32)
            losses = tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_sum(losses) / config.batch_size
            penalty = decay * tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels])
            total = loss + penalty
        gradients = tape.gradient(total, variables)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    def run(images: Any, labels: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(own, (images, labels)), axis=None)

    compiled: Callable[[Any, Any], tf.Tensor] = tf.function(run, autograph=False)
    return compiled


def _optimizer(model: Any, rates: Any) -> Any:
    optimizer = tf.keras.optimizers.SGD(rates, momentum=_MOMENTUM, nesterov=True)
    optimizer.build(model.trainable_variables)
    return optimizer


def _reading(config: ImagenetConfig) -> dict[str, Any]:
    return {
        "features": config.image,
        "label": config.label,
        "batch_size": config.batch_size,
        "image_size": config.size,
        "seed": config.seed,
    }


def _num_classes(config: ImagenetConfig) -> int:
    dataset = open_dataset(config.uri)
    said = dataset.features[config.label].extra.get("num_classes")
    return int(str(said or len(dataset.vocabularies[config.label])))


def _decode(config: ImagenetConfig) -> Callable[[tf.Tensor], tf.Tensor]:
    """An encoded image as evaluation reads it."""

    def decode(encoded: tf.Tensor) -> tf.Tensor:
        image = tf.io.decode_image(encoded, channels=3, expand_animations=False)
        wanted = tf.constant(config.size, tf.float32)
        whole = tf.cast(tf.shape(image)[:2], tf.float32)
        kept = tf.cast(tf.round(wanted * tf.reduce_min(whole / wanted)), tf.int32)
        begin = (tf.shape(image)[:2] - kept) // 2
        part = tf.slice(image, [*tf.unstack(begin), 0], [*tf.unstack(kept), 3])
        resized = tf.image.resize(part, config.size, antialias=True)
        return tf.cast(tf.round(resized), tf.uint8)

    return decode


@contextlib.contextmanager
def _precision(config: ImagenetConfig) -> Iterator[None]:
    """Within it layers are made that compute in bfloat16, which needs no scaling of the loss."""
    before = tf.keras.mixed_precision.global_policy()
    tf.keras.mixed_precision.set_global_policy(
        "mixed_bfloat16" if config.mixed_precision else "float32"
    )
    try:
        yield
    finally:
        tf.keras.mixed_precision.set_global_policy(before)


@click.command()
@click.argument("uri")
@click.argument("folder")
@click.option("--epochs", default=90, show_default=True)
@click.option("--batch-size", default=256, show_default=True, help="Of all replicas together.")
@click.option("--image-size", default=224, show_default=True, help="Pixels a side.")
@click.option("--learning-rate", default=0.1, show_default=True, help="For a batch of 256.")
@click.option("--warmup-epochs", default=5.0, show_default=True)
@click.option("--label-smoothing", default=0.1, show_default=True)
@click.option("--mixed-precision", is_flag=True, help="Compute in bfloat16.")
@click.option(
    "--augment", default='["random_resized_crop", "flip"]', show_default=True, help="JSON."
)
def main(augment: str, **settings: Any) -> None:
    """Trains ResNet-50 on the dataset at URI, or goes on with it, and exports it into FOLDER."""
    config = ImagenetConfig(augment=json.loads(augment), **settings)
    found = train(config, make_strategy())
    click.echo(", ".join(f"{name} {value:.4f}" for name, value in found.items()))


if __name__ == "__main__":
    main()
