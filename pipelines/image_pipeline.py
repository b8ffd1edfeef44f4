"""From a folder of photos to a trained and pushed model, as a TFX pipeline.

pipeline = create_image_pipeline(photos="photos/", root="runs/")
run_locally(pipeline)
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tfx import v1 as tfx

from components import ImageExampleGen, SchemaExport, ShardBalancer
from components.common.beam import IN_PROCESS_RUNNER
from pipelines import image_trainer

__all__ = ["METADATA_FILE", "create_image_pipeline", "run_locally"]

METADATA_FILE = "metadata.sqlite"


def create_image_pipeline(
    photos: str,
    root: str,
    *,
    name: str = "tfx-shards-images",
    max_reject_fraction: float = 0.01,
    num_shards: int | Mapping[str, int] | None = None,
    training: Mapping[str, Any] | None = None,
    beam_pipeline_args: Sequence[str] = (f"--runner={IN_PROCESS_RUNNER}",),
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
    images = ImageExampleGen(input_base=photos, max_reject_fraction=max_reject_fraction)
    statistics = tfx.components.StatisticsGen(examples=images.outputs["examples"])
    schema = tfx.components.SchemaGen(statistics=statistics.outputs["statistics"])
    balanced = ShardBalancer(examples=images.outputs["examples"], num_shards=num_shards)
    exported = SchemaExport(
        examples=balanced.outputs["balanced_examples"], schema=schema.outputs["schema"]
    )
    trainer = tfx.components.Trainer(
        run_fn=f"{image_trainer.__name__}.{image_trainer.run_fn.__name__}",
        examples=balanced.outputs["balanced_examples"],
        schema=schema.outputs["schema"],  # the Trainer takes no folder with Datum's JSON in it
        train_args=tfx.proto.TrainArgs(splits=["train"]),
        eval_args=tfx.proto.EvalArgs(splits=["eval"]),
        custom_config=dict(training or {}),
    )
    pusher = tfx.components.Pusher(
        model=trainer.outputs["model"],
        push_destination=tfx.proto.PushDestination(
            filesystem=tfx.proto.PushDestination.Filesystem(
                base_directory=os.path.join(root, "serving")
            )
        ),
    )
    metadata = tfx.orchestration.metadata.sqlite_metadata_connection_config(
        os.path.join(root, METADATA_FILE)
    )
    return tfx.dsl.Pipeline(
        pipeline_name=name,
        pipeline_root=os.path.join(root, "artifacts"),
        components=[images, statistics, schema, balanced, exported, trainer, pusher],
        enable_cache=True,
        metadata_connection_config=metadata,
        beam_pipeline_args=list(beam_pipeline_args),
    )


def run_locally(pipeline: tfx.dsl.Pipeline) -> None:
    """Runs a pipeline on this machine, component after component."""
    tfx.orchestration.LocalDagRunner().run(pipeline)
