"""Compare chains of augmentation of 224 x 224 photos with the same layers of Keras.

    python benchmarks/augment.py        # 256 photos from scikit-learn's two, in batches of 64

Only the chain is measured, on decoded pixels in memory: us of CPU per image, over all threads. The
result is the best of several alternating runs; Keras's layers run in `tf.data`. Their generator
draws for a batch, so an image's changes depend on its batch. MixUp and CutMix are measured with
their pairs and labels.
"""

import argparse
import time
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_sample_images

from trainer_utils.options.augmentation import Augmentation
from trainer_utils.reading.augmenting import change_pixels, mix_rows
from trainer_utils.runtime.threads import run_in_threads

_BATCH, _SIDE = 64, 224
Batch = tuple[np.ndarray, np.ndarray, np.ndarray]  # images, labels, keys
Change = Callable[[list[Batch]], None]


def ours(chain: list[object]) -> Change:
    """Return a function that applies a chain like `input_fn`."""
    parsed = Augmentation.of(chain)

    def change(batches: list[Batch]) -> None:
        for images, labels, keys in batches:
            changed = np.empty_like(images)

            def work(row: int, images=images, keys=keys, changed=changed) -> None:
                changed[row] = change_pixels(parsed, images[row], keys[row])

            run_in_threads(work, len(images))
            if parsed.mixing:
                mix_rows(parsed, {"image": changed, "label": labels}, keys, ["image"], "label")

    return change


def kerass(layer: keras.layers.Layer, *, mixes: bool = False) -> Change:
    """Return a function that applies a Keras layer."""

    def apply(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        if mixes:
            value = {"images": tf.cast(images, tf.float32), "labels": labels}
            value = layer(value, training=True)
            return {**value, "images": tf.cast(value["images"], tf.uint8)}
        return tf.cast(layer(images, training=True), tf.uint8)

    made: list[tf.data.Dataset] = []

    def change(batches: list[Batch]) -> None:
        if not made:
            images, labels, _ = (np.concatenate(part) for part in zip(*batches, strict=True))
            given = tf.data.Dataset.from_tensor_slices((images, labels)).batch(_BATCH).cache()
            made.append(given.map(apply))
        for _ in made[0]:
            pass

    return change


def peers() -> dict[str, tuple[Change, Change | None]]:
    """Return our chain and Keras's layer by name; None if this Keras lacks the layer."""

    def keras_or_none(name: str, *, mixes: bool = False, **settings: object) -> Change | None:
        layer = getattr(keras.layers, name, None)
        return layer and kerass(layer(**settings), mixes=mixes)

    whole = (0, 255)
    return {
        "colour 0.4": (
            ours([("colour", 0.4)]),
            keras_or_none(
                "RandomColorJitter",
                value_range=whole,
                brightness_factor=0.4,
                contrast_factor=0.4,
                saturation_factor=(0.3, 0.7),
            ),
        ),
        "rotation 15": (
            ours([("rotation", 15)]),
            keras_or_none("RandomRotation", factor=15 / 360, fill_mode="constant"),
        ),
        "grey 0.5": (ours([("grey", 0.5)]), keras_or_none("RandomGrayscale", factor=0.5)),
        "blur, sigma 1": (
            ours([("blur", 1, 1)]),
            keras_or_none(
                "RandomGaussianBlur", factor=1.0, kernel_size=7, sigma=1.0, value_range=whole
            ),
        ),
        "cutout 0.25": (
            ours([("cutout", 0.25)]),
            keras_or_none("RandomErasing", factor=1.0, scale=0.0625, fill_value=0.0),
        ),
        "randaugment 2, 9": (
            ours([("randaugment", 2, 9)]),
            keras_or_none("RandAugment", value_range=whole, num_ops=2, factor=0.9),
        ),
        "mixup 0.2": (ours([("mixup", 0.2)]), keras_or_none("MixUp", mixes=True, alpha=0.2)),
        "cutmix 1": (ours([("cutmix", 1.0)]), keras_or_none("CutMix", mixes=True, factor=1.0)),
    }


def main() -> None:
    """Measure all peers and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    count = arguments.batches * _BATCH
    images = photos(count)
    labels = np.eye(1000, dtype=np.float32)[np.arange(count) % 1000]
    keys = np.arange(count, dtype=np.uint64)
    batches = [
        tuple(part[first : first + _BATCH] for part in (images, labels, keys))
        for first in range(0, count, _BATCH)
    ]
    print(f"TensorFlow {tf.__version__}, Keras {keras.__version__}; us of CPU an image, of {count}")
    print("| | ours | Keras's layer | ratio |\n|---|---:|---:|---:|")
    for name, (own, other) in peers().items():
        changes = [change for change in (own, other) if change is not None]
        best = [float("inf")] * len(changes)
        for run in range(arguments.runs + 1):
            for number, change in enumerate(changes):
                spent = cpu_of(lambda change=change: change(batches)) / count * 1e6
                best[number] = min(best[number], spent) if run else best[number]
        theirs = f"{best[1]:.0f} | {best[1] / best[0]:.1f}x" if len(best) > 1 else "none |"
        print(f"| {name} | {best[0]:.0f} | {theirs} |", flush=True)


def cpu_of(work: Callable[[], None]) -> float:
    """Return the seconds of CPU that a function takes."""
    started = time.process_time()
    work()
    return time.process_time() - started


def photos(count: int) -> np.ndarray:
    """Cut `count` different parts out of two photos, `(count, 224, 224, 3) uint8`."""
    random = np.random.default_rng(0)
    sources = load_sample_images().images
    return np.stack(
        [
            sources[n % 2][top : top + _SIDE, left : left + _SIDE]
            for n in range(count)
            for top, left in [(random.integers(427 - _SIDE), random.integers(640 - _SIDE))]
        ]
    )


if __name__ == "__main__":
    main()
