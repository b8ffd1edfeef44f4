"""From an ExampleGen to a trained and pushed model: what the ready pipelines have in common.

pipeline = create_training_pipeline(ImageExampleGen(input_base="photos/"), "runs/", …)
run_locally(pipeline)
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfx import v1 as tfx

from components import SchemaExport, ShardBalancer
from components.common.beam import IN_PROCESS_RUNNER
from pipelines.outputs import METADATA_FILE

__all__ = ["BEAM_ARGUMENTS", "METADATA_FILE", "create_training_pipeline", "run_locally"]

BEAM_ARGUMENTS = (f"--runner={IN_PROCESS_RUNNER}",)


def create_training_pipeline(
    example_gen: Any,
    root: str,
    *,
    name: str,
    run_fn: Callable[[Any], None],
    num_shards: int | Mapping[str, int] | None = None,
    training: Mapping[str, Any] | None = None,
    beam_pipeline_args: Sequence[str] = BEAM_ARGUMENTS,
) -> tfx.dsl.Pipeline:
    """The ExampleGen, StatisticsGen, SchemaGen, ShardBalancer, SchemaExport, Trainer, Pusher.

    Args:
        example_gen: the component that the examples come from.
        root: where artifacts, the metadata store and the pushed model go.
        name: the pipeline's.
        run_fn: the trainer's, of a module that can be imported.
        num_shards: as ShardBalancer has it.
        training: the trainer's `custom_config`.
        beam_pipeline_args: for every Beam component.
    """
    examples = example_gen.outputs["examples"]
    statistics = tfx.components.StatisticsGen(examples=examples)
    schema = tfx.components.SchemaGen(statistics=statistics.outputs["statistics"])
    balanced = ShardBalancer(examples=examples, num_shards=num_shards)
    exported = SchemaExport(
        examples=balanced.outputs["balanced_examples"], schema=schema.outputs["schema"]
    )
    trainer = tfx.components.Trainer(
        run_fn=f"{run_fn.__module__}.{run_fn.__name__}",
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
        components=[example_gen, statistics, schema, balanced, exported, trainer, pusher],
        enable_cache=True,
        metadata_connection_config=metadata,
        beam_pipeline_args=list(beam_pipeline_args),
    )


def run_locally(pipeline: tfx.dsl.Pipeline) -> None:
    """Runs a pipeline on this machine, component after component."""
    tfx.orchestration.LocalDagRunner().run(pipeline)
