"""A container's command for our `kfp.dsl` components: runs the executor of the TFX component.

python -m components.kubeflow.run shard_balancer --executor-input '{"inputs": …}' \\
    --path inputs examples /minio/… --path outputs balanced_examples /minio/…

Everything is read and written at the local paths that Kubeflow's launcher copies from and to, so
that any store that it knows will do.
"""

import argparse
import functools
import importlib
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from components.common.settings import ComponentSettings, ExecProperties, without_empty
from components.example_gen.partition import order_splits
from components.kubeflow.dataset_location import (
    ROOT_VARIABLE,
    check_dataset_root,
    check_fetched,
    find_dataset,
    find_datasets,
    place_dataset,
    write_reference,
)
from components.kubeflow.dataset_records import (
    VERSION_KEY,
    find_version,
    record_output,
    records_root,
    split_versions,
)
from components.kubeflow.executor_input import ExecutorInput, StepArtifact, parse_paths
from components.kubeflow.images import ENVIRONMENT_FLAG
from components.kubeflow.pod_folders import page_folder, run_step, temporary_folder
from components.kubeflow.training_runtime import DATASET_VARIABLE, train_job_manifest
from trainer_utils.dataset.files import read_manifest
from trainer_utils.format import ConfigError
from trainer_utils.format.json_text import Json, JsonObject
from trainer_utils.storage import is_object_store, is_remote

if TYPE_CHECKING:
    from tfx.types import Artifact

__all__ = ["main"]

_OF_WAITING = ("namespace", "timeout_seconds")  # of train_job; others are the manifest's
_OF_THE_STEP = ("dataset_root", VERSION_KEY)  # parameters that are no settings


def main(arguments: Sequence[str]) -> int:
    """Runs a component; 0 where it worked, 1 for bad data or settings. Other errors are raised."""
    parser = argparse.ArgumentParser(prog="python -m components.kubeflow.run", allow_abbrev=False)
    parser.add_argument("component", choices=sorted(_RUN))
    parser.add_argument("--executor-input", required=True)
    parser.add_argument("--path", nargs=3, action="append", default=[])
    parser.add_argument(ENVIRONMENT_FLAG, help="for Kubeflow's cache alone")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # what fails is raised as well

    def work() -> None:
        step = ExecutorInput.parse(
            given.executor_input, paths=parse_paths(given.path), component=given.component
        )
        with temporary_folder(step.output_paths):
            step.write_output(_RUN[given.component](step))

    return run_step(work)


def _example_gen(kind: str, step: ExecutorInput) -> dict[str, JsonObject]:
    executor = importlib.import_module(f"components.{kind}_example_gen.component").Executor
    module = importlib.import_module("components.example_gen.settings")
    settings = getattr(module, f"{kind.title()}Settings")
    given = {**step.parameters}
    located = {
        "input_base": _input_base(step, given.pop("input_base", None) or ""),
        "input_config": _input_config(given.pop("input_patterns", None) or {}),
        "output_config": _output_config(given.pop("splits", None) or {}, given.pop("split_by", "")),
    }
    properties = {**_properties(settings, given), **located}
    return _fill_dataset(step, "examples", lambda outputs: executor().Do({}, outputs, properties))


def _input_fingerprint(step: ExecutorInput) -> dict[str, JsonObject]:
    from components.kubeflow.input_state import fingerprint_inputs

    root = step.parameters.get("dataset_root") or os.environ.get(ROOT_VARIABLE, "")
    records_root(root)  # which is checked before files are listed
    version = find_version(root, fingerprint_inputs(step.parameters))
    logging.info("fingerprint: %s", version)
    step.write_parameter("fingerprint", version)
    return {}


def _latest_spans(step: ExecutorInput) -> dict[str, JsonObject]:
    from components.kubeflow.span_window import latest_window

    given = {name: value for name, value in step.parameters.items() if name != "dataset_root"}
    root = step.parameters.get("dataset_root", "")
    if not root:
        raise ConfigError.of("dataset_root", root, allowed="the dataset_root of an ExampleGen")
    check_dataset_root(root)
    window = latest_window(root, **given)
    write_reference(step.outputs["datasets"].path, window.uris)
    manifests = filter(None, map(read_manifest, window.uris))
    return {
        "datasets": {
            "dataset_uris": json.dumps(window.uris),
            "spans": json.dumps(window.spans),
            "records": sum(manifest.total.written for manifest in manifests),
        }
    }


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
    for name in order_splits(patterns, ()):
        config.splits.add(name=name, pattern=patterns[name])
    return proto_utils.proto_to_json(config if patterns else all_files())


def _output_config(splits: Mapping[str, float], split_by: str) -> str:
    """TFX's `output_config` as JSON: shares by split, and what is hashed."""
    from tfx.proto import example_gen_pb2
    from tfx.utils import proto_utils

    config = example_gen_pb2.Output()
    for name in order_splits(splits, ()):
        config.split_config.splits.add(name=name, hash_buckets=_count(name, splits[name]))
    if split_by:  # else an empty message would stand where TFX has none
        config.split_config.partition_feature_name = split_by
    return proto_utils.proto_to_json(config)


def _shard_balancer(step: ExecutorInput) -> dict[str, JsonObject]:
    from tfx.types import standard_artifacts

    from components.shard_balancer.executor import Executor
    from components.shard_balancer.settings import BalancerSettings

    given = {**step.parameters}
    if by_split := given.pop("shards_by_split", None):
        given["num_shards"] = by_split
    properties = _properties(BalancerSettings, given)
    inputs = [
        _artifact_at(standard_artifacts.Examples, uri)
        for name in ("examples", "more_examples")
        if name in step.inputs
        for uri in _found(step.inputs[name])
    ]
    return _fill_dataset(
        step,
        "balanced_examples",
        lambda outputs: Executor().Do({"examples": inputs}, outputs, properties),
    )


def _schema_export(step: ExecutorInput) -> dict[str, JsonObject]:
    from tfx.types import standard_artifacts
    from tfx.types.experimental import simple_artifacts

    from components.schema_export.component import Executor
    from components.settings import SchemaExportSettings

    inputs = _tfx_inputs(step)
    if "statistics" in inputs:  # TFX lists its splits in the metadata
        inputs["statistics"][0].split_names = step.inputs["statistics"].metadata.get(
            "split_names", ""
        )
    kinds = {
        "datum_schema": standard_artifacts.Schema,
        "datum_dataset": simple_artifacts.Dataset,
    }
    made = {name: _artifact_at(kind, step.outputs[name].path) for name, kind in kinds.items()}
    properties = _properties(SchemaExportSettings, step.parameters)
    Executor().Do(inputs, {name: [artifact] for name, artifact in made.items()}, properties)
    return {name: _metadata(artifact) for name, artifact in made.items()}


def _dataset_audit(step: ExecutorInput) -> dict[str, JsonObject]:
    from tfx.types import standard_artifacts

    from components.dataset_audit.component import Executor
    from components.settings import AuditSettings

    properties = _properties(AuditSettings, step.parameters)
    artifact = _artifact_at(standard_artifacts.ExampleAnomalies, step.outputs["anomalies"].path)
    Executor().Do(_tfx_inputs(step), {"anomalies": [artifact]}, properties)
    found = artifact.get_int_custom_property("num_findings")
    step.write_parameter("num_findings", str(found))
    return {"anomalies": _metadata(artifact)}


def _dataset_report(step: ExecutorInput) -> dict[str, JsonObject]:
    from tfx.types.experimental import simple_artifacts

    from components.dataset_report.component import Executor
    from components.settings import DatasetReportSettings

    inputs = _tfx_inputs(step)
    properties = _properties(DatasetReportSettings, step.parameters)
    page = simple_artifacts.File()
    with page_folder(step.outputs["report"].path) as page.uri:
        Executor().Do(inputs, {"report": [page]}, properties)
    return {"report": {}}


def _train_input_check(step: ExecutorInput) -> dict[str, JsonObject]:
    from components.kubeflow.input_check import check_input

    uris = _found(step.inputs["examples"])
    return {"metrics": check_input(uris[0] if len(uris) == 1 else uris, step.parameters)}


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
    """Where other pods find the dataset, or several: they do not have this one's disk."""
    uris = [examples.uri if uri == examples.path else uri for uri in _found(examples)]
    for uri in uris:
        if not uri.startswith(("gs://", "s3://", "/")):
            raise ConfigError.of(
                "examples",
                uri,
                allowed="a dataset that each worker can open, on a shared volume or at gs:// or "
                "s3://",
                advice="Write it with a dataset_root",
            )
    return ",".join(uris)


def _fill_dataset(
    step: ExecutorInput, name: str, fill: Callable[[dict[str, list["Artifact"]]], None]
) -> dict[str, JsonObject]:
    """Lets an executor write the dataset of output `name`; returns the output's metadata."""
    from tfx.types import standard_artifacts

    output, root = step.outputs[name], str(step.parameters.get("dataset_root", ""))
    place = place_dataset(output.path, output.uri, root)
    artifact = _artifact_at(standard_artifacts.Examples, place)
    fill({name: [artifact]})
    manifest = read_manifest(artifact.uri)
    assert manifest is not None  # it has just been written
    metadata = {
        **_metadata(artifact),
        "records": manifest.total.written,
        "shards": len(manifest.shards),
        "splits": list(manifest.splits),
        "rejects": manifest.total.rejected,
    }
    versions = _input_versions(step)
    if versions:
        metadata[VERSION_KEY] = "\n".join(versions)
    if artifact.uri != output.path:
        metadata["dataset_uri"] = artifact.uri
    span = _span(step, metadata)
    record_output(output.path, output.uri, artifact.uri, root=root, versions=versions, **span)
    return {name: metadata}


def _input_versions(step: ExecutorInput) -> list[str]:
    """Of the raw inputs that the step's dataset is made of, as their fingerprints say."""
    given = [str(step.parameters.get(VERSION_KEY, ""))]
    given += [str(one.metadata.get(VERSION_KEY, "")) for one in step.inputs.values()]
    return split_versions(given)


def _span(step: ExecutorInput, metadata: Mapping[str, Json]) -> JsonObject:
    """What a record has of spans, where the patterns of an ExampleGen have them."""
    patterns = step.parameters.get("input_patterns") or {}
    base = step.parameters.get("input_base")
    if not base or not any("{" in pattern for pattern in patterns.values()):
        return {}
    named = [f"{name}={patterns[name]}" for name in order_splits(patterns, ())]
    return {
        "source": " ".join([step.component, base, *named]),
        "span": metadata["span"],
        "version": metadata.get("version"),
    }


def _found(given: StepArtifact) -> list[str]:
    check_fetched(given.name, given.path, given.uri)
    return find_datasets(given.path)


def _tfx_inputs(step: ExecutorInput) -> dict[str, list["Artifact"]]:
    """The inputs of a step that takes one artifact of each, by name."""
    from tfx.types import standard_artifacts

    kinds = {
        "examples": standard_artifacts.Examples,
        "against": standard_artifacts.Examples,
        "schema": standard_artifacts.Schema,
        "statistics": standard_artifacts.ExampleStatistics,
    }
    for given in step.inputs.values():
        check_fetched(given.name, given.path, given.uri)
    return {
        name: [_artifact_at(kinds[name], find_dataset(given.path))]
        for name, given in step.inputs.items()
    }


def _artifact_at(kind: "type[Artifact]", uri: str) -> "Artifact":
    artifact = kind()
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
    return {
        name: json_format.MessageToDict(value) if hasattr(value, "DESCRIPTOR") else value
        for name, value in found.items()
    }


def _properties(
    settings: type[ComponentSettings], parameters: Mapping[str, Json]
) -> ExecProperties:
    """Execution properties of what is given, checked before anything is looked for.

    Kubeflow knows no parameter without a value, so that empty ones are none.
    """
    known = {name: value for name, value in parameters.items() if name not in _OF_THE_STEP}
    given = without_empty(settings, known)
    settings.from_arguments(given)
    return settings.to_properties(given)


def _count(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"splits[{name!r}]: expected a whole number, got {value!r}")
    return value


_RUN: dict[str, Callable[[ExecutorInput], dict[str, JsonObject]]] = {
    "audio_example_gen": functools.partial(_example_gen, "audio"),
    "dataset_audit": _dataset_audit,
    "dataset_report": _dataset_report,
    "image_example_gen": functools.partial(_example_gen, "image"),
    "input_fingerprint": _input_fingerprint,
    "latest_spans": _latest_spans,
    "schema_export": _schema_export,
    "shard_balancer": _shard_balancer,
    "text_example_gen": functools.partial(_example_gen, "text"),
    "train_input_check": _train_input_check,
    "train_job": _train_job,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
