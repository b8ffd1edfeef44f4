"""Read photos to batches of 64 at 224 x 224: input_fn against bare operations, Datum and TFDS.

    python benchmarks/image_input.py --workdir bench        # 3,000 photos of ImageNet's kind

The bare operations decode and resize bytes in memory bilinearly, on all cores. simplejpeg and
OpenCV do so in threads, without batching; TensorFlow does so in a `map` of tf.data, batched. The
first needs `pip install 'tfx-shards[bench]'`, as does TFDS; missing packages are left out. Every
peer makes uint8. Datum and TFDS read as in their guides, with `tf.image.resize` in a map.
"""

import argparse
import importlib.util
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tensorflow as tf
from common import compare, make_jpegs
from image_conversion import run_executor
from tfx.proto import example_gen_pb2

from components.image_example_gen import Executor
from trainer_utils import input_fn
from trainer_utils.runtime.machine import usable_cores

_SIZE = (224, 224)
_BATCH = 64


def drain(dataset: tf.data.Dataset) -> None:
    for _ in dataset:
        pass


def ours(uri: str, passes: int, **settings: Any) -> Callable[[Path], None]:
    options = {"features": "image", "label": "label", "image_size": _SIZE, **settings}
    dataset = input_fn(uri, "train", batch_size=_BATCH, repeat=passes, **options)
    return lambda _: drain(dataset)


def bare(photos: Path, passes: int) -> dict[str, Callable[[Path], None]]:
    """Return peers that only decode and resize, on all cores."""
    if not (importlib.util.find_spec("simplejpeg") and importlib.util.find_spec("cv2")):
        return {}
    import cv2
    import numpy as np
    import simplejpeg

    cv2.setNumThreads(1)  # this benchmark starts the threads
    pool = ThreadPoolExecutor(usable_cores())
    images = [path.read_bytes() for path in sorted(photos.rglob("*.jpg"))]

    def work(encoded: bytes) -> Any:
        try:
            pixels = simplejpeg.decode_jpeg(encoded)
        except ValueError:  # CMYK, or a PNG
            pixels = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)
        return cv2.resize(pixels, _SIZE, interpolation=cv2.INTER_LINEAR)

    def run(_: Path) -> None:
        for _ in pool.map(work, images * passes):
            pass

    return {"bare: simplejpeg, OpenCV": run}


def bare_tensorflow(photos: Path, passes: int) -> Callable[[Path], None]:
    """Return a peer that only decodes, resizes and batches with TensorFlow."""
    images = [path.read_bytes() for path in sorted(photos.rglob("*.jpg"))]

    def decode(encoded: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.image.resize(tf.io.decode_jpeg(encoded, channels=3), _SIZE), tf.uint8)

    dataset = tf.data.Dataset.from_tensor_slices(images).repeat(passes)
    dataset = dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.batch(_BATCH).prefetch(tf.data.AUTOTUNE)
    return lambda _: drain(dataset)


def datum(uri: str, passes: int) -> Callable[[Path], None]:
    from datum.reader import load

    loaded = load(uri)
    loaded.dataset_configs.batch_size_train = _BATCH
    loaded.dataset_configs.pre_batching_callback_train = resized
    dataset = loaded.train_fn("train", repeat=passes)
    return lambda _: drain(dataset)


def resized(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    image = tf.cast(tf.image.resize(example["image"], _SIZE), tf.uint8)
    return {"image": image, "label": example["label"]}


def tfds_peer(photos: Path, data_dir: Path, passes: int) -> dict[str, Callable[[Path], None]]:
    """Return TFDS as a peer, if it is installed."""
    if importlib.util.find_spec("tensorflow_datasets") is None:
        return {}
    import tensorflow_datasets as tfds
    from tfds_photos import make_builder

    builder = make_builder(photos)(data_dir=str(data_dir))
    builder.download_and_prepare()
    reading = tfds.ReadConfig(try_autocache=False)  # the cache would keep decoded images
    dataset = builder.as_dataset(split="train", shuffle_files=True, read_config=reading)
    dataset = dataset.repeat(passes).map(resized, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.batch(_BATCH).prefetch(tf.data.AUTOTUNE)
    return {"TFDS": lambda _: drain(dataset)}


def convert(photos: Path, target: Path, **options: Any) -> str:
    if not target.is_dir():
        splits = example_gen_pb2.SplitConfig(
            splits=[example_gen_pb2.SplitConfig.Split(name="train", hash_buckets=1)]
        )
        output = example_gen_pb2.Output(split_config=splits)
        run_executor(Executor, photos, target, output, **options)
    return str(target)


def main() -> None:
    """Measure all peers and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workdir", type=Path, default=Path("bench"))
    parser.add_argument("--count", type=int, default=3_000)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    workdir, passes = arguments.workdir.resolve(), arguments.passes
    photos = workdir / f"photos-{arguments.count}"
    megabytes = make_jpegs(photos, count=arguments.count)
    jpegs = convert(photos, workdir / f"jpegs-{arguments.count}")
    raw = convert(
        photos, workdir / f"raw-{arguments.count}", encoding="raw", resize_shorter_side=_SIZE[0]
    )
    crop = {"augment": "random_resized_crop"}
    compare(
        {
            "input_fn": ours(jpegs, passes),
            **bare(photos, passes),
            "bare: tf.data, TensorFlow": bare_tensorflow(photos, passes),
            "Datum": datum(jpegs, passes),
            **tfds_peer(photos, workdir / f"tfds-{arguments.count}", passes),
            "input_fn, random_resized_crop": ours(jpegs, passes, **crop),
            "input_fn, dct_scaling=False": ours(jpegs, passes, image={"dct_scaling": False}),
            "input_fn, resize='crop'": ours(jpegs, passes, image={"resize": "crop"}),
            "input_fn, resize='pad'": ours(jpegs, passes, image={"resize": "pad"}),
            "input_fn, channels=1": ours(jpegs, passes, image={"channels": 1}),
            **{
                f"input_fn, normalize='imagenet', {dtype}": ours(
                    jpegs, passes, image={"normalize": "imagenet", "dtype": dtype}
                )
                for dtype in ("float32", "bfloat16", "float16")
            },
            "input_fn, encoding='raw'": ours(raw, passes),
        },
        records=arguments.count * passes,
        megabytes=megabytes * passes,
        target=workdir / "out",
        runs=arguments.runs,
    )


if __name__ == "__main__":
    main()
