"""A container's command for our `kfp.dsl` components: runs the executor of the TFX component.

python -m components.kubeflow.run shard_balancer --executor-input '{"inputs": …}' \\
    --path inputs examples /minio/… --path outputs balanced_examples /minio/…

Everything is read and written at the local paths that Kubeflow's launcher copies from and to, so
that any store that it knows will do.
"""

import argparse
import functools
import importlib
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from components.common.settings import ComponentSettings, ExecProperties, without_empty
from components.kubeflow.dataset_location import find_dataset, place_dataset, write_reference
from components.kubeflow.executor_input import ExecutorInput, StepArtifact, parse_paths
from components.kubeflow.pages import page_folder
from components.kubeflow.training_runtime import DATASET_VARIABLE, train_job_manifest
from trainer_utils.format import ConfigError, DatasetError, Manifest
from trainer_utils.format.json_text import Json, JsonObject
from trainer_utils.format.naming import MANIFEST_FILE
from trainer_utils.storage import is_object_store, is_remote, join, read_text

if TYPE_CHECKING:
    from tfx.types import Artifact

__all__ = ["main"]

_SPLIT_ORDER = ("train", "eval", "test")
_OF_WAITING = ("namespace", "timeout_seconds")  # of train_job; others are the manifest's
_OF_THE_STEP = ("dataset_root", "input_version")  # parameters that are no settings


def main(arguments: Sequence[str]) -> int:
    """Runs a component; 0 where it worked, 1 for bad data or settings. Other errors are raised."""
    parser = argparse.ArgumentParser(prog="python -m components.kubeflow.run", allow_abbrev=False)
    parser.add_argument("component", choices=sorted(_RUN))
    parser.add_argument("--executor-input", required=True)
    parser.add_argument("--path", nargs=3, action="append", default=[])
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # what fails is raised as well
    if not sys.warnoptions:
        warnings.filterwarnings("ignore", category=FutureWarning)  # of Google's packages
    try:
        step = ExecutorInput.parse(given.executor_input, paths=parse_paths(given.path))
        step.write_output(_RUN[given.component](step))
    except DatasetError as error:
        print(f"\n{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def _example_gen(kind: str, step: ExecutorInput) -> dict[str, JsonObject]:
    package = f"components.{kind}_example_gen"
    executor = importlib.import_module(f"{package}.executor").Executor
    settings = getattr(importlib.import_module(f"{package}.settings"), f"{kind.title()}Settings")
    given = _given(step.parameters, settings)
    located = {
        "input_base": _input_base(step, given.pop("input_base", "")),
        "input_config": _input_config(given.pop("input_patterns", {})),
        "output_config": _output_config(given.pop("splits", {}), given.pop("split_by", "")),
    }
    properties = _properties(settings, given)
    return _fill_dataset(
        step, "examples", lambda outputs: executor().Do({}, outputs, {**properties, **located})
    )


def _input_base(step: ExecutorInput, given: str) -> str:
    if bool(given) == ("source" in step.inputs):
        raise ConfigError(
            f"input_base: expected it or source, one of the two, got {given!r} and "
            f"{'a source' if 'source' in step.inputs else 'no source'}",
            setting="input_base",
            value=given,
        )
    if is_remote(given) and not is_object_store(given):
        raise ConfigError(
            "input_base: expected a path on a mounted volume, or a bucket of s3://, minio://, "
            f"gs:// or az://, got {given!r}. "
            "Import it with kfp.dsl.importer and hand it over as source: then Kubeflow fetches it.",
            setting="input_base",
            value=given,
        )
    return given or step.inputs["source"].path


def _input_config(patterns: Mapping[str, str]) -> str:
    """TFX's `input_config` as JSON: patterns by split, or all files."""
    from tfx.proto import example_gen_pb2
    from tfx.utils import proto_utils

    from components.example_gen.tfx_properties import all_files

    config = example_gen_pb2.Input()
    for name in _ordered(patterns):
        config.splits.add(name=name, pattern=patterns[name])
    return proto_utils.proto_to_json(config if patterns else all_files())


def _output_config(splits: Mapping[str, float], split_by: str) -> str:
    """TFX's `output_config` as JSON: shares by split, and what is hashed."""
    from tfx.proto import example_gen_pb2
    from tfx.utils import proto_utils

    config = example_gen_pb2.Output()
    for name in _ordered(splits):
        config.split_config.splits.add(name=name, hash_buckets=_count(name, splits[name]))
    config.split_config.partition_feature_name = split_by
    return proto_utils.proto_to_json(config)


def _shard_balancer(step: ExecutorInput) -> dict[str, JsonObject]:
    from tfx.types import standard_artifacts

    from components.shard_balancer.executor import Executor
    from components.shard_balancer.settings import BalancerSettings

    given = _given(step.parameters, BalancerSettings)
    if by_split := given.pop("shards_by_split", None):
        given["num_shards"] = by_split
    properties = _properties(BalancerSettings, given)
    inputs = [
        _tfx_artifact(standard_artifacts.Examples, step.inputs[name])
        for name in ("examples", "more_examples")
        if name in step.inputs
    ]
    return _fill_dataset(
        step,
        "balanced_examples",
        lambda outputs: Executor().Do({"examples": inputs}, outputs, properties),
    )


def _schema_export(step: ExecutorInput) -> dict[str, JsonObject]:
    from tfx.types import standard_artifacts
    from tfx.types.experimental import simple_artifacts

    from components.schema_export.executor import Executor
    from components.schema_export.settings import SchemaExportSettings

    kinds = {
        "examples": standard_artifacts.Examples,
        "schema": standard_artifacts.Schema,
        "statistics": standard_artifacts.ExampleStatistics,
    }
    inputs = {name: [_tfx_artifact(kinds[name], given)] for name, given in step.inputs.items()}
    if "statistics" in inputs:  # TFX lists its splits in the metadata
        inputs["statistics"][0].split_names = step.inputs["statistics"].metadata.get(
            "split_names", ""
        )
    made = {
        "datum_schema": standard_artifacts.Schema(),
        "datum_dataset": simple_artifacts.Dataset(),
    }
    for name, artifact in made.items():
        artifact.uri = step.outputs[name].path
    properties = _properties(SchemaExportSettings, _given(step.parameters, SchemaExportSettings))
    Executor().Do(inputs, {name: [artifact] for name, artifact in made.items()}, properties)
    return {name: _metadata(artifact) for name, artifact in made.items()}


def _dataset_audit(step: ExecutorInput) -> dict[str, JsonObject]:
    from tfx.types import standard_artifacts

    from components.dataset_audit.executor import Executor
    from components.dataset_audit.settings import AuditSettings

    properties = _properties(AuditSettings, _given(step.parameters, AuditSettings))
    inputs = {
        name: [_tfx_artifact(standard_artifacts.Examples, given)]
        for name, given in step.inputs.items()
    }
    artifact = standard_artifacts.ExampleAnomalies()
    artifact.uri = step.outputs["anomalies"].path
    Executor().Do(inputs, {"anomalies": [artifact]}, properties)
    return {"anomalies": _metadata(artifact)}


def _dataset_report(step: ExecutorInput) -> dict[str, JsonObject]:
    from tfx.types import standard_artifacts
    from tfx.types.experimental import simple_artifacts

    from components.dataset_report.executor import Executor
    from components.dataset_report.settings import DatasetReportSettings

    kinds = {
        "examples": standard_artifacts.Examples,
        "schema": standard_artifacts.Schema,
        "statistics": standard_artifacts.ExampleStatistics,
    }
    inputs = {name: [_tfx_artifact(kinds[name], given)] for name, given in step.inputs.items()}
    properties = _properties(DatasetReportSettings, _given(step.parameters, DatasetReportSettings))
    page = simple_artifacts.File()
    with page_folder(step.outputs["report"].path) as page.uri:
        Executor().Do(inputs, {"report": [page]}, properties)
    return {"report": {}}


def _train_input_check(step: ExecutorInput) -> dict[str, JsonObject]:
    from components.kubeflow.input_check import check_input

    return {"metrics": check_input(find_dataset(step.inputs["examples"].path), step.parameters)}


def _train_job(step: ExecutorInput) -> dict[str, JsonObject]:
    from components.kubeflow.training_job import run_train_job

    given = {name: value for name, value in step.parameters.items() if value}
    waiting = {name: given.pop(name) for name in _OF_WAITING if name in given}
    if "examples" in step.inputs:
        uri = _uri_for_workers(step.inputs["examples"])
        given["environment"] = {**given.get("environment", {}), DATASET_VARIABLE: uri}
    manifest = train_job_manifest(given.pop("program", ()), **given)
    return {"metrics": run_train_job(manifest, logs=step.outputs["logs"].path, **waiting)}


def _uri_for_workers(examples: StepArtifact) -> str:
    """Where other pods find the dataset: they do not have this one's disk."""
    uri = find_dataset(examples.path)
    if uri == examples.path:
        uri = examples.uri
    if not uri.startswith(("gs://", "s3://", "/")):
        raise ConfigError.of(
            "examples",
            uri,
            allowed="a dataset that each worker can open, on a shared volume or at gs:// or s3://",
            advice="Write it with a dataset_root",
        )
    return uri


def _fill_dataset(
    step: ExecutorInput, name: str, fill: Callable[[dict[str, list["Artifact"]]], None]
) -> dict[str, JsonObject]:
    """Lets an executor write the dataset of output `name`; returns the output's metadata."""
    from tfx.types import standard_artifacts

    output = step.outputs[name]
    artifact = standard_artifacts.Examples()
    artifact.uri = place_dataset(
        output.path, output.uri, str(step.parameters.get("dataset_root", ""))
    )
    fill({name: [artifact]})
    path = join(artifact.uri, MANIFEST_FILE)
    manifest = Manifest.from_json(read_text(path), path=path)
    metadata = {
        **_metadata(artifact),
        "records": manifest.total.written,
        "shards": len(manifest.shards),
        "splits": list(manifest.splits),
        "rejects": manifest.total.rejected,
    }
    if artifact.uri != output.path:
        write_reference(output.path, artifact.uri)
        metadata["dataset_uri"] = artifact.uri
    return {name: metadata}


def _tfx_artifact(kind: "type[Artifact]", given: StepArtifact) -> "Artifact":
    artifact = kind()
    artifact.uri = find_dataset(given.path)
    return artifact


def _metadata(artifact: "Artifact") -> JsonObject:
    """The properties of a TFX artifact, TFX's own and the executor's."""
    held = artifact.mlmd_artifact
    return {
        name: getattr(value, value.WhichOneof("value"))
        for properties in (held.properties, held.custom_properties)
        for name, value in properties.items()
        if value.WhichOneof("value")
    }


def _given(parameters: Mapping[str, Json], settings: type[ComponentSettings]) -> JsonObject:
    """What is given for a component: Kubeflow knows no parameter without a value."""
    given = without_empty(settings, parameters)
    return {name: value for name, value in given.items() if name not in _OF_THE_STEP}


def _properties(settings: type[ComponentSettings], given: Mapping[str, Json]) -> ExecProperties:
    """Execution properties, checked before anything is looked for."""
    settings.from_arguments(given)
    return settings.to_properties(given)


def _ordered(by_split: Iterable[str]) -> list[str]:
    """Splits in one order, since Kubeflow keeps none: TFX's usual three, then others by name."""
    known = {name: place for place, name in enumerate(_SPLIT_ORDER)}
    return sorted(by_split, key=lambda name: (known.get(name, len(known)), name))


def _count(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"splits[{name!r}]: expected a whole number, got {value!r}")
    return value


_RUN: dict[str, Callable[[ExecutorInput], dict[str, JsonObject]]] = {
    "audio_example_gen": functools.partial(_example_gen, "audio"),
    "dataset_audit": _dataset_audit,
    "dataset_report": _dataset_report,
    "image_example_gen": functools.partial(_example_gen, "image"),
    "schema_export": _schema_export,
    "shard_balancer": _shard_balancer,
    "text_example_gen": functools.partial(_example_gen, "text"),
    "train_input_check": _train_input_check,
    "train_job": _train_job,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
