"""Compare TextExampleGen with TFX's CsvExampleGen on the same CSV, and on JSON lines.

    python benchmarks/text_conversion.py --workdir bench         # 1,000,000 rows of about 115 bytes

The plain loop reads the rows with Python's csv module and writes each with `TFRecordWriter`. It
does not split, order, or infer types.
"""

import argparse
import csv
import json
import random
from pathlib import Path
from typing import Any

import tensorflow as tf
from common import compare, texts_of_this_machine
from image_conversion import run_executor
from tfx.components.example_gen.csv_example_gen import executor as csv_executor
from tfx.proto import example_gen_pb2

from components.text_example_gen import Executor
from components.tfx.executor import LocalFirstBeamExecutor


class StockExecutor(LocalFirstBeamExecutor, csv_executor.Executor):
    """CsvExampleGen's executor, on the same in-process runner."""


def write_tables(folder: Path, *, rows: int) -> tuple[Path, Path]:
    """Write the same rows as CSV and as lines of JSON, each to its own folder."""
    paths = folder / f"csv-{rows}" / "data.csv", folder / f"jsonl-{rows}" / "data.jsonl"
    if not all(path.exists() for path in paths):
        sentences = texts_of_this_machine(count=5_000, characters=90)
        random_state = random.Random(0)
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
        with paths[0].open("w", newline="") as table, paths[1].open("w") as lines:
            writer = csv.writer(table)
            writer.writerow(["text", "label", "score", "stars"])
            for number in range(rows):
                row = [
                    f"{number} {random_state.choice(sentences)}",
                    random_state.choice(["good", "bad", "neither"]),
                    round(random_state.random(), 4),
                    random_state.randint(1, 5),
                ]
                writer.writerow(row)
                names = ["text", "label", "score", "stars"]
                lines.write(json.dumps(dict(zip(names, row, strict=True))) + "\n")
    return paths


def run_loop(table: Path, target: Path) -> None:
    """Convert with the least work, using the standard library and TensorFlow's writer."""

    def feature(**values: Any) -> tf.train.Feature:
        return tf.train.Feature(**values)

    with (
        table.open(newline="") as stream,
        tf.io.TFRecordWriter(str(target / "data")) as writer,
    ):
        for row in csv.DictReader(stream):
            features = {
                "text": feature(bytes_list=tf.train.BytesList(value=[row["text"].encode()])),
                "label": feature(bytes_list=tf.train.BytesList(value=[row["label"].encode()])),
                "score": feature(float_list=tf.train.FloatList(value=[float(row["score"])])),
                "stars": feature(int64_list=tf.train.Int64List(value=[int(row["stars"])])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())


def main() -> None:
    """Measure all peers and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workdir", type=Path, default=Path("bench"))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    workdir = arguments.workdir.resolve()
    table, lines = write_tables(workdir, rows=arguments.rows)
    splits = example_gen_pb2.SplitConfig(
        splits=[
            example_gen_pb2.SplitConfig.Split(name="train", hash_buckets=2),
            example_gen_pb2.SplitConfig.Split(name="eval", hash_buckets=1),
        ]
    )
    output = example_gen_pb2.Output(split_config=splits)
    rates = compare(
        {
            "TextExampleGen, CSV": lambda to: run_executor(Executor, table.parent, to, output),
            "TextExampleGen, JSON lines": lambda to: run_executor(
                Executor, lines.parent, to, output
            ),
            "CsvExampleGen": lambda to: run_executor(StockExecutor, table.parent, to, output),
            "csv and TFRecordWriter loop": lambda to: run_loop(table, to),
        },
        records=arguments.rows,
        megabytes=table.stat().st_size / 1e6,
        target=workdir / "out",
        runs=arguments.runs,
    )
    ours, *peers = rates.items()
    for name, rate in peers:
        print(f"{ours[1] / rate:.2f} times {name}")


if __name__ == "__main__":
    main()
