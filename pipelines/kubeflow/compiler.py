"""Compiles a pipeline to the YAML that Kubeflow Pipelines v2 runs.

compile_pipeline("image", "pipeline.yaml", image="registry.example/tfx-shards:1",
                 pipeline_root="minio://mlpipeline/runs")
compile_pipeline("mine.py:make_pipeline", "pipeline.yaml", image=…, pipeline_root=…)
"""

import contextlib
import importlib.util
import inspect
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import yaml
from absl import logging

from components.kubeflow.dataset_location import check_dataset_root
from components.kubeflow.images import using_image
from trainer_utils.format import ConfigError
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.spelling import misspelt
from trainer_utils.storage import write_text

__all__ = ["compile_pipeline"]

READY = ("image", "text")  # of pipelines.kubeflow.ready, which brings TFX
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,127}")
_ROOT = re.compile(r"(gs|minio|s3)://[^/\s]+(/\S*)?")
_SUFFIXES = (".yaml", ".yml")
_LINE_WIDTH = 100
_WHEELS = "_wheels"  # as TFX calls the folder


def compile_pipeline(
    pipeline: str,
    output: str,
    *,
    image: str | None = None,
    pipeline_root: str | None = None,
    name: str | None = None,
    dataset_root: str | None = None,
    input_fingerprint: str = "listing",
    gpu: Any = None,
    gpu_type: Any = None,
    cpu: Any = None,
    memory: Any = None,
    retries: Any = None,
    tolerations: Any = None,
    secrets: Any = None,
    env: Any = None,
    volumes: Any = None,
    scratch: Any = None,
) -> None:
    """Writes the package that a Kubeflow Pipelines client uploads and runs.

    Args:
        pipeline: `image` or `text` for a ready pipeline; or `PATH.py:FUNCTION` for a function
            that returns a TFX pipeline (where it has a parameter `pipeline_root`, it is given),
            or that `kfp.dsl.pipeline` decorates.
        output: the path of the file, `.yaml`. One that is there is replaced at the end. Code of
            a `module_file` is packed into `_wheels/` beside it, which is to be copied to
            `pipeline_root`: compiling asks no bucket.
        image: of every container of a TFX pipeline, with this package in it. A pipeline of
            `kfp.dsl` needs none: of it, the image of our components. Default: as it was written.
        pipeline_root: where Kubeflow keeps the artifacts: `gs://`, `minio://` or `s3://`. A TFX
            pipeline needs it. Default: as the pipeline or the cluster has it.
        name: the pipeline's, in lower case. Default: its own.
        dataset_root: of a TFX pipeline: a folder on a volume that all pods mount, or a bucket, to
            keep datasets in, so that the launcher does not copy them to and from each pod. Default:
            they lie below `pipeline_root`, as all artifacts.
        input_fingerprint: of a TFX pipeline with `enable_cache`: what a step before each of our
            ExampleGens looks at, to decide whether that is taken from Kubeflow's cache: `listing`,
            names, sizes and times; `contents`, names and bytes; `none`, there is no such step, and
            an ExampleGen always runs. Where a dataset is gone from `dataset_root`, it is made
            again.
        gpu, gpu_type: how many devices a step has, of which resource: `nvidia.com/gpu`. These and
            all that follow: one value for all steps, or a mapping by step,
            `gpu={"Trainer": 1}`; or a list of texts as the command line takes them.
        cpu, memory: of a step, such as `4` and `8Gi`.
        retries: how often a step that failed runs again. Default: twice for our own steps.
        tolerations: of taints, `KEY[=VALUE][:EFFECT]`.
        secrets: `NAME:/FOLDER` mounts a secret, `NAME:KEY:VARIABLE` sets a variable of its key.
        env: variables, `{"NAME": "value"}`, or such mappings by step.
        volumes: where containers mount persistent volume claims: paths by claim, or such mappings
            by step.
        scratch: where containers have an empty folder, an emptyDir that goes with the pod:
            `PATH[:SIZE]`. `/tmp` is what a pod with a read-only root needs.

    Raises:
        ConfigError: an argument is not allowed; there is no such file or function; what it
            returns is no pipeline, or one that Kubeflow cannot run.
        ImportError: a ready pipeline is wanted, and TFX is not installed.
    """
    _check(output, image, pipeline_root, name)
    check_dataset_root(dataset_root or "")
    if pipeline in READY:
        image, pipeline_root = _needed_by_tfx(pipeline, image, pipeline_root)
    else:
        _find_function(pipeline)
    from pipelines.kubeflow import cache_keys

    cache_keys.check_mode(input_fingerprint)
    from pipelines.kubeflow.steps import StepOptions

    options = StepOptions(
        gpu=gpu,
        gpu_type=gpu_type,
        cpu=cpu,
        memory=memory,
        retries=retries,
        tolerations=tolerations,
        secrets=secrets,
        env=env,
        volumes=volumes,
        scratch=scratch,
    )
    if pipeline in READY:
        from pipelines.kubeflow.ready import create_kubeflow_pipeline

        made = create_kubeflow_pipeline(pipeline, name=name, pipeline_root=pipeline_root or "")
    else:
        choice = using_image(image, is_needed=False) if image else contextlib.nullcontext()
        with choice:
            made = _call(_load(pipeline), pipeline, pipeline_root)
    if hasattr(made, "pipeline_spec"):
        documents = _compile_native(made, name, pipeline_root)
        cached: list[str] = []
    else:
        from pipelines.kubeflow.spec import for_open_source

        image, pipeline_root = _needed_by_tfx(pipeline, image, pipeline_root)
        wheels = os.path.join(os.path.dirname(os.path.abspath(output)), _WHEELS)
        compiled = _compile_tfx(made, name, image=image, pipeline_root=pipeline_root, wheels=wheels)
        spec = for_open_source(
            compiled, made, pipeline_root=pipeline_root, dataset_root=dataset_root
        )
        documents, cached = [spec], cache_keys.cached_tasks(compiled)
    documents = options.apply(documents)
    documents = cache_keys.add_input_fingerprints(documents, cached, mode=input_fingerprint)
    documents = cache_keys.add_environments(documents)
    text = yaml.safe_dump_all(documents, sort_keys=True, width=_LINE_WIDTH)
    output = os.path.abspath(output)
    write_text(output, text, temporary_folder=os.path.dirname(output))


def _check(output: str, image: str | None, pipeline_root: str | None, name: str | None) -> None:
    if not isinstance(output, str) or not output.endswith(_SUFFIXES):
        raise ConfigError.of("output", output, allowed="the path of a .yaml file")
    if image is not None and (not isinstance(image, str) or not image or re.search(r"\s", image)):
        raise ConfigError.of("image", image, allowed="a container image")
    if pipeline_root is not None and not (
        isinstance(pipeline_root, str) and _ROOT.fullmatch(pipeline_root)
    ):
        raise ConfigError(
            "pipeline_root: expected gs://, minio:// or s3:// and a bucket, which are the stores "
            f"that Kubeflow copies artifacts to, got {pipeline_root!r}",
            setting="pipeline_root",
            value=pipeline_root,
        )
    if name is not None:
        _check_name(name)


def _needed_by_tfx(pipeline: str, image: str | None, root: str | None) -> tuple[str, str]:
    for name, value in (("image", image), ("pipeline_root", root)):
        if value is None:
            flag = f"--{name.replace('_', '-')}"
            raise ConfigError(
                f"{name}: expected one ({flag}), since {pipeline!r} is a TFX pipeline, got none",
                setting=name,
            )
    return str(image), str(root)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError.of(
            "name", name, allowed="lower-case letters, digits and hyphens, 128 at the most"
        )


def _find_function(pipeline: str) -> tuple[str, str]:
    """File and function that `PATH.py:FUNCTION` names."""
    path, _, function = str(pipeline).rpartition(":")
    if not path.endswith(".py") or not function.isidentifier():
        raise ConfigError(
            f"pipeline: expected {', '.join(READY)} or PATH.py:FUNCTION, "
            f"got {misspelt(pipeline, READY)}"
        )
    if not os.path.isfile(path):
        raise ConfigError(f"pipeline {pipeline!r}: expected a file, found none at {path!r}")
    with open(path, encoding="utf-8", errors="replace") as stream:
        if re.search(rf"\b{function}\b|import \*", stream.read()) is None:  # before it imports TFX
            raise _no_function(pipeline, "none")
    return path, function


def _no_function(pipeline: str, found: str) -> ConfigError:
    path, _, function = pipeline.rpartition(":")
    return ConfigError(
        f"pipeline {pipeline!r}: expected a function {function!r} in {path!r}, found {found}"
    )


def _load(pipeline: str) -> Any:
    """The function that `PATH.py:FUNCTION` names."""
    path, function = _find_function(pipeline)
    module_name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(module_name)
    sys.modules[module_name] = module  # dataclasses and pickle look there
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))  # as `python PATH.py` has it
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(
            f"pipeline {pipeline!r}: {path!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    finally:
        sys.path.pop(0)
        if before is None:
            del sys.modules[module_name]
        else:
            sys.modules[module_name] = before
    found = getattr(module, function, None)
    if not callable(found):
        raise _no_function(pipeline, "none" if found is None else type(found).__name__)
    return found


def _call(function: Callable[..., Any], pipeline: str, pipeline_root: str | None) -> Any:
    """The pipeline: of a component or pipeline of kfp itself, else what the function returns."""
    made = function
    if not hasattr(function, "pipeline_spec"):
        parameters = inspect.signature(function).parameters
        arguments = {"pipeline_root": pipeline_root} if "pipeline_root" in parameters else {}
        needed = [
            parameter.name
            for parameter in parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            and parameter.name not in arguments
        ]
        if needed:
            raise ConfigError(
                f"pipeline {pipeline!r}: expected a function that needs no argument but "
                f"pipeline_root, got one that needs {', '.join(needed)}"
            )
        made = function(**arguments)
    is_tfx = all(hasattr(made, part) for part in ("pipeline_info", "components"))
    if not is_tfx and not hasattr(made, "pipeline_spec"):
        raise ConfigError(
            f"pipeline {pipeline!r}: expected a TFX pipeline or one of kfp.dsl, "
            f"got {type(made).__name__}"
        )
    return made


def _compile_tfx(
    made: Any, name: str | None, *, image: str, pipeline_root: str, wheels: str
) -> JsonObject:
    """TFX's package; `wheels`: the folder beside it for the code of `module_file`."""
    from tfx.orchestration.kubeflow.v2 import kubeflow_v2_dag_runner as runner

    if name is not None:
        made.pipeline_info.pipeline_name = name
    _check_name(made.pipeline_info.pipeline_name)
    made.pipeline_info.pipeline_root = pipeline_root
    _check_modules(made, pipeline_root)
    _pack_modules(made, pipeline_root, wheels)
    config = runner.KubeflowV2DagRunnerConfig(default_image=image, use_pipeline_spec_2_1=True)
    try:
        compiled = runner.KubeflowV2DagRunner(config).run(made, write_out=False)
    except Exception as error:  # of many kinds: TFX checks little before it compiles
        raise ConfigError(
            f"pipeline {made.pipeline_info.pipeline_name!r}: TFX cannot compile it for Kubeflow: "
            f"{type(error).__name__}: {error}"
        ) from error
    spec: JsonObject = compiled["pipelineSpec"]
    return spec


def _check_modules(made: Any, pipeline_root: str) -> None:
    """Refuses files of code that TFX would pack and put where it cannot write."""
    for component in made.components:
        for name in ("module_file", "module_path"):
            file = component.exec_properties.get(name)
            if file and not pipeline_root.startswith("gs://"):
                raise ConfigError(
                    f"{component.id}, {name}: expected a function that the image has, such as "
                    f"run_fn='my_package.trainer.run_fn', since TFX cannot put a file's code into "
                    f"{pipeline_root!r}, got {file!r}"
                )


def _pack_modules(made: Any, pipeline_root: str, wheels: str) -> None:
    """Packs files of code here, where TFX would put them into the bucket while it compiles."""
    target = f"{pipeline_root.rstrip('/')}/{_WHEELS}"
    with tempfile.TemporaryDirectory() as folder:
        for component in made.components:
            if not hasattr(component, "_resolve_pip_dependencies"):  # such as a Resolver
                continue
            component._resolve_pip_dependencies(folder)
            packed = f"{folder}/{_WHEELS}"
            for name, value in component.exec_properties.items():
                if isinstance(value, str) and f"@{packed}/" in value:
                    component.spec.exec_properties[name] = value.replace(packed, target)
        if os.path.isdir(packed := f"{folder}/{_WHEELS}"):
            shutil.copytree(packed, wheels, dirs_exist_ok=True)
            logging.warning("copy the files in %s to %s before a run", wheels, target)


def _compile_native(made: Any, name: str | None, pipeline_root: str | None) -> list[JsonObject]:
    from kfp import compiler

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "pipeline.yaml")
        compiler.Compiler().compile(made, path, pipeline_name=name)
        with open(path, encoding="utf-8") as stream:
            spec, *platform = yaml.safe_load_all(stream)
    if pipeline_root is not None:
        spec["defaultPipelineRoot"] = pipeline_root
    return [spec, *platform]
