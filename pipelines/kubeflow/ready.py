"""The ready pipelines as Kubeflow runs them: what changes between runs is a runtime parameter.

pipeline = create_kubeflow_pipeline("image", name=None, pipeline_root="minio://mlpipeline/runs")
"""

from collections.abc import Callable
from typing import Any

from tfx import v1 as tfx
from tfx.orchestration.data_types import RuntimeParameter

from components import ImageExampleGen, TextExampleGen
from components.common.settings import ComponentSettings
from components.example_gen.settings import ExampleGenSettings
from components.shard_balancer.settings import BalancerSettings
from pipelines.examples import image_trainer, text_trainer
from pipelines.examples.training_pipeline import BEAM_ARGUMENTS, training_components

__all__ = ["create_kubeflow_pipeline"]

_KINDS: dict[str, tuple[Any, Callable[[Any], None], int]] = {
    "image": (ImageExampleGen, image_trainer.run_fn, 32),
    "text": (TextExampleGen, text_trainer.run_fn, 64),
}
_DESCRIPTIONS = {
    "input_base": "The folder, list or table that examples are made of: a path or a bucket.",
    "num_shards": 'Of each split: a number, or JSON such as {"train": 8}. Empty: by their size.',
    "batch_size": "Of the training, in records of all replicas together.",
    "train_steps": "Of the training; 0: as many as the trainer's own number of epochs takes.",
}


def create_kubeflow_pipeline(kind: str, *, name: str | None, pipeline_root: str) -> Any:
    """ExampleGen, StatisticsGen, SchemaGen, ShardBalancer, SchemaExport and Trainer.

    There is no Pusher: the trained model is an artifact in the pipeline's store, from which a
    server takes it, and a pod's own disk is nothing to push to.

    Runtime parameters: `input_base`, `max_reject_fraction`, `num_shards`, `target_shard_bytes`,
    `batch_size` and `train_steps`.

    Args:
        kind: one of `READY`.
        name: the pipeline's.
        pipeline_root: where Kubeflow keeps the artifacts.
    """
    example_gen, run_fn, batch_size = _KINDS[kind]
    components = training_components(
        example_gen(
            input_base=_parameter("input_base", str),
            max_reject_fraction=_setting(ExampleGenSettings, "max_reject_fraction"),
        ),
        run_fn=run_fn,
        balancing={
            "num_shards": _parameter("num_shards", str, ""),
            "target_shard_bytes": _setting(BalancerSettings, "target_shard_bytes"),
        },
        batch_size=_parameter("batch_size", int, batch_size),
        train_steps=_parameter("train_steps", int, 0),
    )
    return tfx.dsl.Pipeline(
        pipeline_name=name or f"tfx-shards-{kind}s",
        pipeline_root=pipeline_root,
        components=components,
        enable_cache=True,
        beam_pipeline_args=list(BEAM_ARGUMENTS),
    )


def _parameter(name: str, kind: type, default: Any = None) -> RuntimeParameter:
    return RuntimeParameter(name=name, ptype=kind, default=default, description=_DESCRIPTIONS[name])


def _setting(settings: type[ComponentSettings], name: str) -> RuntimeParameter:
    """A setting as a parameter of the run, with its own kind, default and sentence."""
    one = settings.described()[name]
    return RuntimeParameter(
        name=name, ptype=one.kinds[0], default=one.default, description=one.sentence
    )
