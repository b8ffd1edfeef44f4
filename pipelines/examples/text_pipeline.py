"""From texts or a table to a trained and pushed model, as a TFX pipeline.

pipeline = create_text_pipeline(texts="texts/", root="runs/")
run_locally(pipeline)
"""

from typing import Any

from tfx import v1 as tfx

from components import TextExampleGen
from pipelines.examples import text_trainer
from pipelines.examples.training_pipeline import create_training_pipeline, run_locally

__all__ = ["create_text_pipeline", "run_locally"]


def create_text_pipeline(
    texts: str, root: str, *, max_reject_fraction: float = 0.01, **options: Any
) -> tfx.dsl.Pipeline:
    """TextExampleGen, StatisticsGen, SchemaGen, ShardBalancer, SchemaExport, Trainer, Pusher.

    Args:
        texts: the input base of TextExampleGen.
        root: where artifacts, the metadata store and the pushed model go.
        max_reject_fraction: as TextExampleGen has it.
        options: of `create_training_pipeline`: name, num_shards, training, beam_pipeline_args.
    """
    example_gen = TextExampleGen(input_base=texts, max_reject_fraction=max_reject_fraction)
    options = {"name": "tfx-shards-texts", **options}
    return create_training_pipeline(example_gen, root, run_fn=text_trainer.run_fn, **options)
