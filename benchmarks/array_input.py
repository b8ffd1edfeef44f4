"""Batches of numpy without TensorFlow: iterate beside input_fn and plain tf.data, by CPU time.

Run it as `python benchmarks/array_input.py [records]`: texts of about 100 bytes, shuffled, in
batches of 256, and raw images of 224 x 224 in batches of 64. The processes take turns; the best of
several counts, in microseconds of all cores together for a record.
"""

import random
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import tensorflow as tf

from benchmarks.text_input import write
from trainer_utils import format as ours
from trainer_utils import input_fn, iterate
from trainer_utils.machine import cpu_seconds

TURNS, SIZE = 5, 224


def write_raw(folder: Path, records: int) -> None:
    """Raw images, as `ImageExampleGen(encoding="raw")` keeps them."""
    name = ours.ShardName(split="train", shard_index=0, num_shards=1).path
    (folder / name).parent.mkdir(parents=True)
    generator = np.random.default_rng(0)
    with tf.io.TFRecordWriter(str(folder / name)) as writer:
        for number in range(records):
            example = tf.train.Example()
            feature = example.features.feature
            feature["image"].bytes_list.value.append(generator.bytes(SIZE * SIZE * 3))
            feature["label"].int64_list.value.append(number % 5)
            writer.write(example.SerializeToString())
    raw = ours.Feature(type="string", extra={"encoding": "raw", "image_shape": [SIZE, SIZE, 3]})
    features = {"image": raw, "label": ours.Feature(type="int")}
    (folder / "shard_info.json").write_text(ours.render_shard_info({"train": {name: records}}))
    types = folder / "datum_to_type_and_shape_mapping.json"
    types.write_text(ours.render_features(features))


def plain(folder: Path, batch: int, *, is_raw: bool) -> tf.data.Dataset:
    """As the guides of TensorFlow read it."""
    kinds = (
        {"label": tf.int64, "image": tf.string} if is_raw else {"id": tf.int64, "label": tf.int64}
    )
    if not is_raw:
        kinds["text"] = tf.string
    spec = {name: tf.io.FixedLenFeature((), kind) for name, kind in kinds.items()}

    def parse(record: tf.Tensor) -> dict[str, tf.Tensor]:
        example = tf.io.parse_single_example(record, spec)
        if is_raw:
            pixels = tf.io.decode_raw(example["image"], tf.uint8)
            example["image"] = tf.reshape(pixels, (SIZE, SIZE, 3))
        return example

    files = sorted(map(str, folder.glob("Split-train/*")))
    dataset = tf.data.TFRecordDataset(files, num_parallel_reads=2).shuffle(2560)
    return dataset.map(parse, tf.data.AUTOTUNE).batch(batch).prefetch(2)


def drain(batches: Iterable[object]) -> None:
    for _ in batches:
        pass


def measure(name: str, records: int, ways: dict[str, Callable[[], Iterable[object]]]) -> None:
    """Prints the best of each way's turns."""
    datasets = {way: make() for way, make in ways.items()}
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(TURNS):
        for way, dataset in datasets.items():
            before = cpu_seconds()
            drain(dataset)
            best[way] = min(best[way], cpu_seconds() - before)
    for way, seconds in best.items():
        ratio = best["plain tf.data"] / seconds
        print(
            f"{name:12} {way:16} {seconds / records * 1e6:9.1f} us  {ratio:5.2f} of tf.data's rate"
        )


def main(records: int) -> None:
    """Both kinds of records."""
    random.seed(0)
    with tempfile.TemporaryDirectory() as base:
        texts, images = Path(base) / "texts", Path(base) / "images"
        write(texts, records)
        num_images = max(records // 40, 64)
        write_raw(images, num_images)
        for name, folder, count, batch in (
            ("texts", texts, records, 256),
            ("raw images", images, num_images, 64),
        ):
            reading = {"batch_size": batch, "shuffle": 2560}
            measure(
                name,
                count,
                {
                    "plain tf.data": lambda f=folder, b=batch: plain(f, b, is_raw=b == 64),
                    "input_fn": lambda f=folder, r=reading: input_fn(str(f), "train", **r),
                    "iterate": lambda f=folder, r=reading: iterate(str(f), "train", **r),
                },
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
