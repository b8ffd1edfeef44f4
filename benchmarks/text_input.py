"""Compare reading shuffled texts of 100 bytes in batches of 256: input_fn, Datum, tf.data.

    python benchmarks/text_input.py --workdir bench        # 400,000 texts, which are written there

It also prints the time to drop an iterator and to get the first batch of the next epoch, and the
cost of `shuffle="global"`.
"""

import argparse
import random
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from benchmarks.common import compare
from trainer_utils import format as ours
from trainer_utils import input_fn

BATCH, SHARDS = 256, 8
FEATURES = {
    "text": ours.Feature(type="string"),
    "label": ours.Feature(type="int"),
    "id": ours.Feature(type="int"),
}


def write(folder: Path, records: int) -> float:
    """Write a dataset that Datum can also read; return its MB."""
    generator = random.Random(0)
    info = {}
    for shard in range(SHARDS):
        name = ours.ShardName(split="train", shard_index=shard, num_shards=SHARDS)
        path = folder / name.path
        path.parent.mkdir(parents=True, exist_ok=True)
        numbers = range(shard * records // SHARDS, (shard + 1) * records // SHARDS)
        with tf.io.TFRecordWriter(str(path)) as writer:
            for number in numbers:
                example = tf.train.Example()
                feature = example.features.feature
                feature["id"].int64_list.value.append(number)
                feature["label"].int64_list.value.append(number % 5)
                feature["text"].bytes_list.value.append(
                    bytes(generator.choices(b"abcdefghijklmnop     ", k=100))
                )
                writer.write(example.SerializeToString())
        info[name.path] = len(numbers)
    (folder / "shard_info.json").write_text(ours.datum.render_shard_info({"train": info}))
    (folder / "datum_to_type_and_shape_mapping.json").write_text(
        ours.datum.render_features(FEATURES)
    )
    return sum(path.stat().st_size for path in folder.rglob("data_*")) / 1e6


def drain(dataset: tf.data.Dataset) -> Callable[[Path], None]:
    def run(target: Path) -> None:
        for _ in dataset:
            pass

    return run


def datum_train(uri: str, records: int) -> tf.data.Dataset:
    from datum.reader import load

    loaded = load(uri)
    loaded.dataset_configs.batch_size_train = BATCH
    loaded.dataset_configs.buffer_size = records
    return loaded.train_fn("train", shuffle=True)


def plain(uri: str, records: int) -> tf.data.Dataset:
    """Return the dataset that tf.data's guide recommends."""
    spec = {
        "text": tf.io.FixedLenFeature((), tf.string),
        "label": tf.io.FixedLenFeature((), tf.int64),
        "id": tf.io.FixedLenFeature((), tf.int64),
    }
    files = tf.data.Dataset.list_files(f"{uri}/Split-train/*", shuffle=True, seed=0)
    examples = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
    batches = examples.shuffle(records, seed=0).batch(BATCH)
    parsed = batches.map(
        lambda e: tf.io.parse_example(e, spec), num_parallel_calls=tf.data.AUTOTUNE
    )
    return parsed.prefetch(tf.data.AUTOTUNE)


def print_turns(name: str, dataset: tf.data.Dataset, times: int = 7) -> None:
    """Print the time to drop an iterator, and to get the first batch of the next epoch."""
    drops, starts = [], []
    iterator = iter(dataset)
    next(iterator)
    for _ in range(times):
        begun = time.perf_counter()
        del iterator
        dropped = time.perf_counter()
        iterator = iter(dataset)
        next(iterator)
        drops.append(dropped - begun)
        starts.append(time.perf_counter() - dropped)
    print(
        f"{name}: dropped in {1000 * statistics.median(drops):.0f} ms, "
        f"next first batch in {1000 * statistics.median(starts):.0f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workdir", type=Path, default=Path("bench"))
    parser.add_argument("--count", type=int, default=400_000)
    arguments = parser.parse_args()
    records, folder = arguments.count, arguments.workdir / f"texts-{arguments.count}"
    shutil.rmtree(folder, ignore_errors=True)
    megabytes = write(folder, records)
    uri = str(folder)
    peers = {
        "input_fn": input_fn(uri, batch_size=BATCH),
        'input_fn, shuffle="global"': input_fn(uri, batch_size=BATCH, shuffle="global"),
        "input_fn, shuffle=False": input_fn(uri, batch_size=BATCH, shuffle=False),
        "Datum": datum_train(uri, records),
        "plain tf.data": plain(uri, records),
    }
    compare(
        {name: drain(dataset) for name, dataset in peers.items()},
        records=records,
        megabytes=megabytes,
        target=arguments.workdir / "out",
    )
    for name, dataset in peers.items():
        print_turns(name, dataset)


if __name__ == "__main__":
    main()
