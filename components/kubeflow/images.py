"""Which image our `kfp.dsl` components run.

with using_image("registry.example/tfx-shards:1"):
    compiler.Compiler().compile(pipeline, "pipeline.yaml")

An image is looked up when a pipeline's function is called; `kfp.dsl.pipeline` calls it at once.
"""

import contextlib
import contextvars
import os
from collections.abc import Iterator
from importlib import metadata

__all__ = ["IMAGE_VARIABLE", "default_image", "using_image"]

IMAGE_VARIABLE = "TFX_SHARDS_IMAGE"

_chosen: contextvars.ContextVar[str | None] = contextvars.ContextVar("image", default=None)


def default_image() -> str:
    """The image of `using_image`, else of the environment, else what `make image` builds."""
    return _chosen.get() or os.environ.get(IMAGE_VARIABLE) or f"tfx-shards:{_version()}"


@contextlib.contextmanager
def using_image(image: str) -> Iterator[None]:
    """Lets components that are used within it run in `image`."""
    token = _chosen.set(image)
    try:
        yield
    finally:
        _chosen.reset(token)


def _version() -> str:
    try:
        return metadata.version("tfx-shards")
    except metadata.PackageNotFoundError:  # run from its folder
        return "latest"
