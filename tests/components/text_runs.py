"""Runs TextExampleGen's executor, and reads what it wrote with TensorFlow's own reader."""

import collections
import dataclasses
import functools
import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apache_beam as beam
import tensorflow as tf
from tfx.components.example_gen import utils
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.proto import example_gen_pb2
from tfx.types import standard_artifacts
from tfx.utils import proto_utils

from components.text_example_gen import Executor

IN_PROCESS = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
_JSON = ("columns", "column_names", "vocabulary")

Row = dict[str, list[Any]]


def parsed(record: bytes) -> Row:
    """An example's values by feature."""
    features = tf.train.Example.FromString(record).features.feature
    return {
        name: list(getattr(feature, feature.WhichOneof("kind")).value)
        for name, feature in features.items()
    }


@dataclasses.dataclass(frozen=True)
class Dataset:
    """What a run wrote."""

    uri: Path
    artifact: standard_artifacts.Examples

    @functools.cached_property
    def manifest(self) -> dict[str, Any]:
        return json.loads((self.uri / "manifest.json").read_text())

    @functools.cached_property
    def features(self) -> dict[str, Any]:
        """Datum's description of the features."""
        return json.loads((self.uri / "datum_to_type_and_shape_mapping.json").read_text())

    def shards(self, split: str) -> list[Path]:
        return sorted((self.uri / f"Split-{split}").iterdir())

    @functools.cached_property
    def splits(self) -> dict[str, list[Row]]:
        """The examples of each split, in order."""
        names = sorted(path.name.removeprefix("Split-") for path in self.uri.glob("Split-*"))
        return {
            name: [
                parsed(record)
                for path in self.shards(name)
                for record in tf.data.TFRecordDataset(
                    str(path), "GZIP" if path.suffix else ""
                ).as_numpy_iterator()
            ]
            for name in names
        }

    def by_id(self, *, key: str = "id") -> dict[str, Row]:
        """Every example's features but its id, by this."""
        rows: dict[str, Row] = {}
        for row in itertools.chain.from_iterable(self.splits.values()):
            (name,) = row[key]
            assert os.fsdecode(name) not in rows, "in the dataset twice"
            rows[os.fsdecode(name)] = {n: values for n, values in row.items() if n != key}
        return rows

    def ids(self, split: str) -> list[str]:
        """The ids of a split, in order."""
        return [os.fsdecode(row["id"][0]) for row in self.splits[split]]

    def split_of(self) -> dict[str, str]:
        """The split of every example, by id."""
        return {name: split for split in self.splits for name in self.ids(split)}

    def texts(self, feature: str = "text") -> dict[str, str]:
        """A feature that is one text, by id."""
        return {name: row[feature][0].decode() for name, row in self.by_id().items()}

    def vocabulary(self, feature: str = "label") -> list[str]:
        return (self.uri / "vocab" / f"{feature}.txt").read_text("utf-8").split("\n")[:-1]

    def labels(self, feature: str = "label") -> dict[str, str]:
        """The word of a label, by id."""
        words = self.vocabulary(feature)
        return {name: words[row[feature][0]] for name, row in self.by_id().items()}

    @functools.cached_property
    def rejects(self) -> list[dict[str, str]]:
        path = self.uri / "rejects.jsonl"
        lines = path.read_text("utf-8").split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def counts(self) -> dict[str, int]:
        """Found, written, rejected and skipped, of all splits."""
        names = ("found", "written", "rejected", "skipped")
        return {name: self.manifest["total"][name] for name in names}

    def check_accounting(self) -> None:
        """What the manifest says of every split is what is there, and adds up."""
        rejected = collections.Counter(line["split"] for line in self.rejects)
        for split, entry in self.manifest["splits"].items():
            assert entry["found"] == entry["written"] + entry["rejected"] + entry["skipped"]
            assert entry["written"] == len(self.splits[split])
            assert entry["rejected"] == rejected[split]
        assert self.splits.keys() == self.manifest["splits"].keys()
        assert rejected.keys() <= self.splits.keys()


def write_files(base: Path, files: Mapping[str, bytes | str]) -> Path:
    """Writes files; texts as UTF-8, their line ends as they are."""
    base.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    return base


def properties_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as TFX hands them to the executor."""
    return {
        "input_config": proto_utils.proto_to_json(utils.make_default_input_config()),
        "output_config": proto_utils.proto_to_json(example_gen_pb2.Output()),
        **{name: json.dumps(v) if name in _JSON else v for name, v in settings.items()},
    }


def run(
    base: Path | str, uri: Path, *, beam_args: list[str] | None = None, **settings: Any
) -> Dataset:
    """Runs the executor on a folder or file."""
    artifact = standard_artifacts.Examples()
    artifact.uri = str(uri)
    if beam_args is None:
        context = BaseBeamExecutor.Context(
            make_beam_pipeline_fn=lambda: beam.Pipeline(runner=IN_PROCESS)
        )
    else:
        context = BaseBeamExecutor.Context(
            beam_pipeline_args=beam_args, tmp_dir=f"{uri}.tmp", unique_id="1"
        )
    properties = {"input_base": str(base), **properties_of(settings)}
    Executor(context).Do({}, {"examples": [artifact]}, properties)
    dataset = Dataset(uri, artifact)
    dataset.check_accounting()
    return dataset


def input_config(**patterns: str) -> str:
    """TFX's property: `input_config(train=pattern, …)`."""
    splits = [
        example_gen_pb2.Input.Split(name=name, pattern=pattern)
        for name, pattern in patterns.items()
    ]
    return proto_utils.proto_to_json(example_gen_pb2.Input(splits=splits))


def output_config(*, partition_feature_name: str = "", **shares: int) -> str:
    """TFX's property: `output_config(train=2, eval=1)`."""
    splits = [
        example_gen_pb2.SplitConfig.Split(name=name, hash_buckets=share)
        for name, share in shares.items()
    ]
    config = example_gen_pb2.SplitConfig(
        splits=splits, partition_feature_name=partition_feature_name
    )
    return proto_utils.proto_to_json(example_gen_pb2.Output(split_config=config))
