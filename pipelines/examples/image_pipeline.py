"""From a folder of photos to a trained and pushed model, as a TFX pipeline.

pipeline = create_image_pipeline(photos="photos/", root="runs/")
run_locally(pipeline)
"""

from typing import Any

from tfx import v1 as tfx

from components import ImageExampleGen
from pipelines.examples import image_trainer
from pipelines.examples.training_pipeline import create_training_pipeline, run_locally

__all__ = ["create_image_pipeline", "run_locally"]


def create_image_pipeline(
    photos: str, root: str, *, max_reject_fraction: float = 0.01, **options: Any
) -> tfx.dsl.Pipeline:
    """ImageExampleGen, StatisticsGen, SchemaGen, ShardBalancer, SchemaExport, Trainer, Pusher.

    Args:
        photos: the input base of ImageExampleGen.
        root: where artifacts, the metadata store and the pushed model go.
        max_reject_fraction: as ImageExampleGen has it.
        options: of `create_training_pipeline`: name, num_shards, training, beam_pipeline_args.
    """
    example_gen = ImageExampleGen(input_base=photos, max_reject_fraction=max_reject_fraction)
    options = {"name": "tfx-shards-images", **options}
    return create_training_pipeline(example_gen, root, run_fn=image_trainer.run_fn, **options)
