"""Makes of TFX's Kubeflow specification one that open-source Kubeflow Pipelines runs.

spec = for_open_source(compiled["pipelineSpec"], pipeline, pipeline_root="minio://mlpipeline/runs")

TFX writes for Vertex AI. Open-source Kubeflow
- knows the types `system.*` alone: tasks get these, and TFX's own go along as an argument;
- runs no driver before the cache: what it would find out is found out by the step itself;
- takes a task without input artifacts from its cache even where the data that it reads has changed:
  such tasks are not cached;
- copies artifacts between its store and the pod's disk: steps get the local paths;
- keeps all numbers as float64: a constant that does not fit is refused.

Source: `backend/src/v2/driver` and `component/launcher_v2.go` of Kubeflow Pipelines 2.
"""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from tfx.orchestration.data_types import RuntimeParameter

from components.kubeflow.dataset_location import ROOT_VARIABLE
from components.kubeflow.pod_folders import PAGE_OUTPUT, PAGE_TYPE
from components.kubeflow.tfx_step import (
    DRIVER_FLAG,
    PATH_FLAG,
    STEP_COMMAND,
    TYPES_FLAG,
)
from trainer_utils.format import ConfigError
from trainer_utils.format.json_text import Json, JsonObject

__all__ = ["for_open_source"]

_SYSTEM_TYPES = {
    "tfx.Examples": "system.Dataset",
    "tfx.Dataset": "system.Dataset",
    "tfx.Model": "system.Model",
    "tfx.PushedModel": "system.Model",
    "tfx.Metrics": "system.Metrics",
}
_OTHER_TYPE = "system.Artifact"
_SCHEMA_VERSION = "0.0.1"


def for_open_source(
    spec: Mapping[str, Json], pipeline: Any, *, pipeline_root: str, dataset_root: str | None = None
) -> JsonObject:
    """The specification as open-source Kubeflow takes it.

    Args:
        spec: what TFX compiled, as a dictionary.
        pipeline: TFX's pipeline, for the defaults of its runtime parameters.
        pipeline_root: where artifacts go unless a run says otherwise.
        dataset_root: where datasets go instead; None: nowhere else.

    Raises:
        ConfigError: a number is too large for Kubeflow, or it has no such node.
    """
    result: JsonObject = copy.deepcopy(dict(spec))
    result["defaultPipelineRoot"] = pipeline_root
    executors = result["deploymentSpec"]["executors"]
    for name, component in result["components"].items():
        types = _collapse_types(component)
        executor = executors.get(component.get("executorLabel"), {})
        if "container" in executor:
            _wrap(executor["container"], types)
            if dataset_root:
                executor["container"]["env"] = [{"name": ROOT_VARIABLE, "value": dataset_root}]
        elif "importer" in executor:
            _collapse_type(executor["importer"], "typeSchema")
        elif executor:
            raise ConfigError(
                f"{name}: expected a component or an Importer, got a node of which open-source "
                f"Kubeflow has none ({', '.join(executor)}). Import the artifact by its uri.",
                setting=name,
            )
    for dag in _dags(result):
        for name, task in dag["tasks"].items():
            _check_constants(name, task)
            if not task.get("inputs", {}).get("artifacts"):
                task.pop("cachingOptions", None)
    _add_defaults(result["root"], pipeline)
    return result


def _dags(spec: Mapping[str, Json]) -> Iterator[JsonObject]:
    for component in [spec["root"], *spec["components"].values()]:
        if "dag" in component:
            yield component["dag"]


def _collapse_types(component: Mapping[str, Json]) -> dict[str, dict[str, str]]:
    """Replaces the types of artifacts; returns TFX's, by side and name."""
    types: dict[str, dict[str, str]] = {}
    for side in ("input", "output"):
        artifacts = component.get(f"{side}Definitions", {}).get("artifacts", {})
        types[f"{side}s"] = {
            name: _collapse_type(artifact, "artifactType") for name, artifact in artifacts.items()
        }
        for name, artifact in artifacts.items():
            if (name, types[f"{side}s"][name]) == PAGE_OUTPUT:
                artifact["artifactType"]["schemaTitle"] = PAGE_TYPE
    return types


def _collapse_type(holder: JsonObject, key: str) -> str:
    schema = holder[key]
    title = schema.get("schemaTitle") or yaml.safe_load(schema["instanceSchema"])["title"]
    system = _SYSTEM_TYPES.get(title, _OTHER_TYPE)
    if title.startswith("system."):
        system = title
    holder[key] = {"schemaTitle": system, "schemaVersion": _SCHEMA_VERSION}
    return str(title)


def _wrap(container: JsonObject, types: Mapping[str, Mapping[str, str]]) -> None:
    """Puts our step before TFX's arguments, which follow `--`."""
    arguments = [TYPES_FLAG, json.dumps(types, sort_keys=True)]
    for side, by_name in types.items():
        for name in sorted(by_name):  # protobuf keeps no order
            arguments += [PATH_FLAG, side, name, f"{{{{$.{side}.artifacts['{name}'].path}}}}"]
    if container.pop("lifecycle", None):
        arguments.append(DRIVER_FLAG)
    container["command"] = list(STEP_COMMAND)
    container["args"] = [*arguments, "--", *container.get("args", ())]


def _check_constants(task_name: str, task: Mapping[str, Json]) -> None:
    for name, parameter in task.get("inputs", {}).get("parameters", {}).items():
        value = parameter.get("runtimeValue", {}).get("constant")
        # What was an int stands here as the float that is nearest, and int64 ends below 2^63.
        if isinstance(value, float) and value.is_integer() and abs(value) >= 2**53:
            raise ConfigError(
                f"{task_name}, {name}: expected a number below 2^53, got {int(value)} or one near "
                "it. Kubeflow keeps numbers as float64 and would change it."
            )


def _add_defaults(root: JsonObject, pipeline: Any) -> None:
    """Gives the run's parameters the defaults and descriptions that TFX leaves out."""
    parameters = root.get("inputDefinitions", {}).get("parameters", {})
    for component in pipeline.components:
        for given in component.exec_properties.values():
            if not isinstance(given, RuntimeParameter) or given.name not in parameters:
                continue
            parameter = parameters[given.name]
            if given.default is not None:
                parameter |= {"defaultValue": given.default, "isOptional": True}
            if given.description:
                parameter["description"] = given.description
