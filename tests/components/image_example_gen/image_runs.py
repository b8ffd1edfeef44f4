"""Run ImageExampleGen's executor, and read its output."""

import functools
from pathlib import Path
from typing import Any

import tensorflow as tf

from components.image_example_gen import Executor
from tests.components import runs
from tests.components.runs import placed
from tests.make import photo as any_photo
from tests.make import write_files as write_tree

read = runs.examples_of
run = functools.partial(runs.run, Executor)


def photo(
    number: int, kind: str = "JPEG", mode: str = "RGB", size: tuple[int, int] = (40, 24)
) -> bytes:
    return any_photo(number, kind, mode, size)


def write_photos(base: Path, *names: str) -> Path:
    """Write a different photo under each name."""
    return write_tree(base, {name: photo(number) for number, name in enumerate(names)})


def convert(base: Path | str, uri: Path, **properties: Any) -> dict[str, Any]:
    """Run the executor, and return the manifest."""
    run(base, uri, **properties)
    return runs.manifest_of(uri)


def value(example: tf.train.Example, name: str) -> Any:
    """Return the single value of a feature, bytes or an int."""
    (only,) = runs.values_of(example)[name]
    return only


def flat(uri: Path) -> list[tf.train.Example]:
    return [example for examples in read(uri).values() for example in examples]


def labels_of(uri: Path) -> dict[str, str | None]:
    return {filename: label for filename, (_, label) in placed(uri).items()}
