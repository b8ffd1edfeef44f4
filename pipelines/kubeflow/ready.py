"""The ready pipelines as Kubeflow runs them: what changes between runs is a runtime parameter.

pipeline = create_kubeflow_pipeline("image", name=None, pipeline_root="minio://mlpipeline/runs")
"""

from typing import Any

from tfx import v1 as tfx
from tfx.orchestration.data_types import RuntimeParameter

from components import ImageExampleGen, TextExampleGen
from pipelines.examples import image_trainer, text_trainer
from pipelines.examples.training_pipeline import BEAM_ARGUMENTS, training_components

__all__ = ["create_kubeflow_pipeline"]

_PARAMETERS: dict[str, tuple[type, Any, str]] = {
    "input_base": (str, None, "The folder, list or table of the inputs: a path or a bucket."),
    "max_reject_fraction": (float, 0.01, "The run fails if a larger share is rejected."),
    "num_shards": (str, "", 'A number, or JSON such as {"train": 8}. Empty: by their size.'),
    "target_shard_bytes": (int, 128 << 20, "Target size of a shard in bytes."),
    "batch_size": (int, 0, "Of the training, in records of all replicas together."),
    "train_steps": (int, 0, "Of the training; 0: as many as the trainer's own epochs take."),
}


def create_kubeflow_pipeline(kind: str, *, name: str | None, pipeline_root: str) -> Any:
    """ExampleGen, StatisticsGen, SchemaGen, ShardBalancer, SchemaExport and Trainer.

    There is no Pusher: the trained model is an artifact in the pipeline's store, from which a
    server takes it, and a pod's own disk is nothing to push to.

    Args:
        kind: `image` or `text`.
        name: the pipeline's.
        pipeline_root: where Kubeflow keeps the artifacts.
    """
    is_image = kind == "image"
    given = {
        parameter: RuntimeParameter(name=parameter, ptype=ptype, default=default, description=what)
        for parameter, (ptype, default, what) in _PARAMETERS.items()
    }
    given["batch_size"].default = 32 if is_image else 64
    components = training_components(
        (ImageExampleGen if is_image else TextExampleGen)(
            input_base=given["input_base"], max_reject_fraction=given["max_reject_fraction"]
        ),
        run_fn=(image_trainer if is_image else text_trainer).run_fn,
        balancing={option: given[option] for option in ("num_shards", "target_shard_bytes")},
        batch_size=given["batch_size"],
        train_steps=given["train_steps"],
    )
    return tfx.dsl.Pipeline(
        pipeline_name=name or f"tfx-shards-{kind}s",
        pipeline_root=pipeline_root,
        components=components,
        enable_cache=True,
        beam_pipeline_args=list(BEAM_ARGUMENTS),
    )
