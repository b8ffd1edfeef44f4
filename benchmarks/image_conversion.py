"""ImageExampleGen against the stock ExampleGen pattern, TFDS and a plain TFRecordWriter loop.

    python benchmarks/image_conversion.py --workdir bench        # 3,000 JPEGs of about 100 KB

TFDS takes part where it is installed: `pip install 'tfx-shards[bench]'`. The loop splits, orders
and checks nothing; it is what the disk and TensorFlow's writer allow on one core.
"""

import argparse
import importlib.util
from pathlib import Path
from typing import Any

import apache_beam as beam
import tensorflow as tf
from common import compare, make_jpegs
from tfx.components.example_gen import base_example_gen_executor
from tfx.proto import example_gen_pb2
from tfx.types import standard_artifacts
from tfx.utils import proto_utils

from components.common.beam import LocalFirstBeamExecutor
from components.image_example_gen.executor import Executor


def encode(path: str) -> tf.train.Example:
    """One image as a stock ExampleGen's author would write it."""
    feature = {
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[Path(path).read_bytes()])),
        "label": tf.train.Feature(
            bytes_list=tf.train.BytesList(value=[Path(path).parent.name.encode()])
        ),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature))


@beam.ptransform_fn
def _images_to_examples(pipeline: Any, exec_properties: dict[str, Any], pattern: str) -> Any:
    base = Path(exec_properties["input_base"])
    paths = [str(path) for path in sorted(base.rglob("*.jpg"))]
    return pipeline | "List" >> beam.Create(paths) | "Encode" >> beam.Map(encode)


class StockExecutor(LocalFirstBeamExecutor, base_example_gen_executor.BaseExampleGenExecutor):
    """The stock pattern, on the same in-process runner as ours."""

    def GetInputSourceToExamplePTransform(self) -> Any:
        return _images_to_examples


def run_executor(
    kind: type, photos: Path, target: Path, output: example_gen_pb2.Output, **options: Any
) -> None:
    """Runs an ExampleGen executor as TFX would."""
    artifact = standard_artifacts.Examples()
    artifact.uri = str(target)
    split = example_gen_pb2.Input.Split(name="all", pattern="*")
    kind().Do(
        {},
        {"examples": [artifact]},
        {
            "input_base": str(photos),
            "input_config": proto_utils.proto_to_json(example_gen_pb2.Input(splits=[split])),
            "output_config": proto_utils.proto_to_json(output),
            **options,
        },
    )


def run_loop(photos: Path, target: Path) -> None:
    """The least that anybody can do: one file, no split, no check."""
    with tf.io.TFRecordWriter(str(target / "data")) as writer:
        for path in sorted(photos.rglob("*.jpg")):
            writer.write(encode(str(path)).SerializeToString())


def tfds_peer(photos: Path) -> dict[str, Any]:
    """TFDS, where it is installed."""
    if importlib.util.find_spec("tensorflow_datasets") is None:
        return {}
    from tfds_photos import make_builder

    builder = make_builder(photos)
    run = lambda to: builder(data_dir=str(to)).download_and_prepare()  # noqa: E731
    return {"TFDS GeneratorBasedBuilder": run}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workdir", type=Path, default=Path("bench"))
    parser.add_argument("--count", type=int, default=3_000)
    arguments = parser.parse_args()
    workdir = arguments.workdir.resolve()
    photos = workdir / f"photos-{arguments.count}"
    megabytes = make_jpegs(photos, count=arguments.count)
    splits = example_gen_pb2.SplitConfig(
        splits=[
            example_gen_pb2.SplitConfig.Split(name="train", hash_buckets=2),
            example_gen_pb2.SplitConfig.Split(name="eval", hash_buckets=1),
        ]
    )
    output = example_gen_pb2.Output(split_config=splits)
    rates = compare(
        {
            "ImageExampleGen": lambda to: run_executor(Executor, photos, to, output),
            "stock ExampleGen pattern": lambda to: run_executor(StockExecutor, photos, to, output),
            **tfds_peer(photos),
            "plain TFRecordWriter loop": lambda to: run_loop(photos, to),
        },
        records=arguments.count,
        megabytes=megabytes,
        target=workdir / "out",
    )
    ours, *peers = rates.items()
    for name, rate in peers:
        print(f"{ours[1] / rate:.2f} times {name}")


if __name__ == "__main__":
    main()
