"""The components for Kubeflow Pipelines itself: `kfp.dsl` components with the same executors.

    from components.kubeflow import image_example_gen, shard_balancer

    @dsl.pipeline(name="photos")
    def photos(input_base: str):
        examples = image_example_gen(input_base=input_base).outputs["examples"]
        balanced = shard_balancer(examples=examples).outputs["balanced_examples"]

Writing and compiling such a pipeline needs kfp but not TFX; the containers have both. Their image
is set by the environment variable TFX_SHARDS_IMAGE, or by `tfx-shards compile --image`.
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
    """Import lazily: where kfp runs a component, its decorators are not available."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("components.kubeflow.native"), name)


def __dir__() -> list[str]:
    return __all__
