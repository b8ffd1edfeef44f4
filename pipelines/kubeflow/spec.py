"""Makes of TFX's Kubeflow specification one that open-source Kubeflow Pipelines runs.

spec = for_open_source(compiled["pipelineSpec"], pipeline, pipeline_root="minio://mlpipeline/runs")

TFX writes for Vertex AI. Open-source Kubeflow
- knows the types `system.*` alone: tasks get these, and TFX's own go along as an argument;
- runs no driver before the cache: what it would find out is found out by the step itself;
- takes a task without input artifacts from its cache even where the data that it reads has changed:
  a step before each ExampleGen of ours gives it the fingerprint of its inputs as a parameter, and
  all other such tasks are not cached;
- copies artifacts between its store and the pod's disk: steps get the local paths;
- keeps all numbers as float64: a constant that does not fit is refused.

Source: `backend/src/v2/driver`, `cacheutils/cache.go` and `component/launcher_v2.go` of Kubeflow
Pipelines 2.
"""

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from tfx.orchestration.data_types import RuntimeParameter

from components.kubeflow.artifacts import PAGE_OUTPUT
from components.kubeflow.tfx_step import (
    ARTIFACT_FLAG,
    DRIVER_FLAG,
    ROOT_FLAG,
    STEP_COMMAND,
    VERSION_PARAMETER,
)
from pipelines.kubeflow.steps import FINGERPRINT_SUFFIX
from trainer_utils.format import ConfigError
from trainer_utils.format.json_text import Json, JsonObject

_SYSTEM_TYPES = {
    "tfx.Examples": "system.Dataset",
    "tfx.Dataset": "system.Dataset",
    "tfx.Model": "system.Model",
    "tfx.PushedModel": "system.Model",
    "tfx.Metrics": "system.Metrics",
}
_OTHER_TYPE, _PAGE_TYPE = "system.Artifact", "system.HTML"
_SCHEMA_VERSION = "0.0.1"
_EXAMPLE_GEN = re.compile(r"components\.(image|text|audio)_example_gen\.")
_FINGERPRINT_COMMAND = ["python", "-m", "components.kubeflow.input_state"]
_FINGERPRINT = "fingerprint"


def for_open_source(
    spec: Mapping[str, Json],
    pipeline: Any,
    *,
    pipeline_root: str,
    dataset_root: str = "",
    fingerprints: bool = True,
) -> JsonObject:
    """The specification that TFX compiled of a pipeline, as open-source Kubeflow takes it.

    Raises:
        ConfigError: a node or a constant that open-source Kubeflow cannot have.
    """
    result: JsonObject = copy.deepcopy(dict(spec))
    result["defaultPipelineRoot"] = pipeline_root
    executors = result["deploymentSpec"]["executors"]
    for name, component in result["components"].items():
        types = _collapse_types(component)
        executor = executors.get(component.get("executorLabel"), {})
        if "container" in executor:
            _wrap(executor["container"], types, dataset_root)
        elif "importer" in executor:
            _collapse_type(executor["importer"], "typeSchema")
        elif executor:
            raise ConfigError(
                f"{name}: expected a component or an Importer, got a node of which open-source "
                f"Kubeflow has none ({', '.join(executor)}). Import the artifact by its uri.",
                setting=name,
            )
    for dag in _dags(result):
        for name, task in [*dag["tasks"].items()]:
            _check_constants(name, task)
            if task.get("inputs", {}).get("artifacts"):
                continue
            is_cached = task.pop("cachingOptions", {}).get("enableCache")
            if fingerprints and is_cached:
                _add_fingerprint(result, dag["tasks"], name)
    _add_defaults(result["root"], pipeline)
    return result


def _add_fingerprint(spec: JsonObject, tasks: JsonObject, name: str) -> None:
    """Has an ExampleGen of ours, which then may be cached, depend on a step before it."""
    task, step = tasks[name], f"{name}{FINGERPRINT_SUFFIX}"
    component = spec["components"][task["componentRef"]["name"]]
    container = spec["deploymentSpec"]["executors"][component["executorLabel"]].get("container", {})
    kind = _EXAMPLE_GEN.search(" ".join(map(str, container.get("args", ()))))
    if kind is None:
        return
    tasks[step] = {
        "componentRef": {"name": step},
        "inputs": copy.deepcopy(task["inputs"]),
        "taskInfo": {"name": step},
    }
    spec["components"][step] = {
        **copy.deepcopy(component),
        "executorLabel": f"{step}_executor",
        "outputDefinitions": {"parameters": {_FINGERPRINT: {"parameterType": "STRING"}}},
    }
    command = {"command": _FINGERPRINT_COMMAND, "args": [kind[1], "{{$}}"]}
    executor = {"container": {"image": container["image"], **command}}
    spec["deploymentSpec"]["executors"][f"{step}_executor"] = executor
    component["inputDefinitions"]["parameters"][VERSION_PARAMETER] = {"parameterType": "STRING"}
    task["inputs"]["parameters"][VERSION_PARAMETER] = {
        "taskOutputParameter": {"producerTask": step, "outputParameterKey": _FINGERPRINT}
    }
    task["dependentTasks"] = [*task.get("dependentTasks", ()), step]
    task["cachingOptions"] = {"enableCache": True}


def _dags(spec: Mapping[str, Json]) -> Iterator[JsonObject]:
    for component in [spec["root"], *spec["components"].values()]:
        if "dag" in component:
            yield component["dag"]


def _collapse_types(component: Mapping[str, Json]) -> dict[str, dict[str, str]]:
    """Replaces the types of artifacts; returns TFX's, by side and name."""
    return {
        f"{side}s": {
            name: _collapse_type(artifact, "artifactType", name)
            for name, artifact in definitions.get("artifacts", {}).items()
        }
        for side in ("input", "output")
        for definitions in [component.get(f"{side}Definitions", {})]
    }


def _collapse_type(holder: JsonObject, key: str, name: str = "") -> str:
    schema = holder[key]
    title = str(schema.get("schemaTitle") or yaml.safe_load(schema["instanceSchema"])["title"])
    system = title if title.startswith("system.") else _SYSTEM_TYPES.get(title, _OTHER_TYPE)
    if (name, title) == PAGE_OUTPUT:
        system = _PAGE_TYPE
    holder[key] = {"schemaTitle": system, "schemaVersion": _SCHEMA_VERSION}
    return title


def _wrap(container: JsonObject, types: Mapping[str, Mapping[str, str]], dataset_root: str) -> None:
    """Puts our step before TFX's arguments, which follow `--`."""
    arguments = []
    for side, by_name in types.items():
        for name, title in sorted(by_name.items()):  # protobuf keeps no order
            path = f"{{{{$.{side}.artifacts['{name}'].path}}}}"
            arguments += [ARTIFACT_FLAG, side, name, title, path]
    if dataset_root:
        arguments += [ROOT_FLAG, dataset_root]
    if container.pop("lifecycle", None):
        arguments.append(DRIVER_FLAG)
    container["command"] = list(STEP_COMMAND)
    container["args"] = [*arguments, "--", *container.get("args", ())]


def _check_constants(task_name: str, task: Mapping[str, Json]) -> None:
    for name, parameter in task.get("inputs", {}).get("parameters", {}).items():
        value = parameter.get("runtimeValue", {}).get("constant")
        # What was an int stands here as the float that is nearest, and int64 ends below 2^63.
        if isinstance(value, float) and value.is_integer() and abs(value) >= 2**53:
            raise ConfigError.of(
                f"{task_name}, {name}",
                int(value),
                allowed="a number below 2^53, since Kubeflow keeps numbers as float64",
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
