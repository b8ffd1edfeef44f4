"""TFX pipelines from photos or texts to a trained and pushed model.

pipeline = create_image_pipeline(photos="photos/", root="runs/")
run_locally(pipeline)
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfx import v1 as tfx
from tfx.dsl.components.base.base_component import BaseComponent
from tfx.orchestration.data_types import RuntimeParameter

from components import ImageExampleGen, SchemaExport, ShardBalancer, TextExampleGen
from components.runtime.beam import IN_PROCESS_RUNNER
from pipelines.examples import image_trainer, text_trainer
from pipelines.tools.conversion import METADATA_FILE

BEAM_ARGUMENTS = (f"--runner={IN_PROCESS_RUNNER}",)
_ON_KUBEFLOW: dict[str, tuple[type, Any, str]] = {  # the runtime parameters
    "input_base": (str, None, "The folder, list or table of the inputs: a path or a bucket."),
    "max_reject_fraction": (float, 0.01, "The run fails if a larger share is rejected."),
    "num_shards": (str, "", 'A number, or JSON such as {"train": 8}. Empty: by their size.'),
    "target_shard_bytes": (int, 128 << 20, "Target size of a shard in bytes."),
    "custom_config": (str, "{}", 'Of the trainer, such as {"batch_size": 64} of all replicas.'),
    "train_args": (
        *(str, '{"splits": ["train"]}'),
        "Of TFX's Trainer; without num_steps: its own epochs.",
    ),
}


def training_components(
    example_gen: BaseComponent,
    *,
    run_fn: Callable[[Any], None],
    balancing: Mapping[str, Any],
    training: dict[str, Any] | RuntimeParameter | None = None,
    train_args: RuntimeParameter | None = None,
) -> list[BaseComponent]:
    """Return the ExampleGen, StatisticsGen, SchemaGen, ShardBalancer, SchemaExport and Trainer.

    Args:
        example_gen: the ExampleGen.
        run_fn: the function that the Trainer calls.
        balancing: settings of ShardBalancer.
        training: the `custom_config` of the Trainer.
        train_args: the `train_args` of the Trainer; None: the epochs of `run_fn` apply.
    """
    examples = example_gen.outputs["examples"]
    statistics = tfx.components.StatisticsGen(examples=examples)
    schema = tfx.components.SchemaGen(statistics=statistics.outputs["statistics"])
    balanced = ShardBalancer(examples=examples, **balancing)
    exported = SchemaExport(
        examples=balanced.outputs["balanced_examples"], schema=schema.outputs["schema"]
    )
    trainer = tfx.components.Trainer(
        run_fn=f"{run_fn.__module__}.{run_fn.__name__}",
        examples=balanced.outputs["balanced_examples"],
        schema=exported.outputs["datum_schema"],
        train_args=train_args or tfx.proto.TrainArgs(splits=["train"]),
        eval_args=tfx.proto.EvalArgs(splits=["eval"]),
        custom_config=training,
    )
    return [example_gen, statistics, schema, balanced, exported, trainer]


def create_image_pipeline(
    photos: str,
    root: str,
    *,
    max_reject_fraction: float = 0.01,
    name: str = "tfx-shards-images",
    num_shards: int | Mapping[str, int] | None = None,
    training: dict[str, Any] | None = None,
    beam_pipeline_args: Sequence[str] = BEAM_ARGUMENTS,
) -> tfx.dsl.Pipeline:
    """Return a pipeline for photos: ImageExampleGen, the `training_components` and a Pusher.

    Args:
        photos: the input base of ImageExampleGen.
        root: the folder for artifacts, the metadata store and the pushed model.
        max_reject_fraction: the setting of ImageExampleGen.
        name: the name of the pipeline.
        num_shards: the setting of ShardBalancer.
        training: the `custom_config` of the Trainer.
        beam_pipeline_args: arguments for every Beam component.
    """
    components = training_components(
        ImageExampleGen(input_base=photos, max_reject_fraction=max_reject_fraction),
        run_fn=image_trainer.run_fn,
        balancing={"num_shards": num_shards},
        training=training,
    )
    folder = tfx.proto.PushDestination.Filesystem(base_directory=os.path.join(root, "serving"))
    pusher = tfx.components.Pusher(
        model=components[-1].outputs["model"],
        push_destination=tfx.proto.PushDestination(filesystem=folder),
    )
    metadata = tfx.orchestration.metadata.sqlite_metadata_connection_config(
        os.path.join(root, METADATA_FILE)
    )
    return tfx.dsl.Pipeline(
        pipeline_name=name,
        pipeline_root=os.path.join(root, "artifacts"),
        components=[*components, pusher],
        enable_cache=True,
        metadata_connection_config=metadata,
        beam_pipeline_args=list(beam_pipeline_args),
    )


def create_kubeflow_pipeline(kind: str, *, name: str | None, pipeline_root: str) -> Any:
    """Return a pipeline for Kubeflow, with settings that change between runs as parameters.

    It has no Pusher: a server loads the trained model from the store of the pipeline, and the disk
    of a pod is no place to push to.

    Args:
        kind: `image` or `text`.
        name: the name of the pipeline; None: `tfx-shards-images` or `tfx-shards-texts`.
        pipeline_root: the folder for artifacts in a bucket.
    """
    is_image = kind == "image"
    given = {
        parameter: RuntimeParameter(name=parameter, ptype=ptype, default=default, description=what)
        for parameter, (ptype, default, what) in _ON_KUBEFLOW.items()
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


def run_locally(pipeline: tfx.dsl.Pipeline) -> None:
    """Run a pipeline on this machine, one component at a time."""
    tfx.orchestration.LocalDagRunner().run(pipeline)
