"""Which image our `kfp.dsl` components run.

with using_image("registry.example/tfx-shards:1"):
    compiler.Compiler().compile(pipeline, "pipeline.yaml")

It works around `dsl.pipeline`, which calls the pipeline's function at once, around a component or
pipeline that is called, as `kfp.local` has it, and around `compile`; anywhere else it is refused.
"""

import contextlib
import contextvars
import copy
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any

from trainer_utils.format import ConfigError

__all__ = [
    "COMMAND",
    "COMPONENT",
    "ENVIRONMENT_FLAG",
    "IMAGE_VARIABLE",
    "default_image",
    "using_image",
]

COMMAND = ("python", "-m", "components.kubeflow.run")  # of each of our containers
COMPONENT = "component"
"""The parameter of `input_fingerprint` that says which ExampleGen of TFX's the others are of."""

ENVIRONMENT_FLAG = "--environment"
"""Has a checksum of a container's variables, for the key of Kubeflow's cache alone."""

IMAGE_VARIABLE = "TFX_SHARDS_IMAGE"


@dataclasses.dataclass
class _Choice:
    """An image that is chosen, and whether anything was there for it."""

    image: str
    is_used: bool = False


_chosen: contextvars.ContextVar[_Choice | None] = contextvars.ContextVar("image", default=None)


def default_image() -> str:
    """The image of `using_image`, else of the environment, else what `make image` builds."""
    return _take() or os.environ.get(IMAGE_VARIABLE) or f"tfx-shards:{_version()}"


@contextlib.contextmanager
def using_image(image: str, *, is_needed: bool = True) -> Iterator[None]:
    """Lets components that are used, or compiled, within it run in `image`.

    Args:
        image: of our components; those of others keep theirs.
        is_needed: whether it is an error if nothing within it is a component of kfp.

    Raises:
        ConfigError: no component or pipeline was used or compiled within it, so that it is
            around the wrong lines.
    """
    _let_kfp_follow()
    choice = _Choice(image)
    token = _chosen.set(choice)
    try:
        yield
    finally:
        _chosen.reset(token)
    if is_needed and not choice.is_used:
        raise ConfigError(
            f"using_image({image!r}): expected a pipeline that is defined, called or compiled "
            "within it, found none. Put it around dsl.pipeline, or around compile.",
            setting="using_image",
            value=image,
        )


def _take() -> str | None:
    """The image that is chosen here."""
    choice = _chosen.get()
    if choice is None:
        return None
    choice.is_used = True
    return choice.image


def _let_kfp_follow() -> None:
    """Makes kfp put the chosen image into what was made before it was chosen."""
    from kfp import compiler
    from kfp.dsl.base_component import BaseComponent

    for owner, method, place in ((compiler.Compiler, "compile", 1), (BaseComponent, "__call__", 0)):
        function: Any = getattr(owner, method)
        if not hasattr(function, "follows_image"):
            setattr(owner, method, _following(function, place))


def _following(function: Callable[..., Any], place: int) -> Any:
    """The function, with the chosen image in the component that is its argument at `place`."""

    @functools.wraps(function)
    def follow(*arguments: Any, **given: Any) -> Any:
        image = _take()
        if image is not None:
            arguments = tuple(
                _in_image(one, image) if number == place and _is_made(one) else one
                for number, one in enumerate(arguments)
            )
            given = {
                name: _in_image(one, image) if name == "pipeline_func" and _is_made(one) else one
                for name, one in given.items()
            }
        return function(*arguments, **given)

    follow.follows_image = True  # type: ignore[attr-defined]
    return follow


def _is_made(one: Any) -> bool:
    return hasattr(one, "component_spec")


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
