"""Run AudioExampleGen's executor, and read its output with TensorFlow's reader."""

import functools
import json
from pathlib import Path
from typing import Any

from components.audio_example_gen import Executor
from tests.components import runs
from tests.make import write_files as write_tree

run = functools.partial(runs.run, Executor)


def convert(files: dict[str, bytes], tmp_path: Path, **properties: Any) -> dict[str, Any]:
    """Run the executor on files, with the output in `out`, and return the manifest."""
    run(write_tree(tmp_path / "in", files), tmp_path / "out", **properties)
    runs.check_law(tmp_path / "out")
    return runs.manifest_of(tmp_path / "out")


def by_name(uri: Path) -> dict[str, dict[str, Any]]:
    """Return the values of every example by filename, without lists."""
    return {name: {**row, "split": split} for name, (split, row) in runs.by_filename(uri).items()}


def feature_of(uri: Path, name: str = "audio") -> dict[str, Any]:
    return json.loads((uri / "datum_to_type_and_shape_mapping.json").read_text())[name]
