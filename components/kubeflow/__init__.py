"""Our components for Kubeflow Pipelines itself: `kfp.dsl` components over the same executors.

    from components.kubeflow import image_example_gen, shard_balancer

    @dsl.pipeline(name="photos")
    def photos(input_base: str):
        examples = image_example_gen(input_base=input_base).outputs["examples"]
        balanced = shard_balancer(examples=examples).outputs["balanced_examples"]

Writing and compiling such a pipeline needs kfp, and no TFX; the containers have both.
Their image is that of the environment's TFX_SHARDS_IMAGE, or of `tfx-shards compile --image`.
"""

import importlib
from typing import Any

__all__ = [
    "audio_example_gen",
    "dataset_audit",
    "dataset_report",
    "default_image",
    "image_example_gen",
    "input_fingerprint",
    "schema_export",
    "shard_balancer",
    "text_example_gen",
]


def __getattr__(name: str) -> Any:
    """Only when asked: where kfp runs a component, it has no decorators to make one."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("components.kubeflow.native"), name)


def __dir__() -> list[str]:
    return __all__
