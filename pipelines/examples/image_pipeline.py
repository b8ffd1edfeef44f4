"""From a folder of photos to a trained and pushed model, as a TFX pipeline.

pipeline = create_image_pipeline(photos="photos/", root="runs/")
run_locally(pipeline)
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tfx import v1 as tfx

from components import ImageExampleGen
from pipelines.examples import image_trainer
from pipelines.examples.training_pipeline import (
    BEAM_ARGUMENTS,
    METADATA_FILE,
    create_training_pipeline,
    run_locally,
)

__all__ = ["METADATA_FILE", "create_image_pipeline", "run_locally"]


def create_image_pipeline(
    photos: str,
    root: str,
    *,
    name: str = "tfx-shards-images",
    max_reject_fraction: float = 0.01,
    num_shards: int | Mapping[str, int] | None = None,
    training: Mapping[str, Any] | None = None,
    beam_pipeline_args: Sequence[str] = BEAM_ARGUMENTS,
) -> tfx.dsl.Pipeline:
    """ImageExampleGen, StatisticsGen, SchemaGen, ShardBalancer, SchemaExport, Trainer, Pusher.

    Args:
        photos: the input base of ImageExampleGen.
        root: where artifacts, the metadata store and the pushed model go.
        name: the pipeline's.
        max_reject_fraction: as ImageExampleGen has it.
        num_shards: as ShardBalancer has it.
        training: the trainer's `custom_config`.
        beam_pipeline_args: for every Beam component.
    """
    return create_training_pipeline(
        ImageExampleGen(input_base=photos, max_reject_fraction=max_reject_fraction),
        root,
        name=name,
        run_fn=image_trainer.run_fn,
        num_shards=num_shards,
        training=training,
        beam_pipeline_args=beam_pipeline_args,
    )
