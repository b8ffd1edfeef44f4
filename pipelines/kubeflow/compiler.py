"""Compile a pipeline to the YAML that Kubeflow Pipelines v2 runs.

compile_pipeline("image", "pipeline.yaml", image="registry.example/tfx-shards:1",
                 pipeline_root="minio://mlpipeline/runs")
compile_pipeline("mine.py:make_pipeline", "pipeline.yaml", image=…, pipeline_root=…)

TFX compiles for Vertex AI. Open-source Kubeflow differs, and the compiler adapts the package:
- It knows only the types `system.*`. Tasks get these, and the types of TFX as an argument.
- It runs no driver before the cache. The step itself does the work of the driver.
- It caches a task without input artifacts even if the data that the task reads has changed. So a
  step before each of our ExampleGens passes the fingerprint of its inputs as a parameter. All other
  tasks of this kind are not cached.
- It copies artifacts between its store and the disk of the pod. Steps get the local paths.
- It stores all numbers as float64. Constants that do not fit are refused.

Source: `backend/src/v2/driver`, `cacheutils/cache.go` and `component/launcher_v2.go` of Kubeflow
Pipelines 2.
"""

import ast
import copy
import inspect
import os
import re
import runpy
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import yaml

from components.kubeflow.artifacts import PAGE_OUTPUT, check_dataset_root
from components.kubeflow.tfx_step import (
    ARTIFACT_FLAG,
    DRIVER_FLAG,
    ROOT_FLAG,
    STEP_COMMAND,
    VERSION_PARAMETER,
)
from pipelines.kubeflow.steps import FINGERPRINT_SUFFIX, OPTIONS, apply_options, read_options
from trainer_utils.core.errors import ConfigError, DatasetError, did_you_mean
from trainer_utils.core.json_text import Json, JsonObject
from trainer_utils.core.settings import one_of
from trainer_utils.storage import read_text, write_text

READY = ("image", "text")  # pipelines.examples.training_pipeline has them, but imports TFX
_TEXTS = {
    "output": (r".+\.ya?ml", "the path of a .yaml file"),
    "image": (r"\S+", "a container image"),
    "pipeline_root": (
        r"(gs|minio|s3)://[^/\s]+(/\S*)?",
        "gs://, minio:// or s3:// and a bucket, to which Kubeflow copies artifacts",
    ),
    "name": (
        r"[a-z0-9][a-z0-9-]{0,127}",
        "lower-case letters, digits and hyphens, 128 at the most",
    ),
}
_FINGERPRINTS = ("listing", "none")
_LINE_WIDTH = 100
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


class CodeUpload(NamedTuple):
    """A file to upload to the store of a compiled pipeline: the code of one component."""

    component: str
    source: str  # the local path
    target: str  # the URL that the pipeline reads


def compile_pipeline(
    pipeline: str,
    output: str | os.PathLike[str],
    *,
    image: str | None = None,
    pipeline_root: str | None = None,
    name: str | None = None,
    dataset_root: str | None = None,
    input_fingerprint: str = "listing",
    **step_options: Any,
) -> list[CodeUpload]:
    """Write the package that a Kubeflow Pipelines client uploads and runs; needs no network.

    Args:
        pipeline: `image` or `text` for a ready pipeline; or `PATH.py:FUNCTION` for a function
            that returns a TFX pipeline (it may have a parameter `pipeline_root`), or that
            `kfp.dsl.pipeline` decorates.
        output: the path of the `.yaml` file. An existing file is replaced at the end.
        image: the image of every container of a TFX pipeline; it needs this package. In a pipeline
            of `kfp.dsl` it replaces the image `default_image()`, which our components have.
        pipeline_root: the folder for artifacts of Kubeflow: `gs://`, `minio://` or `s3://`.
            Required for a TFX pipeline. Default: the setting of the pipeline or the cluster.
        name: the name of the pipeline, in lower case. Default: its own name.
        dataset_root: for a TFX pipeline: a folder on a volume that all pods mount, or a bucket, to
            store datasets in, so that no pod copies them. Default: below `pipeline_root`.
        input_fingerprint: for a TFX pipeline with `enable_cache`: the cache key of our ExampleGens.
            `listing`: the names, sizes and times of the inputs, listed by a step before each
            ExampleGen; `none`: no caching, an ExampleGen always runs.
        step_options: `gpu`, `gpu_type`, `cpu`, `memory`, `retries`, `tolerations`, `secrets`,
            `env`, `volumes` and `scratch`. Each is one value for all steps, values by step,
            `gpu={"Trainer": 1}`, or the strings of the command line.

    Returns:
        The wheels to upload before the first run: the code of each `module_file` of a TFX
        pipeline, written to `OUTPUT-wheels/` next to the package. Empty if all have `run_fn`.

    Raises:
        ConfigError: an argument is invalid; the file or function is missing; the function does not
            return a pipeline, or Kubeflow cannot run the pipeline.
        ImportError: a ready pipeline is requested, and TFX is not installed.
    """
    given = {"image": image, "pipeline_root": pipeline_root, "name": name}
    _check(output=output, **{n: text for n, text in given.items() if text is not None})
    check_dataset_root(dataset_root or "")
    one_of(*_FINGERPRINTS)("input_fingerprint", input_fingerprint)
    for option in step_options:
        one_of(*OPTIONS)("option of steps", option)
    options = read_options(step_options)
    output = os.path.abspath(output)
    uploads: list[CodeUpload] = []
    if pipeline in READY:
        image, pipeline_root = _needed_by_tfx(pipeline, image, pipeline_root)
        from pipelines.examples.training_pipeline import create_kubeflow_pipeline

        definition = create_kubeflow_pipeline(pipeline, name=name, pipeline_root=pipeline_root)
    else:
        definition = _make(pipeline, pipeline_root)
    if hasattr(definition, "pipeline_spec"):
        documents = _compile_native(definition, name, pipeline_root, image)
    else:
        image, pipeline_root = _needed_by_tfx(pipeline, image, pipeline_root)
        uploads = _pack_modules(definition, pipeline_root, f"{os.path.splitext(output)[0]}-wheels")
        spec = _compile_tfx(definition, name, image=image, pipeline_root=pipeline_root)
        spec["defaultPipelineRoot"] = pipeline_root
        _make_open_source(
            spec, dataset_root=dataset_root or "", fingerprints=input_fingerprint == "listing"
        )
        _add_defaults(spec["root"], definition)
        documents = [spec]
    documents = apply_options(documents, options)
    text = yaml.safe_dump_all(documents, sort_keys=True, width=_LINE_WIDTH)
    write_text(output, text, temporary_folder=os.path.dirname(output))
    return uploads


def _check(**given: object) -> None:
    for setting, value in given.items():
        form, allowed = _TEXTS[setting]
        if not isinstance(value, str) or not re.fullmatch(form, value):
            raise ConfigError.of(setting, value, allowed=allowed)


def _needed_by_tfx(pipeline: str, image: str | None, root: str | None) -> tuple[str, str]:
    for name, value in (("image", image), ("pipeline_root", root)):
        if value is None:
            raise ConfigError.of(name, None, allowed=f"one, since {pipeline!r} is a TFX pipeline")
    return str(image), str(root)


def _make(pipeline: str, pipeline_root: str | None) -> Any:
    """Return the pipeline of TFX or kfp that `PATH.py:FUNCTION` names or returns."""
    path, function = _path_and_function(str(pipeline))
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))  # as for `python PATH.py`
    try:
        names = _run_own_code(pipeline, path, lambda: runpy.run_path(path, run_name=_stem(path)))
        definition = names.get(function)
        if hasattr(definition, "pipeline_spec"):
            return definition
        _check_function(pipeline, path, function, names)
        wants_root = "pipeline_root" in inspect.signature(definition).parameters
        arguments = {"pipeline_root": pipeline_root} if wants_root else {}
        result = _run_own_code(pipeline, path, lambda: definition(**arguments))
    finally:
        sys.path.pop(0)
    is_tfx = all(hasattr(result, part) for part in ("pipeline_info", "components"))
    if not is_tfx and not hasattr(result, "pipeline_spec"):
        raise _bad_pipeline(
            pipeline,
            f"{function}() returned {type(result).__name__}, not a pipeline. "
            "Return a TFX pipeline or a function that kfp.dsl.pipeline decorates",
        )
    return result


def _bad_pipeline(pipeline: str, problem: str) -> ConfigError:
    return ConfigError(f"pipeline {pipeline!r}: {problem}", setting="pipeline", value=pipeline)


def _stem(path: str) -> str:
    return os.path.basename(path).removesuffix(".py")


def _path_and_function(pipeline: str) -> tuple[str, str]:
    """Split `PATH.py:FUNCTION`; raise ConfigError if the file or the function's name is missing."""
    if pipeline.endswith(".py") and os.path.isfile(pipeline):
        names = _function_names(pipeline)
        likely = [name for name in names if "pipeline" in name.lower()] or names or ["FUNCTION"]
        problem = f":FUNCTION is missing. Name it after a colon: {pipeline}:{likely[0]}"
        defined = f". The file defines {', '.join(names)}" if names else ""
        raise _bad_pipeline(pipeline, f"{problem}{defined}")
    path, _, function = pipeline.rpartition(":")
    if not path.endswith(".py"):
        rule = f"expected {', '.join(READY)} or PATH.py:FUNCTION."
        raise _bad_pipeline(pipeline, f"{rule}{did_you_mean(pipeline, READY)}".removesuffix("."))
    if not os.path.isfile(path):
        raise _bad_pipeline(pipeline, f"there is no file {path!r}. Check the path")
    return path, function


def _function_names(path: str) -> list[str]:
    """Return the names of the top-level functions of a source file, or [] if it is invalid."""
    try:
        body = ast.parse(read_text(path)).body
    except (SyntaxError, ValueError, DatasetError):
        return []
    return [node.name for node in body if isinstance(node, ast.FunctionDef)]


def _check_function(pipeline: str, path: str, function: str, names: Mapping[str, Any]) -> None:
    """Raise ConfigError unless `function` can be called with no argument but `pipeline_root`."""
    if function not in names:
        defined = _function_names(path)
        problem = f"{path!r} has no function {function!r}."
        problem += did_you_mean(function, defined) or f" It defines {', '.join(defined) or 'none'}."
        raise _bad_pipeline(pipeline, problem.removesuffix("."))
    definition = names[function]
    if not callable(definition):
        problem = f"{function!r} in {path!r} is {type(definition).__name__}, not a function. "
        raise _bad_pipeline(pipeline, f"{problem}Name a function that returns the pipeline")
    needed = [
        name
        for name, parameter in inspect.signature(definition).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if more := [name for name in needed if name != "pipeline_root"]:
        problem = f"{function}() needs {', '.join(more)}, but only pipeline_root is passed. "
        raise _bad_pipeline(pipeline, f"{problem}Give the parameter a default")


def _run_own_code(pipeline: str, path: str, run: Callable[[], Any]) -> Any:
    """Call the user's code; an exception becomes a ConfigError that names its line."""
    try:
        return run()
    except ConfigError as error:
        place = _place_of(error, path)
        raise ConfigError(
            f"{place}: {error}" if place else str(error), setting=error.setting, value=error.value
        ) from error
    except Exception as error:
        raised = traceback.format_exception_only(error)[-1].strip()
        place = _place_of(error, path) or path
        raise _bad_pipeline(pipeline, f"{place} raised {raised}") from error


def _place_of(error: BaseException, path: str) -> str:
    """Return `file.py, line 7 (source)` for the innermost frame in the user's file."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return f"{path}, line {error.lineno}"
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path
    ]
    if not frames:
        return ""
    source = f" ({frames[-1].line})" if frames[-1].line else ""
    return f"{path}, line {frames[-1].lineno}{source}"


def _compile_tfx(pipeline: Any, name: str | None, *, image: str, pipeline_root: str) -> JsonObject:
    """Compile a TFX pipeline by TFX and return the specification."""
    from tfx.orchestration.kubeflow.v2 import kubeflow_v2_dag_runner as runner

    if name is not None:
        pipeline.pipeline_info.pipeline_name = name
    _check(name=pipeline.pipeline_info.pipeline_name)
    pipeline.pipeline_info.pipeline_root = pipeline_root
    config = runner.KubeflowV2DagRunnerConfig(default_image=image, use_pipeline_spec_2_1=True)
    try:
        compiled = runner.KubeflowV2DagRunner(config).run(pipeline, write_out=False)
    except Exception as error:  # any class: TFX checks little before it compiles
        raise ConfigError(
            f"pipeline {pipeline.pipeline_info.pipeline_name!r}: TFX cannot compile it for "
            f"Kubeflow: {type(error).__name__}: {error}",
            setting="pipeline",
        ) from error
    spec: JsonObject = compiled["pipelineSpec"]
    return spec


def _pack_modules(pipeline: Any, pipeline_root: str, folder: str) -> list[CodeUpload]:
    """Put the code of each `module_file` into a wheel in a local folder.

    TFX would write the wheel to the store, and without a network retries for a minute to find out
    whether `pipeline_root` exists.
    """
    from tfx.components.util import udf_utils

    uploads = []
    for component in pipeline.components:
        properties = component.exec_properties
        for setting in ("module_file", "module_path"):
            file = properties.get(setting)
            if file and not pipeline_root.startswith("gs://"):
                raise ConfigError.of(
                    f"{component.id}, {setting}",
                    file,
                    allowed="a function that the image has, such as "
                    "run_fn='my_package.trainer.run_fn', since TFX cannot put a file's code into "
                    f"{pipeline_root!r}",
                )
        file = properties.get("module_file")
        if not isinstance(file, str) or not file:
            continue
        if not os.path.isfile(file):
            rule = "a Python file on this machine"
            raise ConfigError.of(f"{component.id}, module_file", file, allowed=rule)
        wheel, module = udf_utils.package_user_module_file(component.id, file, folder)
        target = f"{pipeline_root.rstrip('/')}/_wheels/{os.path.basename(wheel)}"
        properties["module_path"] = f"{module.partition('@')[0]}@{target}"
        properties["module_file"] = None
        uploads.append(CodeUpload(component.id, wheel, target))
    return uploads


def _compile_native(
    pipeline: Any, name: str | None, pipeline_root: str | None, image: str | None
) -> list[JsonObject]:
    """Compile a pipeline of kfp's own components; return its YAML documents."""
    from kfp import compiler

    from components.kubeflow import default_image

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "pipeline.yaml")
        compiler.Compiler().compile(pipeline, path, pipeline_name=name)
        with open(path, encoding="utf-8") as stream:
            spec, *platform = yaml.safe_load_all(stream)
    for executor in spec["deploymentSpec"]["executors"].values():
        container = executor.get("container", {})
        if image is not None and container.get("image") == default_image():
            container["image"] = image
    if pipeline_root is not None:
        spec["defaultPipelineRoot"] = pipeline_root
    return [spec, *platform]


def _make_open_source(spec: JsonObject, *, dataset_root: str, fingerprints: bool) -> None:
    """Adapt a specification that TFX compiled for Vertex AI to open-source Kubeflow."""
    executors, components = spec["deploymentSpec"]["executors"], spec["components"]
    for name, component in components.items():
        types = []  # side, name and TFX type of each artifact
        for side in ("input", "output"):
            artifacts = component.get(f"{side}Definitions", {}).get("artifacts", {})
            for artifact, definition in sorted(artifacts.items()):  # protobuf maps are unordered
                title = _collapse_type(definition, "artifactType", artifact)
                types.append((f"{side}s", artifact, title))
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
    for tasks in [c["dag"]["tasks"] for c in (spec["root"], *components.values()) if "dag" in c]:
        for name, task in [*tasks.items()]:
            _check_constants(name, task)
            if not task.get("inputs", {}).get("artifacts"):
                is_cached = task.pop("cachingOptions", {}).get("enableCache")
                if fingerprints and is_cached:
                    _add_fingerprint(spec, tasks, name)


def _add_fingerprint(spec: JsonObject, tasks: JsonObject, name: str) -> None:
    """Add a fingerprint step before one of our ExampleGens, so that it may be cached."""
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


def _collapse_type(holder: JsonObject, key: str, name: str = "") -> str:
    schema = holder[key]
    title = str(schema.get("schemaTitle") or yaml.safe_load(schema["instanceSchema"])["title"])
    system = title if title.startswith("system.") else _SYSTEM_TYPES.get(title, _OTHER_TYPE)
    if (name, title) == PAGE_OUTPUT:
        system = _PAGE_TYPE
    holder[key] = {"schemaTitle": system, "schemaVersion": _SCHEMA_VERSION}
    return title


def _wrap(container: JsonObject, types: Iterable[tuple[str, str, str]], root: str) -> None:
    """Replace the command by our step, with the arguments of TFX after `--`."""
    arguments = []
    for side, name, title in types:
        path = f"{{{{$.{side}.artifacts['{name}'].path}}}}"
        arguments += [ARTIFACT_FLAG, side, name, title, path]
    arguments += [ROOT_FLAG, root] if root else []
    arguments += [DRIVER_FLAG] if container.pop("lifecycle", None) else []
    container["command"] = list(STEP_COMMAND)
    container["args"] = [*arguments, "--", *container.get("args", ())]


def _check_constants(task_name: str, task: Mapping[str, Json]) -> None:
    for name, parameter in task.get("inputs", {}).get("parameters", {}).items():
        value = parameter.get("runtimeValue", {}).get("constant")
        # An int has become the nearest float by now; floats are exact for integers below 2^53.
        if isinstance(value, float) and value.is_integer() and abs(value) >= 2**53:
            raise ConfigError.of(
                f"{task_name}, {name}",
                int(value),
                allowed="a number below 2^53, since Kubeflow keeps numbers as float64",
            )


def _add_defaults(root: JsonObject, pipeline: Any) -> None:
    """Add the defaults and descriptions that TFX leaves out to the parameters of the run."""
    from tfx.orchestration.data_types import RuntimeParameter

    parameters = root.get("inputDefinitions", {}).get("parameters", {})
    for component in pipeline.components:
        for runtime_parameter in component.exec_properties.values():
            if (
                not isinstance(runtime_parameter, RuntimeParameter)
                or runtime_parameter.name not in parameters
            ):
                continue
            parameter = parameters[runtime_parameter.name]
            if runtime_parameter.default is not None:
                parameter |= {"defaultValue": runtime_parameter.default, "isOptional": True}
            if runtime_parameter.description:
                parameter["description"] = runtime_parameter.description
