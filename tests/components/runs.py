"""Run an ExampleGen's executor like TFX does, and read its output with TensorFlow's reader."""

import collections
import dataclasses
import functools
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import tensorflow as tf
from tfx.components.example_gen import utils
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.types import standard_artifacts
from tfx.utils import proto_utils

from components.runtime.beam import IN_PROCESS_RUNNER
from components.text_example_gen import Executor as TextExecutor

Row = dict[str, list[Any]]


def input_config(**patterns: str) -> str:
    """Return TFX's property: `input_config(train=pattern, …)`."""
    return json.dumps({"splits": [{"name": n, "pattern": one} for n, one in patterns.items()]})


def output_config(**shares: int) -> str:
    """Return TFX's property: `output_config(train=2, eval=1)`."""
    splits = [{"name": name, "hash_buckets": share} for name, share in shares.items()]
    return json.dumps({"split_config": {"splits": splits}})


def _make_pipeline() -> beam.Pipeline:
    return beam.Pipeline(runner=IN_PROCESS_RUNNER)


def run(
    executor: Any,
    base: Path | str,
    uri: Path,
    *,
    beam_args: list[Any] | None = None,
    **settings: Any,
) -> standard_artifacts.Examples:
    """Run an executor class; in this process unless there are Beam arguments."""
    artifact = standard_artifacts.Examples()
    artifact.uri = str(uri)
    context = BaseBeamExecutor.Context(
        beam_pipeline_args=beam_args,
        make_beam_pipeline_fn=None if beam_args else _make_pipeline,
        tmp_dir=f"{uri}.tmp",
        unique_id="1",
    )
    given = {n: json.dumps(v) if isinstance(v, (dict, list)) else v for n, v in settings.items()}
    properties = {
        "input_base": str(base),
        "input_config": proto_utils.proto_to_json(utils.make_default_input_config()),
        "output_config": "{}",
        **given,
    }
    executor(context).Do({}, {"examples": [artifact]}, properties)
    return artifact


def manifest_of(uri: Path) -> dict[str, Any]:
    return json.loads((uri / "manifest.json").read_text())


def shards(uri: Path, split: str) -> list[Path]:
    return sorted((uri / f"Split-{split}").iterdir())


def records_of(path: Path) -> Iterator[bytes]:
    """Yield a shard's records with TensorFlow's iterator; a tf.data dataset takes 30 ms a file."""
    options = tf.io.TFRecordOptions("GZIP" if path.suffix else "")
    return tf.compat.v1.io.tf_record_iterator(str(path), options)


def examples_of(uri: Path) -> dict[str, list[tf.train.Example]]:
    """Return the examples of each split, in order."""
    return {
        folder.name.removeprefix("Split-"): [
            tf.train.Example.FromString(record)
            for path in sorted(folder.iterdir())
            for record in records_of(path)
        ]
        for folder in sorted(uri.glob("Split-*"))
    }


def values_of(example: tf.train.Example) -> Row:
    """Return an example's values by feature."""
    return {
        name: list(getattr(feature, feature.WhichOneof("kind")).value)
        for name, feature in example.features.feature.items()
    }


def rows_of(uri: Path) -> dict[str, list[Row]]:
    """Return the values of each split's examples, in order."""
    return {split: [*map(values_of, found)] for split, found in examples_of(uri).items()}


def vocabulary(uri: Path, feature: str = "label") -> list[str]:
    path = uri / "vocab" / f"{feature}.txt"
    return path.read_text("utf-8").split("\n")[:-1] if path.exists() else []


def by_filename(uri: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return split and values of every example by filename; single values are not lists."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for split, rows in rows_of(uri).items():
        for row in rows:
            name = os.fsdecode(row["filename"][0])
            assert name not in found, "in the dataset twice"
            found[name] = split, {n: v[0] if len(v) == 1 else v for n, v in row.items()}
    return found


def placed(uri: Path) -> dict[str, tuple[str, str | None]]:
    """Return split and label of every example by filename."""
    labels = vocabulary(uri)
    return {
        name: (split, labels[row["label"]] if "label" in row else None)
        for name, (split, row) in by_filename(uri).items()
    }


def rejects_in(uri: Path) -> list[dict[str, str]]:
    path = uri / "rejects.jsonl"
    lines = path.read_text("utf-8").split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


def check_law(uri: Path) -> None:
    """Assert that found = written + rejected + skipped in each split, and count the records."""
    splits, total = manifest_of(uri)["splits"], manifest_of(uri)["total"]
    rejected = collections.Counter(line["split"] for line in rejects_in(uri))
    written = {split: len(rows) for split, rows in examples_of(uri).items()}
    assert written == {split: entry["written"] for split, entry in splits.items()}
    assert rejected == {n: e["rejected"] for n, e in splits.items() if e["rejected"]}
    for entry in (*splits.values(), total):
        assert entry["found"] == entry["written"] + entry["rejected"] + entry["skipped"]
    for name in ("found", "written", "rejected", "skipped"):
        assert total[name] == sum(entry[name] for entry in splits.values())


def accounting(entry: dict[str, int]) -> dict[str, int]:
    return {name: entry[name] for name in ("found", "written", "rejected", "skipped")}


@dataclasses.dataclass(frozen=True)
class Dataset:
    """The output of a run."""

    uri: Path
    artifact: standard_artifacts.Examples

    @functools.cached_property
    def manifest(self) -> dict[str, Any]:
        return manifest_of(self.uri)

    @functools.cached_property
    def features(self) -> dict[str, Any]:
        """Features in Datum's description."""
        return json.loads((self.uri / "datum_to_type_and_shape_mapping.json").read_text())

    def shards(self, split: str) -> list[Path]:
        return shards(self.uri, split)

    @functools.cached_property
    def splits(self) -> dict[str, list[Row]]:
        """Examples of each split, in order."""
        return rows_of(self.uri)

    def by_id(self, *, key: str = "id") -> dict[str, Row]:
        """Return the features of every example, except its id, by id."""
        rows: dict[str, Row] = {}
        for row in itertools.chain.from_iterable(self.splits.values()):
            (name,) = row[key]
            assert os.fsdecode(name) not in rows, "in the dataset twice"
            rows[os.fsdecode(name)] = {n: values for n, values in row.items() if n != key}
        return rows

    def ids(self, split: str) -> list[str]:
        """Return the ids of a split, in order."""
        return [os.fsdecode(row["id"][0]) for row in self.splits[split]]

    def split_of(self) -> dict[str, str]:
        """Return the split of every example by id."""
        return {name: split for split in self.splits for name in self.ids(split)}

    def texts(self, feature: str = "text") -> dict[str, str]:
        """Return the value of a string feature by id."""
        return {name: row[feature][0].decode() for name, row in self.by_id().items()}

    def vocabulary(self, feature: str = "label") -> list[str]:
        return vocabulary(self.uri, feature)

    def labels(self, feature: str = "label") -> dict[str, str]:
        """Return the name of each label by id."""
        words = self.vocabulary(feature)
        return {name: words[row[feature][0]] for name, row in self.by_id().items()}

    @functools.cached_property
    def rejects(self) -> list[dict[str, str]]:
        return rejects_in(self.uri)

    def counts(self) -> dict[str, int]:
        """Return the totals found, written, rejected and skipped of all splits."""
        return accounting(self.manifest["total"])


def run_text(base: Path | str, uri: Path, **settings: Any) -> Dataset:
    """Run TextExampleGen's executor on a folder or file."""
    dataset = Dataset(uri, run(TextExecutor, base, uri, **settings))
    check_law(uri)
    return dataset
