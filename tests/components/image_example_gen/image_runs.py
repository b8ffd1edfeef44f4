"""Runs ImageExampleGen's executor, and tells what it wrote."""

import functools
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from components.image_example_gen import Executor
from tests.components import runs
from tests.components.runs import accounting, input_config, placed, shards
from tests.make import photo as any_photo
from tests.make import write_files as write_tree

__all__ = [
    "accounting",
    "convert",
    "flat",
    "input_config",
    "labels_of",
    "output_config",
    "photo",
    "placed",
    "read",
    "rejects_in",
    "run",
    "sha256",
    "shards",
    "splits_of",
    "value",
    "write_photos",
    "write_tree",
]

read = runs.examples_of
run = functools.partial(runs.run, Executor)


def photo(
    number: int, kind: str = "JPEG", mode: str = "RGB", size: tuple[int, int] = (40, 24)
) -> bytes:
    return any_photo(number, kind, mode, size)


def write_photos(base: Path, *names: str) -> Path:
    """Writes a different photo under each name."""
    return write_tree(base, {name: photo(number) for number, name in enumerate(names)})


def output_config(*shares: tuple[str, int], partition_feature_name: str = "") -> str:
    return runs.output_config(partition_feature_name=partition_feature_name, **dict(shares))


def convert(
    base: Path | str,
    uri: Path,
    *,
    between: Callable[[], object] = lambda: None,
    **properties: object,
) -> dict:
    """Runs the executor; returns the manifest."""
    run(base, uri, between=between, **properties)
    return runs.manifest_of(uri)


def value(example: tf.train.Example, name: str) -> Any:
    """The bytes or int of a feature that holds one."""
    (only,) = runs.values_of(example)[name]
    return only


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
