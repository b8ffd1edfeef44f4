"""Our components for Kubeflow Pipelines itself: `kfp.dsl` components over the same executors.

    from components.kubeflow import image_example_gen, shard_balancer

    @dsl.pipeline(name="photos")
    def photos(input_base: str):
        examples = image_example_gen(input_base=input_base).outputs["examples"]
        balanced = shard_balancer(examples=examples).outputs["balanced_examples"]

Writing and compiling such a pipeline needs kfp, and no TFX; the containers have both.
`components.kubeflow.using_image` says which image they run.
"""

import importlib
from typing import Any

from components.kubeflow.images import default_image, using_image

# Type checkers and editors read `__init__.pyi`.
__all__ = [
    "audio_example_gen",
    "dataset_audit",
    "dataset_report",
    "default_image",
    "image_example_gen",
    "input_fingerprint",
    "latest_spans",
    "schema_export",
    "shard_balancer",
    "text_example_gen",
    "train_input_check",
    "train_job",
    "using_image",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("components.kubeflow.native"), name)


def __dir__() -> list[str]:
    return __all__
