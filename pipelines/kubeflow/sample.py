"""A pipeline of `kfp.dsl` with our components, and with two of its author's own.

tfx-shards compile pipelines/kubeflow/sample.py:photos -o photos.yaml --image … --pipeline-root …

The first, `fetch`, stands for however raw data comes to be; the last, `train`, is a trainer: a
plain function, whose body is all that runs in its container.
"""

from kfp import dsl

from components.kubeflow import (
    default_image,
    image_example_gen,
    schema_export,
    shard_balancer,
    train_input_check,
)

__all__ = ["fetch", "photos", "train"]


@dsl.component(base_image=default_image(), install_kfp_package=False)
def fetch(input_base: str, limit: int, raw: dsl.Output[dsl.Artifact]) -> None:
    """Copies some photos of each class: `input_base` has a folder a class."""
    import shutil
    from pathlib import Path

    for folder in sorted(Path(input_base).iterdir()):
        target = Path(raw.path, folder.name)
        target.mkdir(parents=True)
        for photo in sorted(folder.iterdir())[:limit]:
            shutil.copy(photo, target)
    raw.metadata["limit"] = limit


@dsl.component(base_image=default_image(), install_kfp_package=False)
def train(
    dataset: dsl.Input[dsl.Dataset],
    model: dsl.Output[dsl.Model],
    metrics: dsl.Output[dsl.Metrics],
    batch_size: int = 32,
    steps: int = 200,
) -> None:
    """Trains a small classifier of photos."""
    import os

    import tensorflow as tf

    import trainer_utils

    uri = dataset.metadata.get("dataset_uri", dataset.path)  # where the shards are kept elsewhere
    read: dict = {"features": "image", "label": "label", "image_size": (32, 32)}
    read["batch_size"] = batch_size
    layers = tf.keras.layers
    classifier = tf.keras.Sequential(
        [
            layers.Rescaling(1 / 255),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    classifier.compile("adam", loss, metrics=["accuracy"])
    train = trainer_utils.input_fn(uri, "train", repeat=True, **read)
    classifier.fit(train, steps_per_epoch=steps, verbose=2)
    evaluation = trainer_utils.input_fn(uri, "eval", shuffle=False, **read)
    metrics.log_metric("accuracy", classifier.evaluate(evaluation, verbose=0)[1])
    os.makedirs(model.path)
    classifier.save(os.path.join(model.path, "model.keras"))
    model.framework = "tensorflow"


@dsl.pipeline(name="tfx-shards-sample")
def photos(
    input_base: str,
    limit: int = 1000,
    num_shards: int = 4,
    batch_size: int = 32,
    steps: int = 200,
    max_reject_fraction: float = 0.01,
) -> None:
    """Photos to a trained classifier.

    Args:
        input_base: a folder with a folder a class, on a volume that the pods mount.
        limit: photos of each class.
        num_shards: of each split.
        batch_size: of the training, in records.
        steps: of the training.
        max_reject_fraction: of the photos that may be rejected.
    """
    raw = fetch(input_base=input_base, limit=limit).outputs["raw"]
    examples = image_example_gen(
        source=raw, splits={"train": 3, "eval": 1}, max_reject_fraction=max_reject_fraction
    ).outputs["examples"]
    balanced = shard_balancer(examples=examples, num_shards=num_shards).outputs["balanced_examples"]
    schema_export(examples=balanced)
    checked = train_input_check(
        examples=balanced,
        batch_size=batch_size,
        input_options={"features": "image", "label": "label", "image_size": [32, 32]},
        seconds=0.5,
    )
    train(dataset=balanced, batch_size=batch_size, steps=steps).after(checked)
