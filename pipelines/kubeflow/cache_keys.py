"""What Kubeflow's cache has to know: the state of raw inputs, and a container's variables.

documents = add_input_fingerprints(documents, ["ImageExampleGen"], mode="listing")
documents = add_environments(documents)

The key of a step is made of its command, image, parameters and input artifacts. An ExampleGen of a
TFX pipeline has no input artifact, so that a step before it gives it a parameter that is another
one where an input is. Variables are no part of the key: a checksum of them becomes an argument.

Source: `GenerateCacheKey` of `backend/src/v2/cacheutils/cache.go` of Kubeflow Pipelines 2.
"""

import copy
import hashlib
import json
import re
from collections.abc import Mapping, Sequence

from components.kubeflow.dataset_records import VERSION_KEY
from components.kubeflow.images import COMMAND, COMPONENT, ENVIRONMENT_FLAG
from components.kubeflow.tfx_step import STEP_COMMAND
from trainer_utils.format import ConfigError
from trainer_utils.format.json_text import JsonObject

__all__ = ["MODES", "add_environments", "add_input_fingerprints", "cached_tasks", "check_mode"]

MODES = ("listing", "contents", "none")
"""What a fingerprint is of: names, sizes and times; names and bytes; there is none."""

_EXAMPLE_GEN = re.compile(r"components\.(image|text|audio)_example_gen\.component\.Executor")
_OUTPUT = "fingerprint"


def check_mode(mode: str) -> None:
    """Refuses a mode that there is not."""
    if mode not in MODES:
        raise ConfigError.of("input_fingerprint", mode, allowed=f"one of {', '.join(MODES)}")


def cached_tasks(spec: JsonObject) -> list[str]:
    """The tasks that TFX, whose pipeline says `enable_cache`, wants to be cached."""
    tasks = spec["root"]["dag"]["tasks"]
    return [name for name in tasks if tasks[name].get("cachingOptions", {}).get("enableCache")]


def add_input_fingerprints(
    documents: Sequence[JsonObject], tasks: Sequence[str], *, mode: str
) -> list[JsonObject]:
    """The package with a step before each of our ExampleGens, which then may be cached.

    The step has the volumes, secrets and variables of the ExampleGen.

    Args:
        documents: the specification, and what is for Kubernetes where there is such.
        tasks: that are to be cached.
        mode: one of `MODES`.
    """
    spec, *others = copy.deepcopy(list(documents))
    dag = spec["root"].get("dag", {}).get("tasks", {})
    for name in tasks if mode != "none" else ():
        component = spec["components"][dag[name]["componentRef"]["name"]]
        label = component["executorLabel"]
        container = spec["deploymentSpec"]["executors"][label].get("container", {})
        kind = _EXAMPLE_GEN.search(" ".join(map(str, container.get("args", ()))))
        if kind is None or tuple(container["command"]) != STEP_COMMAND:
            continue
        constants = {COMPONENT: kind[1], "contents": mode == "contents"}
        step = f"{name}-inputs"
        dag[step] = _task(step, dag[name], constants)
        spec["components"][step] = _component(f"{step}_executor", component)
        spec["deploymentSpec"]["executors"][f"{step}_executor"] = {
            "container": _container(container)
        }
        _depend(dag[name], component, step)
        for platform in others:
            executors = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
            if label in executors:
                executors[f"{step}_executor"] = copy.deepcopy(executors[label])
    return [spec, *others]


def _task(step: str, of: JsonObject, constants: Mapping[str, object]) -> JsonObject:
    given = copy.deepcopy(of["inputs"]["parameters"])
    given |= {name: {"runtimeValue": {"constant": value}} for name, value in constants.items()}
    kept: JsonObject = {n: copy.deepcopy(of[n]) for n in ("retryPolicy",) if n in of}
    return {
        "componentRef": {"name": step},
        "inputs": {"parameters": given},
        "taskInfo": {"name": step},
        **kept,
    }


def _component(label: str, of: JsonObject) -> JsonObject:
    defined = copy.deepcopy(of["inputDefinitions"]["parameters"])
    defined |= {COMPONENT: {"parameterType": "STRING"}, "contents": {"parameterType": "BOOLEAN"}}
    return {
        "executorLabel": label,
        "inputDefinitions": {"parameters": defined},
        "outputDefinitions": {"parameters": {_OUTPUT: {"parameterType": "STRING"}}},
    }


def _container(of: JsonObject) -> JsonObject:
    kept: JsonObject = {name: copy.deepcopy(of[name]) for name in ("image", "env") if name in of}
    args = ["input_fingerprint", "--executor-input", "{{$}}"]
    return {**kept, "command": list(COMMAND), "args": args}


def _depend(task: JsonObject, component: JsonObject, step: str) -> None:
    """Makes the step's output a parameter of the task."""
    component["inputDefinitions"]["parameters"][VERSION_KEY] = {"parameterType": "STRING"}
    task["inputs"]["parameters"][VERSION_KEY] = {
        "taskOutputParameter": {"producerTask": step, "outputParameterKey": _OUTPUT}
    }
    task["dependentTasks"] = [*task.get("dependentTasks", ()), step]
    task["cachingOptions"] = {"enableCache": True}


def add_environments(documents: Sequence[JsonObject]) -> list[JsonObject]:
    """The package with a checksum of its variables among the arguments of each of our steps.

    What a secret or a ConfigMap holds is not known; its name and keys are.
    """
    spec, *others = copy.deepcopy(list(documents))
    for label, executor in spec["deploymentSpec"]["executors"].items():
        container = executor.get("container", {})
        command = tuple(container.get("command", ()))
        variables = [
            *_by_name(container.get("env", ())),
            *(one for document in others for one in _of_kubernetes(document, label)),
        ]
        if not variables or command not in (COMMAND, STEP_COMMAND):
            continue
        text = json.dumps(variables, sort_keys=True)
        flag = [ENVIRONMENT_FLAG, hashlib.sha256(text.encode()).hexdigest()[:32]]
        arguments = container.get("args", [])
        # After `--` come the arguments of TFX's own command.
        container["args"] = [*flag, *arguments] if command == STEP_COMMAND else [*arguments, *flag]
    return [spec, *others]


def _by_name(variables: Sequence[JsonObject]) -> list[JsonObject]:
    """In the order of their names; of two of one name the last holds, so these keep their order."""
    return sorted(variables, key=lambda variable: str(variable.get("name")))


def _of_kubernetes(platform: JsonObject, label: str) -> list[JsonObject]:
    """A step's variables that Kubernetes fills in."""
    kubernetes = platform.get("platforms", {}).get("kubernetes", {})
    step = kubernetes.get("deploymentSpec", {}).get("executors", {}).get(label, {})
    return [{name: step[name]} for name in sorted(step) if name.endswith("AsEnv")]
