"""Compare ShardBalancer with Beam's read-Reshuffle-write and a plain TensorFlow copy loop.

    python benchmarks/shard_balancer.py --workdir bench     # images of 100 KB, texts of 100 bytes

The claim: with its global shuffle, at least 0.6 of the loop, which keeps the order, and at least 10
times Beam's. Both peers check no more than ShardBalancer, read nothing back, and write neither
index nor manifest. The last part is the cost of gzip.
"""

import argparse
import random
import re
from pathlib import Path

import apache_beam as beam
import tensorflow as tf
from common import compare, make_jpegs
from tfx.types import standard_artifacts

from components.runtime.beam import IN_PROCESS_RUNNER
from components.shard_balancer import Executor

_SHARDS = 8


def write_source(folder: Path, *, count: int, record_bytes: int) -> float:
    """Write records of random bytes in a stock layout, uncompressed; return their total MB."""
    if not folder.is_dir():
        split = folder / "Split-train"
        split.mkdir(parents=True)
        random_state = random.Random(0)
        writers = [
            tf.io.TFRecordWriter(str(split / f"data_tfrecord-{index:05d}-of-{_SHARDS:05d}"))
            for index in range(_SHARDS)
        ]
        for number in range(count):
            example = tf.train.Example()
            size = random_state.randint(record_bytes // 2, record_bytes * 3 // 2)
            example.features.feature["data"].bytes_list.value.append(random_state.randbytes(size))
            writers[number % _SHARDS].write(example.SerializeToString())
        for writer in writers:
            writer.close()
    return sum(path.stat().st_size for path in folder.rglob("data_*")) / 1e6


def write_words(folder: Path, *, count: int) -> float:
    """Write records of some 20 English words, as compressible as texts; return their total MB."""
    if not folder.is_dir():
        (folder / "Split-train").mkdir(parents=True)
        random_state = random.Random(0)
        words = re.findall(r"[a-z]+", str(tf.data.Dataset.__doc__).lower())
        with tf.io.TFRecordWriter(str(folder / "Split-train/data")) as writer:
            for _ in range(count):
                text = " ".join(random_state.choices(words, k=20))
                example = tf.train.Example()
                example.features.feature["text"].bytes_list.value.append(text.encode())
                writer.write(example.SerializeToString())
    return sum(path.stat().st_size for path in folder.rglob("data*")) / 1e6


def write_jpegs(folder: Path, photos: Path, *, count: int) -> float:
    """Write records of one JPEG each; return their total MB."""
    megabytes = make_jpegs(photos, count=count)
    if not folder.is_dir():
        (folder / "Split-train").mkdir(parents=True)
        with tf.io.TFRecordWriter(str(folder / "Split-train/data")) as writer:
            for path in sorted(photos.rglob("*.jpg")):
                example = tf.train.Example()
                example.features.feature["image"].bytes_list.value.append(path.read_bytes())
                writer.write(example.SerializeToString())
    return megabytes


def read_all(source: Path, compression: str) -> None:
    """Read records like a trainer, without parsing them."""
    files = sorted(str(path) for path in source.rglob("data_*"))
    for _ in tf.data.TFRecordDataset(files, compression).batch(1024):
        pass


def measure_gzip(workdir: Path, name: str, source: Path, *, count: int, megabytes: float) -> None:
    """Measure writing and reading with and without gzip."""
    print(f"## gzip, {name}\n")
    kept = {}
    for compression in ("none", "gzip"):
        kept[compression] = workdir / f"{source.name}-{compression}"
        if not kept[compression].is_dir():
            run_balancer(source, kept[compression], compression=compression)
    sizes = {
        compression: sum(path.stat().st_size for path in folder.rglob("data_*")) / 1e6
        for compression, folder in kept.items()
    }
    print(f"{sizes['none']:.0f} MB become {sizes['gzip']:.0f} MB\n")
    compare(
        {
            "write": lambda to: run_balancer(kept["none"], to),
            "write, gzip": lambda to: run_balancer(kept["none"], to, compression="gzip"),
            "read": lambda to: read_all(kept["none"], ""),
            "read, gzip": lambda to: read_all(kept["gzip"], "GZIP"),
        },
        records=count,
        megabytes=megabytes,
        target=workdir / "out",
    )


def run_balancer(source: Path, target: Path, compression: str = "none") -> None:
    """Run ShardBalancer like TFX."""
    given, artifact = standard_artifacts.Examples(), standard_artifacts.Examples()
    given.uri, artifact.uri = str(source), str(target)
    properties = {"num_shards": str(_SHARDS), "compression": compression}
    Executor().Do({"examples": [given]}, {"balanced_examples": [artifact]}, properties)


def run_loop(source: Path, target: Path, batch: int) -> None:
    """Copy records in order, in batches, since TensorFlow yields single records slowly."""
    files = sorted(str(path) for path in source.rglob("data_*"))
    with tf.io.TFRecordWriter(str(target / "data")) as writer:
        for records in tf.data.TFRecordDataset(files).batch(batch).as_numpy_iterator():
            for record in records:
                writer.write(record)


def run_beam(source: Path, target: Path) -> None:
    """Copy records like the author of a pipeline would."""
    with beam.Pipeline(argv=[f"--runner={IN_PROCESS_RUNNER}"]) as pipeline:
        (
            pipeline
            | beam.io.ReadFromTFRecord(str(source / "Split-train" / "*"))
            | beam.Reshuffle()
            | beam.io.WriteToTFRecord(str(target / "data"), num_shards=_SHARDS)
        )


def main() -> None:
    """Measure all peers and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workdir", type=Path, default=Path("bench"))
    workdir = parser.parse_args().workdir.resolve()
    for name, count, record_bytes, batch in (
        ("images", 6_000, 100_000, 16),
        ("texts", 400_000, 100, 1024),
    ):
        stock, source = workdir / f"stock-{name}-{count}", workdir / f"source-{name}-{count}"
        megabytes = write_source(stock, count=count, record_bytes=record_bytes)
        if not source.is_dir():
            run_balancer(
                stock, source
            )  # like ImageExampleGen's output: counts and features are known
        print(f"## {name}\n")
        rates = compare(
            {
                "ShardBalancer": lambda to, s=source: run_balancer(s, to),
                "the same, of a stock dataset": lambda to, s=stock: run_balancer(s, to),
                "plain TensorFlow copy loop": lambda to, s=source, b=batch: run_loop(s, to, b),
                "Beam read, Reshuffle, write": lambda to, s=source: run_beam(s, to),
            },
            records=count,
            megabytes=megabytes,
            target=workdir / "out",
        )
        ours, _, loop, beams = rates.values()
        print(
            f"claim: at least 0.6 of the loop and 10 times Beam's; "
            f"measured {ours / loop:.2f} and {ours / beams:.1f}x\n"
        )
    texts, jpegs = workdir / "words", workdir / "stock-jpegs"
    megabytes = write_words(texts, count=100_000)
    measure_gzip(workdir, "texts of 20 words", texts, count=100_000, megabytes=megabytes)
    megabytes = write_jpegs(jpegs, workdir / "jpegs", count=600)
    measure_gzip(workdir, "JPEGs", jpegs, count=600, megabytes=megabytes)


if __name__ == "__main__":
    main()
