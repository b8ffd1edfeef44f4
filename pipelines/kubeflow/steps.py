"""Set Kubernetes options of the steps of a package: processors, memory, retries, volumes etc.

    options = read_options({"gpu": {"Trainer": 1}, "volumes": "Trainer=models:/models"})
    documents = apply_options(documents, options)

An option has values for all steps or for one: `VALUE`, `STEP=VALUE`, or a mapping by step.

Source: `PipelineContainerSpec` of `pipeline_spec.proto`, and `KubernetesExecutorConfig` of
`kubernetes_executor_config.proto`. All versions read the fields that newer ones call deprecated.
kfp-kubernetes writes the same fields, but only for tasks of `kfp.dsl`.
"""

import collections
import copy
import re
from collections.abc import Iterator, Mapping, Sequence

from trainer_utils.core.errors import ConfigError
from trainer_utils.core.json_text import JsonObject

_RETRIES = "2"  # default for our own steps, which start over and leave no partial output
_GPU_TYPE = "nvidia.com/gpu"
_CLAIM = r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?"
_VARIABLE = r"[A-Za-z_]\w*"
_NUMBER = r"\d+"
_AMOUNT = r"(?P<number>\d+(?:\.\d+)?)(?P<unit>m|k|Ki|[MGTP]i?)?"
_FORMS = {
    "gpu": (_NUMBER, "a whole number"),
    "gpu_type": (r"[\w.-]+/[\w.-]+", f"a resource such as {_GPU_TYPE}"),
    "cpu": (_AMOUNT, "a quantity such as 4 or 500m"),
    "memory": (_AMOUNT, "a quantity such as 8Gi"),
    "retries": (_NUMBER, "a whole number"),
    "tolerations": (
        r"(?P<key>[\w./-]+)(=(?P<value>[\w.-]*))?"
        r"(:(?P<effect>NoSchedule|PreferNoSchedule|NoExecute))?",
        "KEY[=VALUE][:EFFECT], such as nvidia.com/gpu:NoSchedule",
    ),
    "secrets": (
        rf"(?P<name>{_CLAIM}):((?P<path>/.*)|(?P<key>[^:/]+):(?P<variable>{_VARIABLE}))",
        "NAME:/FOLDER or NAME:KEY:VARIABLE",
    ),
    "env": (rf"(?P<name>{_VARIABLE})=(?P<value>.*)", "NAME=VALUE"),
    "volumes": (rf"(?P<claim>{_CLAIM})[:=](?P<path>/.*)", "CLAIM:PATH"),
    "scratch": (
        r"(?P<path>/[^:/\s][^:\s]*?)/?(:(?P<size>[1-9]\d*(k|Ki|[MGTP]i?)?))?",
        "PATH[:SIZE], a folder that is not the root and a size such as 20Gi",
    ),
}
OPTIONS = (*_FORMS,)
FINGERPRINT_SUFFIX = "-inputs"  # the step before an ExampleGen, with the options of the ExampleGen
_UNITS = {None: 1.0, "m": 1e-3, "k": 1e3, "Ki": 1024.0} | {
    letter + i: base**power
    for power, letter in enumerate("MGTP", 2)
    for i, base in (("", 1e3), ("i", 1024.0))
}


def read_options(given: Mapping[str, object]) -> dict[str, list[str]]:
    """Return the options as strings, checked except for the names of steps.

    Args:
        given: values by option, as `compile_pipeline` takes them.

    Raises:
        ConfigError: a value is invalid.
    """
    options = {option: _texts(values) for option, values in given.items()}
    for option, texts in options.items():
        for text in texts:
            _match(option, text, None)
    return options


def apply_options(
    documents: Sequence[JsonObject], options: Mapping[str, Sequence[str]]
) -> list[JsonObject]:
    """Return the documents of a package with options applied.

    Args:
        documents: the specification, and optionally the settings for Kubernetes.
        options: options from `read_options`.

    Raises:
        ConfigError: an option names an unknown step.
    """
    spec, *others = copy.deepcopy(list(documents))
    platform = others[0] if others else {}
    tasks = dict(_tasks(spec))
    read = {o: [_match(o, text, tasks) for text in options.get(o, ())] for o in OPTIONS}
    _separate(spec, tasks, {step for matches in read.values() for step, _ in matches if step})
    for step, task in tasks.items():
        label = spec["components"][task["componentRef"]["name"]]["executorLabel"]
        container = spec["deploymentSpec"]["executors"][label]["container"]
        given_to = dict.fromkeys(("", step.removesuffix(FINGERPRINT_SUFFIX), step))
        mine = {o: [m for to in given_to for of, m in read[o] if of == to] for o in OPTIONS}
        retries = [_RETRIES] if _is_ours(container) and "retryPolicy" not in task else []
        retries += [match[0] for match in mine["retries"]]
        if retries:
            task["retryPolicy"] = {**task.get("retryPolicy", {}), "maxRetryCount": int(retries[-1])}
        _set_container(container, mine)
        if config := _kubernetes(mine):
            held = platform
            for key in ("platforms", "kubernetes", "deploymentSpec", "executors", label):
                held = held.setdefault(key, {})
            for field, entries in config.items():  # a pod cannot mount two volumes at one path
                taken = [mount.get("mountPath", mount) for mount in entries]
                before = held.get(field, [])
                held[field] = [
                    mount for mount in before if mount.get("mountPath", mount) not in taken
                ]
                held[field] += entries
    return [spec, platform] if platform else [spec]


def _texts(given: object) -> list[str]:
    """Return the strings of an option, `VALUE` or `STEP=VALUE`; mappings become `KEY=VALUE`."""
    if isinstance(given, Mapping):
        pairs = [(str(key), text) for key, value in given.items() for text in _texts(value)]
        return [f"{key}={text}" if key else text for key, text in pairs]
    if isinstance(given, (list, tuple)):
        return [text for item in given for text in _texts(item)]
    return [] if given is None else [str(given)]


def _match(option: str, text: str, steps: Mapping[str, object] | None) -> tuple[str, re.Match[str]]:
    """Return the step of a string, empty for all steps, and the match of its value."""
    form, allowed = _FORMS[option]
    step, _, value = re.sub("[=:]", "\0", text, count=1).partition("\0")
    if (steps is None or step in steps) and (match := re.fullmatch(form, value)):
        return step, match
    if match := re.fullmatch(form, text):
        return "", match
    if steps is not None:
        allowed = f"[STEP=]VALUE, of the steps {', '.join(steps)}, with {allowed}"
    raise ConfigError.of(option, text, allowed=allowed)


def _tasks(spec: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Yield the tasks that run containers, each with the name of its step."""
    for component in [spec["root"], *spec["components"].values()]:
        for name, task in component.get("dag", {}).get("tasks", {}).items():
            label = spec["components"][task["componentRef"]["name"]].get("executorLabel")
            if "container" in spec["deploymentSpec"]["executors"].get(label, {}):
                yield name, task


def _separate(spec: JsonObject, tasks: Mapping[str, JsonObject], steps: set[str]) -> None:
    """Give each of these steps a separate executor, because kfp shares one among equal steps."""
    components, executors = spec["components"], spec["deploymentSpec"]["executors"]
    names = [task["componentRef"]["name"] for task in tasks.values()]
    for step in sorted(steps):
        name = tasks[step]["componentRef"]["name"]
        if names.count(name) > 1:
            label, alone = f"exec-{step}-alone", f"comp-{step}-alone"
            executors[label] = copy.deepcopy(executors[components[name]["executorLabel"]])
            components[alone] = {**components[name], "executorLabel": label}
            tasks[step]["componentRef"]["name"] = alone


def _is_ours(container: JsonObject) -> bool:
    parts = [str(part) for part in (*container.get("command", ()), *container.get("args", ()))]
    if "--executor_class_path" in parts:  # a step of TFX
        return parts[parts.index("--executor_class_path") + 1].startswith("components.")
    return any("components.kubeflow." in part for part in parts)


def _set_container(container: JsonObject, mine: Mapping[str, Sequence[re.Match[str]]]) -> None:
    """Set the processors, memory, accelerator and environment variables of a container."""
    resources = container.get("resources", {})
    for option, unit in (("cpu", 1.0), ("memory", 1e9)):
        for match in mine[option]:
            amount = float(match["number"]) * _UNITS[match["unit"]] / unit
            resources |= {f"{option}Limit": amount, f"{option}Request": amount}
    if mine["gpu"] and mine["gpu"][-1][0] != "0":
        kind = [_GPU_TYPE, *(rule[0] for rule in mine["gpu_type"])][-1]
        resources["accelerator"] = {"count": mine["gpu"][-1][0], "type": kind}
    if resources:
        container["resources"] = resources
    variables = {variable["name"]: variable["value"] for variable in container.get("env", ())}
    variables |= {match["name"]: match["value"] for match in mine["env"]}
    if variables:
        container["env"] = [{"name": n, "value": variables[n]} for n in sorted(variables)]


def _kubernetes(mine: Mapping[str, Sequence[re.Match[str]]]) -> dict[str, list[JsonObject]]:
    """Return the Kubernetes settings of a step: volumes, secrets, tolerations and scratch space."""
    config: dict[str, list[JsonObject]] = collections.defaultdict(list)
    # `constant` is the older of two fields; the drivers of Kubeflow 2.2 fail on the newer one.
    for match in mine["volumes"]:
        config["pvcMount"].append({"constant": match["claim"], "mountPath": match["path"]})
    for match in mine["secrets"]:
        secret = {"secretName": match["name"]}
        if match["path"]:
            config["secretAsVolume"].append({**secret, "mountPath": match["path"]})
        else:
            keys = [{"secretKey": match["key"], "envVar": match["variable"]}]
            config["secretAsEnv"].append({**secret, "keyToEnv": keys})
    for match in mine["tolerations"]:
        parts = {name: text for name, text in match.groupdict().items() if text}
        operator = "Exists" if match["value"] is None else "Equal"
        config["tolerations"].append({**parts, "operator": operator})
    sizes = {match["path"]: match["size"] for match in mine["scratch"]}
    for index, (path, size) in enumerate(sizes.items()):
        folder = {"volumeName": f"tfx-shards-scratch-{index}", "mountPath": path}
        config["emptyDirMounts"].append(folder | ({"sizeLimit": size} if size else {}))
    return config
