"""Compare ImageExampleGen with the stock ExampleGen pattern, TFDS and TFRecordWriter loops.

    python benchmarks/image_conversion.py --workdir bench --count 20000     # photos of about 107 KB

TFDS takes part if it is installed: `pip install 'tfx-shards[bench]'`. The loops split, order and
check nothing. They show the limit of the disk and TensorFlow's writer, in one process and in one
per core. ImageExampleGen is measured on all cores, its default, and in one process.

The goals: on two cores 25 times the stock pattern, 2 times TFDS, 1.7 times ImageExampleGen in one
process, 0.8 of the loops in as many processes. More cores are projected from both measurements.
"""

import argparse
import functools
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from common import compare, make_jpegs
from plain_loops import PlainLoops, encode, run_loop
from tfx.components.example_gen import base_example_gen_executor
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.proto import example_gen_pb2
from tfx.types import standard_artifacts
from tfx.utils import proto_utils

from components.image_example_gen import Executor
from components.tfx.executor import LocalFirstBeamExecutor
from trainer_utils.runtime.machine import usable_cores

# With an image, TFX does not package itself for workers, which do not exist here.
_ONE_PROCESS = ("--direct_num_workers=1", "--sdk_container_image=none")
_GOALS = {"stock": 25.0, "TFDS": 2.0, "ImageExampleGen, one process": 1.7, "plain loops": 0.8}
_PROJECTED_CORES = (4, 8)


@beam.ptransform_fn
def _images_to_examples(pipeline: Any, exec_properties: dict[str, Any], pattern: str) -> Any:
    base = Path(exec_properties["input_base"])
    paths = [str(path) for path in sorted(base.rglob("*.jpg"))]
    return pipeline | "List" >> beam.Create(paths) | "Encode" >> beam.Map(encode)


class StockExecutor(LocalFirstBeamExecutor, base_example_gen_executor.BaseExampleGenExecutor):
    """The stock pattern, on the same in-process runner."""

    def GetInputSourceToExamplePTransform(self) -> Any:
        return _images_to_examples


def run_executor(
    kind: type,
    photos: Path,
    target: Path,
    output: example_gen_pb2.Output,
    beam_pipeline_args: Sequence[str] = (),
    **options: Any,
) -> None:
    """Run an ExampleGen executor like TFX."""
    context = BaseBeamExecutor.Context(beam_pipeline_args=[*beam_pipeline_args])
    artifact = standard_artifacts.Examples()
    artifact.uri = str(target)
    split = example_gen_pb2.Input.Split(name="all", pattern="*")
    kind(context).Do(
        {},
        {"examples": [artifact]},
        {
            "input_base": str(photos),
            "input_config": proto_utils.proto_to_json(example_gen_pb2.Input(splits=[split])),
            "output_config": proto_utils.proto_to_json(output),
            **options,
        },
    )


def tfds_peer(photos: Path) -> dict[str, Any]:
    """Return TFDS as a peer, if it is installed."""
    if importlib.util.find_spec("tensorflow_datasets") is None:
        return {}
    from tfds_photos import make_builder

    builder = make_builder(photos)
    run = lambda to: builder(data_dir=str(to)).download_and_prepare()  # noqa: E731
    return {"TFDS GeneratorBasedBuilder": run}


def main() -> None:
    """Measure all peers and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workdir", type=Path, default=Path("bench"))
    parser.add_argument("--count", type=int, default=3_000)
    parser.add_argument("--runs", type=int, default=3)
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
    cores = usable_cores()
    ours = functools.partial(run_executor, Executor, photos, output=output)
    with PlainLoops(cores) as loops:
        rates = compare(
            {
                "ImageExampleGen": lambda to: ours(target=to),
                "ImageExampleGen, one process": lambda to: ours(
                    target=to, beam_pipeline_args=_ONE_PROCESS
                ),
                "stock ExampleGen pattern": lambda to: run_executor(
                    StockExecutor, photos, to, output
                ),
                **tfds_peer(photos),
                "plain TFRecordWriter loop": lambda to: run_loop(photos, to),
                f"plain loops, {cores} processes": lambda to: loops.run(photos, to),
            },
            records=arguments.count,
            megabytes=megabytes,
            target=workdir / "out",
            runs=arguments.runs,
            others_cpu_seconds=loops.cpu_seconds,
        )
    first, *peers = rates.items()
    for name, rate in peers:
        goal = next((goal for start, goal in _GOALS.items() if name.startswith(start)), None)
        print(f"{first[1] / rate:.2f} times {name}" + (f" (goal: {goal})" if goal else ""))
    print_projection(arguments.count, rates, cores)


def print_projection(count: int, rates: dict[str, float], cores: int) -> None:
    """Print the projected rate of more cores, if work that two processes share stays shared.

    With one core it takes T1 = serial + shared, with n cores Tn = serial + shared / n.
    """
    if cores < 2:
        return
    together, alone = (count / rate for rate in [*rates.values()][:2])
    shared = (alone - together) / (1 - 1 / cores)
    for number in _PROJECTED_CORES:
        rate = count / (alone - shared + shared / number)
        serial = alone - shared
        print(f"{number} cores, projected: {rate:.0f} records/s, of which {serial:.2f} s on one")


if __name__ == "__main__":
    main()
