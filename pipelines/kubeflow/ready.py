"""The ready pipelines as Kubeflow runs them: what changes between runs is a runtime parameter.

pipeline = create_kubeflow_pipeline("image", name=None, pipeline_root="minio://mlpipeline/runs")
"""

from typing import Any

from tfx import v1 as tfx
from tfx.orchestration.data_types import RuntimeParameter

from components import ImageExampleGen, TextExampleGen
from pipelines.examples import image_trainer, text_trainer
from pipelines.examples.training_pipeline import BEAM_ARGUMENTS, training_components

_TRAIN_ARGS = '{"splits": ["train"]}'
_PARAMETERS: dict[str, tuple[type, Any, str]] = {
    "input_base": (str, None, "The folder, list or table of the inputs: a path or a bucket."),
    "max_reject_fraction": (float, 0.01, "The run fails if a larger share is rejected."),
    "num_shards": (str, "", 'A number, or JSON such as {"train": 8}. Empty: by their size.'),
    "target_shard_bytes": (int, 128 << 20, "Target size of a shard in bytes."),
    "custom_config": (str, "{}", 'Of the trainer, such as {"batch_size": 64} of all replicas.'),
    "train_args": (str, _TRAIN_ARGS, "Of TFX's Trainer; without num_steps: its own epochs."),
}


def create_kubeflow_pipeline(kind: str, *, name: str | None, pipeline_root: str) -> Any:
    """ExampleGen, StatisticsGen, SchemaGen, ShardBalancer, SchemaExport and Trainer, of a `kind`.

    There is no Pusher: the trained model is an artifact in the pipeline's store, from which a
    server takes it, and a pod's own disk is nothing to push to.
    """
    is_image = kind == "image"
    given = {
        parameter: RuntimeParameter(name=parameter, ptype=ptype, default=default, description=what)
        for parameter, (ptype, default, what) in _PARAMETERS.items()
    }
    components = training_components(
        (ImageExampleGen if is_image else TextExampleGen)(
            input_base=given["input_base"], max_reject_fraction=given["max_reject_fraction"]
        ),
        run_fn=(image_trainer if is_image else text_trainer).run_fn,
        balancing={option: given[option] for option in ("num_shards", "target_shard_bytes")},
        training=given["custom_config"],
        train_args=given["train_args"],
    )
    return tfx.dsl.Pipeline(
        pipeline_name=name or f"tfx-shards-{kind}s",
        pipeline_root=pipeline_root,
        components=components,
        enable_cache=True,
        beam_pipeline_args=list(BEAM_ARGUMENTS),
    )
