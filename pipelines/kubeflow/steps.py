"""What Kubernetes gives the steps of a package: processors, memory, retries, volumes and the like.

    options = StepOptions(gpu={"Trainer": 1}, memory="8Gi", volumes=["Trainer:models:/models"])
    documents = options.apply(documents)

Each option is one value for all steps, or values by step; or texts as the command line has them.

Source: `PipelineContainerSpec` of `pipeline_spec.proto`, and `KubernetesExecutorConfig` of
`kubernetes_executor_config.proto`. Fields that newer versions call deprecated are read by all.
"""

import copy
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from components.kubeflow.images import COMMAND
from trainer_utils.format import ConfigError
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.spelling import misspelt

__all__ = ["DEFAULT_RETRIES", "StepOptions"]

DEFAULT_RETRIES = 2  # of our own steps, which begin anew and leave nothing half-written
DEFAULT_GPU_TYPE = "nvidia.com/gpu"
_SCRATCH_FIELD = "emptyDirMounts"
_CLASS_FLAG = "--executor_class_path"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,126}[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|k|Ki|[MGTP]i?)?")
_SCRATCH = re.compile(r"(?P<path>/[^:/\s][^:\s]*?)/?(:(?P<size>[1-9]\d*(k|Ki|[MGTP]i?)?))?")
_TOLERATION = re.compile(
    r"(?P<key>[\w./-]+)(=(?P<value>[\w.-]*))?(:(?P<effect>NoSchedule|PreferNoSchedule|NoExecute))?"
)
_UNITS = {"": 1.0, "m": 1e-3} | {
    letter + i: base**power
    for power, letter in enumerate("KMGTP", 1)
    for i, base in (("", 1e3), ("i", 1024.0))
}
_UNITS["k"] = _UNITS.pop("K")


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepOptions:
    """The options of a package's steps.

    Attributes:
        gpu, gpu_type: how many of which device.
        cpu: cores, such as `4` or `500m`.
        memory: bytes, such as `8Gi`.
        retries: how often a step that failed runs again. None: twice for our own.
        tolerations: of nodes' taints, `KEY[=VALUE][:EFFECT]`.
        secrets: `NAME:/FOLDER` mounts it, `NAME:KEY:VARIABLE` is a variable.
        env: variables.
        volumes: paths by persistent volume claim; as a text `CLAIM:PATH` or `STEP:CLAIM:PATH`.
        scratch: where an empty folder of the pod's own is mounted, `PATH[:SIZE]`.
    """

    gpu: object = None
    gpu_type: object = None
    cpu: object = None
    memory: object = None
    retries: object = None
    tolerations: object = None
    secrets: object = None
    env: object = None
    volumes: object = None
    scratch: object = None

    def __post_init__(self) -> None:
        """Refuses what no step takes; which steps there are is known once TFX has compiled."""
        for name in {*_CHECKS} - {"env", "tolerations"}:  # theirs may have the form of a step's
            _by_step(name, getattr(self, name), None)

    def apply(self, documents: Sequence[JsonObject]) -> list[JsonObject]:
        """The package with these options.

        Args:
            documents: the specification, and what is for Kubernetes where there is such.

        Raises:
            ConfigError: an option is not allowed, or names a step that there is not.
        """
        spec, *others = copy.deepcopy(list(documents))
        platform = others[0] if others else {}
        tasks = dict(_tasks(spec))
        given = {one.name: _by_step(one.name, getattr(self, one.name), [*tasks]) for one in _FIELDS}
        _separate(spec, tasks, {step for values in given.values() for step in values if step})
        for step, task in tasks.items():
            component = spec["components"][task["componentRef"]["name"]]
            executor = spec["deploymentSpec"]["executors"][component["executorLabel"]]
            mine = {name: [*by.get("", ()), *by.get(step, ())] for name, by in given.items()}
            _set_retries(task, executor["container"], mine["retries"])
            _set_resources(executor["container"], mine)
            _set_variables(executor["container"], mine["env"])
            config = _kubernetes(step, mine)
            if config:
                _merge(platform, component["executorLabel"], config)
        return [spec, platform] if platform else [spec]


_FIELDS = dataclasses.fields(StepOptions)


def _tasks(spec: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """The tasks that run containers, by the name of the step."""
    for component in [spec["root"], *spec["components"].values()]:
        for name, task in component.get("dag", {}).get("tasks", {}).items():
            label = spec["components"][task["componentRef"]["name"]].get("executorLabel")
            if "container" in spec["deploymentSpec"]["executors"].get(label, {}):
                yield name, task


def _separate(spec: JsonObject, tasks: Mapping[str, JsonObject], steps: set[str]) -> None:
    """Gives each of these steps an executor of its own, where kfp has one for equal ones."""
    components, executors = spec["components"], spec["deploymentSpec"]["executors"]
    for step in sorted(steps):
        name = tasks[step]["componentRef"]["name"]
        if sum(task["componentRef"]["name"] == name for task in tasks.values()) == 1:
            continue
        label = f"exec-{step}-alone"
        executors[label] = copy.deepcopy(executors[components[name]["executorLabel"]])
        components[f"comp-{step}-alone"] = {**components[name], "executorLabel": label}
        tasks[step]["componentRef"]["name"] = f"comp-{step}-alone"


def _by_step(option: str, given: object, steps: Sequence[str] | None) -> dict[str, list[object]]:
    """The values of an option by step, None for any; those of all steps by the empty text."""
    found: dict[str, list[object]] = {}
    if given is None:
        return found
    if isinstance(given, Mapping):
        plain = option in ("env", "volumes")
        is_by_step = not plain or any(isinstance(value, Mapping) for value in given.values())
        found = {str(s): _listed(v) for s, v in given.items()} if is_by_step else {"": [given]}
    else:
        for value in _listed(given):
            step, rest = _split_step(option, value, steps or ())
            found.setdefault(step, []).append(rest)
    for step in found:
        if step and steps is not None and step not in steps:
            raise ConfigError(
                f"{option}: expected one of the steps {', '.join(steps)}, "
                f"got {misspelt(step, steps)}",
                setting=option,
                value=step,
            )
    check = _CHECKS[option]
    return {step: [check(option, value) for value in values] for step, values in found.items()}


def _split_step(option: str, value: object, steps: Sequence[str]) -> tuple[str, object]:
    """Step and value of a text `STEP=VALUE`; of a volume `STEP:CLAIM:PATH`."""
    if not isinstance(value, str):
        return "", value
    if option == "volumes":
        step, _, rest = value.partition(":")
        is_of_step = bool(re.fullmatch(r"[^:=]+:[^:=]+:/.*", value))
        return (step, rest) if is_of_step else ("", value)
    step, separator, rest = value.partition("=")
    # A variable or a taint may have the form of a step's value: the pipeline's names decide.
    if separator and (step in steps or option not in ("env", "tolerations")):
        return step, rest
    return "", value


def _listed(value: object) -> list[object]:
    return [*value] if isinstance(value, (list, tuple)) else [value]


def _whole(option: str, value: object) -> int:
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise ConfigError.of(option, value, allowed="a whole number of at least 0")
    return number


def _amount(option: str, value: object) -> float:
    match = _QUANTITY.fullmatch(str(value))
    if not match or isinstance(value, bool) or not float(match[1]):
        raise ConfigError.of(option, value, allowed="a quantity such as 4, 500m or 8Gi")
    return float(match[1]) * _UNITS[match[2] or ""]


def _device(option: str, value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[\w.-]+/[\w.-]+", value):
        raise ConfigError.of(option, value, allowed=f"a resource such as {DEFAULT_GPU_TYPE}")
    return value


def _toleration(option: str, value: object) -> JsonObject:
    match = _TOLERATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        rule = "KEY[=VALUE][:EFFECT], such as nvidia.com/gpu:NoSchedule"
        raise ConfigError.of(option, value, allowed=rule)
    has_value = match["value"] is not None
    found = {"key": match["key"], "operator": "Equal" if has_value else "Exists"}
    others = {"value": match["value"], "effect": match["effect"]}
    return {**found, **{name: text for name, text in others.items() if text}}


def _secret(option: str, value: object) -> tuple[str, JsonObject]:
    """The field of Kubernetes' configuration, and one entry of it."""
    name, _, rest = value.partition(":") if isinstance(value, str) else ("", "", "")
    key, _, variable = rest.partition(":")
    if _NAME.fullmatch(name) and rest.startswith("/"):
        return "secretAsVolume", {"secretName": name, "mountPath": rest}
    if _NAME.fullmatch(name) and key and _VARIABLE.fullmatch(variable):
        keys = [{"secretKey": key, "envVar": variable}]
        return "secretAsEnv", {"secretName": name, "keyToEnv": keys}
    raise ConfigError.of(option, value, allowed="NAME:/FOLDER or NAME:KEY:VARIABLE")


def _variables(option: str, value: object) -> dict[str, str]:
    if isinstance(value, str) and "=" in value:
        name, _, text = value.partition("=")
        value = {name: text}
    if not isinstance(value, Mapping) or not all(
        isinstance(name, str) and _VARIABLE.fullmatch(name) and isinstance(text, str)
        for name, text in value.items()
    ):
        raise ConfigError.of(option, value, allowed="texts by variable, or NAME=VALUE")
    return dict(value)


def _mounts(option: str, value: object) -> list[JsonObject]:
    if isinstance(value, str):
        claim, _, path = value.partition("=" if "=" in value else ":")
        value = {claim: path}
    if not isinstance(value, Mapping):
        raise ConfigError.of(option, value, allowed="paths by claim, or CLAIM:PATH")
    for claim, path in value.items():
        if not _NAME.fullmatch(str(claim)) or not str(path).startswith("/"):
            raise ConfigError(
                "volumes: expected absolute paths by the names of persistent volume claims, got "
                f"{claim!r}: {path!r}",
                setting="volumes",
                value=claim,
            )
    # `constant` is the older of two fields; the drivers of Kubeflow 2.2 stop at the newer.
    return [{"constant": claim, "mountPath": path} for claim, path in value.items()]


def _folder(option: str, value: object) -> JsonObject:
    match = _SCRATCH.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        rule = "PATH[:SIZE], a folder that is not the root and a size such as 20Gi"
        raise ConfigError.of(option, value, allowed=rule)
    return {
        "mountPath": match["path"],
        **({"sizeLimit": match["size"]} if match["size"] else {}),
    }


_CHECKS: dict[str, Callable[[str, object], object]] = {
    "gpu": _whole,
    "gpu_type": _device,
    "cpu": _amount,
    "memory": _amount,
    "retries": _whole,
    "tolerations": _toleration,
    "secrets": _secret,
    "env": _variables,
    "volumes": _mounts,
    "scratch": _folder,
}


def _set_retries(task: JsonObject, container: JsonObject, given: Sequence[int]) -> None:
    arguments = [*map(str, container.get("args", ()))]
    place = arguments.index(_CLASS_FLAG) + 1 if _CLASS_FLAG in arguments else len(arguments)
    is_ours = tuple(container.get("command", ())) == COMMAND or (
        arguments[place : place + 1] and arguments[place].startswith("components.")
    )
    if given:
        task["retryPolicy"] = {**task.get("retryPolicy", {}), "maxRetryCount": given[-1]}
    elif is_ours and "retryPolicy" not in task:
        task["retryPolicy"] = {"maxRetryCount": DEFAULT_RETRIES}


def _set_resources(container: JsonObject, mine: Mapping[str, Sequence[Any]]) -> None:
    resources = container.get("resources", {})
    if mine["cpu"]:
        resources |= {"cpuLimit": mine["cpu"][-1], "cpuRequest": mine["cpu"][-1]}
    if mine["memory"]:  # in units of 10^9 bytes
        resources |= {f"memory{side}": mine["memory"][-1] / 1e9 for side in ("Limit", "Request")}
    if mine["gpu"] and mine["gpu"][-1]:
        kind = [DEFAULT_GPU_TYPE, *mine["gpu_type"]][-1]
        resources["accelerator"] = {"count": str(mine["gpu"][-1]), "type": kind}
    if resources:
        container["resources"] = resources


def _set_variables(container: JsonObject, given: Sequence[Mapping[str, str]]) -> None:
    held = {one["name"]: one["value"] for one in container.get("env", [])}
    for variables in given:
        held |= variables
    if held:
        container["env"] = [{"name": name, "value": held[name]} for name in sorted(held)]


def _kubernetes(step: str, mine: Mapping[str, Sequence[Any]]) -> dict[str, list[JsonObject]]:
    config: dict[str, list[JsonObject]] = {}
    for mounts in mine["volumes"]:
        config.setdefault("pvcMount", []).extend(mounts)
    for field, entry in mine["secrets"]:
        config.setdefault(field, []).append(entry)
    if mine["tolerations"]:
        config["tolerations"] = list(mine["tolerations"])
    if mine["scratch"]:
        config[_SCRATCH_FIELD] = _scratch(step, mine["scratch"], config)
    return config


def _scratch(
    step: str, given: Sequence[JsonObject], config: Mapping[str, Sequence[JsonObject]]
) -> list[JsonObject]:
    """A volume for each folder, of which the last one that is given for a path holds."""
    by_path = {one["mountPath"]: one for one in given}
    for one in (*config.get("pvcMount", ()), *config.get("secretAsVolume", ())):
        path = one["mountPath"].rstrip("/")
        if path in by_path:
            raise ConfigError(
                f"scratch: expected folders of {step} where nothing else is mounted, got {path!r}, "
                f"where {one.get('constant') or one.get('secretName')!r} is. Take another folder.",
                setting="scratch",
                value=path,
            )
    return [
        {"volumeName": f"tfx-shards-scratch-{index}", **one}
        for index, one in enumerate(by_path.values())
    ]


def _merge(platform: JsonObject, label: str, config: Mapping[str, list[JsonObject]]) -> None:
    kubernetes = platform.setdefault("platforms", {}).setdefault("kubernetes", {})
    executors = kubernetes.setdefault("deploymentSpec", {}).setdefault("executors", {})
    held = executors.setdefault(label, {})
    for field, entries in config.items():
        before = held.get(field, [])
        if field == _SCRATCH_FIELD:  # Kubernetes refuses a pod with two volumes at a path
            paths = {entry["mountPath"] for entry in entries}
            before = [entry for entry in before if entry["mountPath"] not in paths]
        held[field] = [*before, *(entry for entry in entries if entry not in before)]
