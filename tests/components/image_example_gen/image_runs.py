"""Runs ImageExampleGen's executor, and reads what it wrote with TensorFlow's own reader."""

import functools
import hashlib
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import tensorflow as tf
from PIL import Image
from sklearn.datasets import load_sample_images
from tfx.components.example_gen import utils
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.proto import example_gen_pb2
from tfx.types import standard_artifacts
from tfx.utils import proto_utils

from components.image_example_gen import Executor

IN_PROCESS = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"


@functools.cache
def sample_photos() -> list[Image.Image]:
    """The two photos that scikit-learn ships, 640 x 427 RGB."""
    return [Image.fromarray(pixels) for pixels in load_sample_images().images]


def photo(
    number: int, kind: str = "JPEG", mode: str = "RGB", size: tuple[int, int] = (40, 24)
) -> bytes:
    """An encoded cut of a real photo; another number gives another cut."""
    x, y = number % 560, number // 560
    cut = sample_photos()[number % 2].crop((x, y, x + size[0], y + size[1])).convert(mode)
    stream = io.BytesIO()
    cut.save(stream, kind)
    return stream.getvalue()


def write_tree(base: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return base


def write_photos(base: Path, *names: str) -> Path:
    """Writes a different photo under each name."""
    return write_tree(base, {name: photo(number) for number, name in enumerate(names)})


def input_config(**patterns: str) -> str:
    splits = [
        example_gen_pb2.Input.Split(name=name, pattern=pattern)
        for name, pattern in patterns.items()
    ]
    return proto_utils.proto_to_json(example_gen_pb2.Input(splits=splits))


def output_config(*shares: tuple[str, int], partition_feature_name: str = "") -> str:
    splits = [
        example_gen_pb2.SplitConfig.Split(name=name, hash_buckets=share) for name, share in shares
    ]
    split_config = example_gen_pb2.SplitConfig(
        splits=splits, partition_feature_name=partition_feature_name
    )
    return proto_utils.proto_to_json(example_gen_pb2.Output(split_config=split_config))


def run(
    base: Path | str,
    uri: Path,
    *,
    between: Callable[[], object] = lambda: None,
    **properties: object,
) -> standard_artifacts.Examples:
    """Runs the executor as TFX does; `between` is called after listing and before reading."""

    def make_pipeline() -> beam.Pipeline:
        between()
        return beam.Pipeline(runner=IN_PROCESS)

    artifact = standard_artifacts.Examples()
    artifact.uri = str(uri)
    defaults: dict[str, object] = {
        "input_config": proto_utils.proto_to_json(utils.make_default_input_config()),
        "output_config": proto_utils.proto_to_json(example_gen_pb2.Output()),
    }
    executor = Executor(BaseBeamExecutor.Context(make_beam_pipeline_fn=make_pipeline))
    executor.Do({}, {"examples": [artifact]}, {"input_base": str(base), **defaults, **properties})
    return artifact


def convert(
    base: Path | str,
    uri: Path,
    *,
    between: Callable[[], object] = lambda: None,
    **properties: object,
) -> dict:
    """Runs the executor; returns the manifest."""
    run(base, uri, between=between, **properties)
    return json.loads((uri / "manifest.json").read_text())


def shards(uri: Path, split: str) -> list[Path]:
    return sorted((uri / f"Split-{split}").iterdir())


def read(uri: Path) -> dict[str, list[tf.train.Example]]:
    """The examples of each split, in order, by TensorFlow's own reader."""
    return {
        folder.name.removeprefix("Split-"): [
            tf.train.Example.FromString(record.numpy())
            for path in shards(uri, folder.name.removeprefix("Split-"))
            for record in tf.data.TFRecordDataset(str(path), "GZIP" if path.suffix else "")
        ]
        for folder in sorted(uri.glob("Split-*"))
    }


def value(example: tf.train.Example, name: str) -> Any:
    """The bytes or int of a feature that holds one."""
    feature = example.features.feature[name]
    (only,) = getattr(feature, feature.WhichOneof("kind")).value
    return only


def placed(uri: Path) -> dict[str, tuple[str, str | None]]:
    """Split and label of every example, by filename."""
    vocabulary = uri / "vocab" / "label.txt"
    labels = vocabulary.read_text().split("\n") if vocabulary.exists() else []
    found: dict[str, tuple[str, str | None]] = {}
    for split, examples in read(uri).items():
        for example in examples:
            name = os.fsdecode(value(example, "filename"))
            assert name not in found, "in the dataset twice"
            has_label = "label" in example.features.feature
            found[name] = (split, labels[value(example, "label")] if has_label else None)
    return found


def flat(uri: Path) -> list[tf.train.Example]:
    return [example for examples in read(uri).values() for example in examples]


def splits_of(uri: Path) -> dict[str, str]:
    return {filename: split for filename, (split, _) in placed(uri).items()}


def labels_of(uri: Path) -> dict[str, str | None]:
    return {filename: label for filename, (_, label) in placed(uri).items()}


def rejects_in(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def accounting(entry: dict) -> dict[str, int]:
    return {name: entry[name] for name in ("found", "written", "rejected", "skipped")}
