"""Which image our `kfp.dsl` components run.

with using_image("registry.example/tfx-shards:1"):
    compiler.Compiler().compile(pipeline, "pipeline.yaml")

It works around `dsl.pipeline`, which calls the pipeline's function at once, and around `compile`.
"""

import contextlib
import contextvars
import copy
import functools
import os
from collections.abc import Iterator
from importlib import metadata
from typing import Any

__all__ = ["COMMAND", "IMAGE_VARIABLE", "default_image", "using_image"]

COMMAND = ("python", "-m", "components.kubeflow.run")  # of each of our containers
IMAGE_VARIABLE = "TFX_SHARDS_IMAGE"

_chosen: contextvars.ContextVar[str | None] = contextvars.ContextVar("image", default=None)


def default_image() -> str:
    """The image of `using_image`, else of the environment, else what `make image` builds."""
    return _chosen.get() or os.environ.get(IMAGE_VARIABLE) or f"tfx-shards:{_version()}"


@contextlib.contextmanager
def using_image(image: str) -> Iterator[None]:
    """Lets components that are used, or compiled, within it run in `image`.

    Args:
        image: of our components; those of others keep theirs.
    """
    _let_compiler_follow()
    token = _chosen.set(image)
    try:
        yield
    finally:
        _chosen.reset(token)


def _let_compiler_follow() -> None:
    """Makes kfp's compiler put the chosen image into what was made before it was chosen."""
    from kfp import compiler

    compile_pipeline: Any = compiler.Compiler.compile
    if hasattr(compile_pipeline, "follows_image"):
        return

    @functools.wraps(compile_pipeline)
    def compile_in_image(self: Any, pipeline_func: Any, *arguments: Any, **given: Any) -> Any:
        image = _chosen.get()
        if image is not None and hasattr(pipeline_func, "component_spec"):
            pipeline_func = _in_image(pipeline_func, image)
        return compile_pipeline(self, pipeline_func, *arguments, **given)

    compile_in_image.follows_image = True  # type: ignore[attr-defined]
    compiler.Compiler.compile = compile_in_image


def _in_image(made: Any, image: str) -> Any:
    """A copy of a pipeline or component of kfp, whose containers of ours run in `image`."""
    made = copy.copy(made)
    made.component_spec = copy.deepcopy(made.component_spec)
    implementation = made.component_spec.implementation
    if implementation.graph is not None:
        executors = implementation.graph.deployment_spec["executors"]
        containers = [executor["container"] for executor in executors.values()]
        ours = [c for c in containers if "command" in c and tuple(c["command"]) == COMMAND]
        for container in ours:
            container["image"] = image
    elif implementation.container and tuple(implementation.container.command or ()) == COMMAND:
        implementation.container.image = image
    return made


def _version() -> str:
    try:
        return metadata.version("tfx-shards")
    except metadata.PackageNotFoundError:  # run from its folder
        return "latest"
