"""What the bodies of our `kfp.dsl` components call: a TFX component's executor on kfp's artifacts.

    run_step("image_example_gen", parameters_and_artifacts)      # all that the component was given

Everything is read and written at the local paths that Kubeflow's launcher copies from and to, so
that any store that it knows will do.
"""

import functools
import importlib
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from components.common.settings import ComponentSettings, ExecProperties, without_empty
from components.example_gen.partition import order_splits
from components.kubeflow.artifacts import (
    find_dataset,
    page_folder,
    place_dataset,
    short_metadata,
    write_reference,
)
from trainer_utils.dataset.files import read_manifest
from trainer_utils.format import ConfigError
from trainer_utils.format.json_text import Json, JsonObject

if TYPE_CHECKING:
    from kfp import dsl
    from tfx.types import Artifact

__all__ = ["run_step"]

_INPUT_KINDS = {
    "examples": "Examples",
    "more_examples": "Examples",
    "against": "Examples",
    "schema": "Schema",
    "statistics": "ExampleStatistics",
}
_SIMPLE_KINDS = ("Dataset", "File")
_Given = dict[str, Any]


def run_step(component: str, given: _Given) -> Any:
    """Runs a component in its container.

    Args:
        component: its name.
        given: its parameters and artifacts by name, all of them.

    Returns:
        What `dataset_audit` found, how much; of all others nothing.

    Raises:
        DatasetError: settings or data are bad.
    """
    os.environ.setdefault("HOME", tempfile.gettempdir())  # of a user whom the image does not know
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # what fails is raised as well
    return _RUN[component](given)


def _example_gen(kind: str, given: _Given) -> None:
    """Converts raw inputs; `kind` is image, text or audio."""
    module = importlib.import_module("components.example_gen.settings")
    settings = getattr(module, f"{kind.title()}Settings")
    output, root = given.pop("examples"), given.pop("dataset_root")
    source, base = given.pop("source"), given.pop("input_base")
    patterns, splits, split_by = (given.pop(n) for n in ("input_patterns", "splits", "split_by"))
    properties = _properties(settings, given)  # before TFX is imported
    if bool(base) == (source is not None):
        raise ConfigError.of("input_base", base, allowed="either it or source")
    properties["input_base"] = base or source.path
    properties["input_config"] = _input_config(patterns)
    properties["output_config"] = _output_config(_whole(splits), split_by)
    executor = importlib.import_module(f"components.{kind}_example_gen").Executor
    _write_dataset(output, root, lambda made: executor().Do({}, {"examples": [made]}, properties))


def _shard_balancer(given: _Given) -> None:
    """Writes one or two datasets anew, as one."""
    from components.balancing.settings import BalancerSettings
    from components.shard_balancer import Executor

    inputs = _inputs(given, "examples", "more_examples")
    examples = [artifact for artifacts in inputs.values() for artifact in artifacts]
    output, root = given.pop("balanced_examples"), given.pop("dataset_root")
    if by_split := given.pop("shards_by_split"):
        given["num_shards"] = by_split
    properties = _properties(BalancerSettings, given)

    def write(made: "Artifact") -> None:
        Executor().Do({"examples": examples}, {"balanced_examples": [made]}, properties)

    _write_dataset(output, root, write)


def _schema_export(given: _Given) -> None:
    """Describes a dataset in two artifacts."""
    from components.schema_export import Executor
    from components.settings import SchemaExportSettings

    statistics = given["statistics"]
    inputs = _inputs(given, "examples", "schema", "statistics")
    if statistics is not None:  # TFX lists its splits in the metadata
        inputs["statistics"][0].split_names = statistics.metadata.get("split_names", "")
    kinds = {"datum_schema": "Schema", "datum_dataset": "Dataset"}
    outputs = {name: given.pop(name) for name in kinds}
    made = {name: [_artifact(kinds[name], outputs[name].path)] for name in kinds}
    Executor().Do(inputs, made, _properties(SchemaExportSettings, given))
    for name, output in outputs.items():
        output.metadata.update(_metadata(made[name][0]))


def _dataset_audit(given: _Given) -> int:
    """Audits a dataset; returns how much was found."""
    from components.dataset_audit import Executor
    from components.settings import AuditSettings

    inputs, output = _inputs(given, "examples", "against"), given.pop("anomalies")
    anomalies = _artifact("ExampleAnomalies", output.path)
    Executor().Do(inputs, {"anomalies": [anomalies]}, _properties(AuditSettings, given))
    output.metadata.update(_metadata(anomalies))
    return int(output.metadata["num_findings"])


def _dataset_report(given: _Given) -> None:
    """Writes a dataset's page, as a file."""
    from components.dataset_report import Executor
    from components.settings import DatasetReportSettings

    inputs = _inputs(given, "examples", "statistics", "schema")
    with page_folder(given.pop("report").path) as folder:
        page = _artifact("File", folder)
        Executor().Do(inputs, {"report": [page]}, _properties(DatasetReportSettings, given))


def _input_config(patterns: Mapping[str, str]) -> str:
    """TFX's `input_config` as JSON: patterns by split, or all files."""
    from tfx.proto import example_gen_pb2
    from tfx.utils import proto_utils

    from components.tfx.properties import all_files

    config = example_gen_pb2.Input()
    for name in order_splits(patterns, ()):
        config.splits.add(name=name, pattern=patterns[name])
    return str(proto_utils.proto_to_json(config if patterns else all_files()))


def _output_config(splits: Mapping[str, int], split_by: str) -> str:
    """TFX's `output_config` as JSON: shares by split, and what is hashed."""
    from tfx.proto import example_gen_pb2
    from tfx.utils import proto_utils

    config = example_gen_pb2.Output()
    for name in order_splits(splits, ()):
        if isinstance(splits[name], bool) or not isinstance(splits[name], int):
            raise ConfigError.of(f"splits[{name!r}]", splits[name], allowed="a whole number")
        config.split_config.splits.add(name=name, hash_buckets=splits[name])
    if split_by:  # else an empty message would stand where TFX has none
        config.split_config.partition_feature_name = split_by
    return str(proto_utils.proto_to_json(config))


def _write_dataset(output: "dsl.Dataset", root: str, write: Callable[["Artifact"], None]) -> None:
    """Lets an executor write a dataset to an artifact, or below `root`, and says what is in it."""
    artifact = _artifact("Examples", place_dataset(output.path, output.uri, root))
    write(artifact)
    manifest = read_manifest(artifact.uri)
    assert manifest is not None  # it has just been written
    output.metadata.update(
        _metadata(artifact),
        records=manifest.total.written,
        shards=len(manifest.shards),
        splits=list(manifest.splits),
        rejects=manifest.total.rejected,
    )
    if artifact.uri != output.path:
        output.metadata["dataset_uri"] = artifact.uri
        write_reference(output.path, artifact.uri)


def _inputs(given: _Given, *names: str) -> dict[str, list["Artifact"]]:
    """TFX's artifacts of those inputs that there are, which are taken out of `given`."""
    found = {name: given.pop(name) for name in names}
    return {
        name: [_artifact(_INPUT_KINDS[name], find_dataset(one.path, one.uri))]
        for name, one in found.items()
        if one is not None
    }


def _artifact(kind: str, uri: str) -> "Artifact":
    from tfx.types import standard_artifacts
    from tfx.types.experimental import simple_artifacts

    module = simple_artifacts if kind in _SIMPLE_KINDS else standard_artifacts
    artifact: Artifact = getattr(module, kind)()
    artifact.uri = uri
    return artifact


def _metadata(artifact: "Artifact") -> JsonObject:
    """The properties of a TFX artifact, TFX's own and the executor's."""
    from google.protobuf import json_format

    held = artifact.mlmd_artifact
    found = {
        name: getattr(value, value.WhichOneof("value"))
        for properties in (held.properties, held.custom_properties)
        for name, value in properties.items()
        if value.WhichOneof("value")
    }
    return short_metadata(
        {
            name: json_format.MessageToDict(value) if hasattr(value, "DESCRIPTOR") else value
            for name, value in found.items()
        }
    )


def _properties(settings: type[ComponentSettings], given: Mapping[str, Json]) -> ExecProperties:
    """Execution properties of what is given, checked before anything is looked for.

    Kubeflow knows no parameter without a value, so that empty ones are none.
    """
    known = without_empty(settings, {name: _whole(value) for name, value in given.items()})
    settings.from_arguments(known)
    return settings.to_properties(known)


def _whole(value: Any) -> Any:
    """A parameter's value, its whole numbers as int: Kubeflow holds all as float64."""
    if isinstance(value, dict):
        return {name: _whole(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_whole(part) for part in value]
    if isinstance(value, (int, float)) and abs(value) >= 2**53:
        raise ConfigError.of("parameter", value, allowed="a number below 2^53, as float64 holds it")
    return int(value) if isinstance(value, float) and value.is_integer() else value


_RUN: dict[str, Callable[[_Given], int | None]] = {
    "audio_example_gen": functools.partial(_example_gen, "audio"),
    "dataset_audit": _dataset_audit,
    "dataset_report": _dataset_report,
    "image_example_gen": functools.partial(_example_gen, "image"),
    "schema_export": _schema_export,
    "shard_balancer": _shard_balancer,
    "text_example_gen": functools.partial(_example_gen, "text"),
}
