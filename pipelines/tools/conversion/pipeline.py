"""The TFX pipeline of a conversion.

run_pipeline(conversion, "/data/out", "tfx-shards-convert", "/data/out/metadata.sqlite")
"""

import os

# `tfx.v1` would bring Vertex AI's client: three seconds.
from tfx.dsl.components.base.base_component import BaseComponent
from tfx.orchestration.metadata import sqlite_metadata_connection_config
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import example_gen_pb2

from components import SchemaExport, ShardBalancer
from pipelines.tools.conversion.local_runs import run_here
from pipelines.tools.conversion.settings import Conversion

__all__ = ["make_example_gen", "run_pipeline"]


def make_example_gen(conversion: Conversion) -> BaseComponent:
    """The ExampleGen of a conversion, as a component."""
    options = dict(conversion.example_gen)
    if conversion.splits is not None:
        options["output_config"] = example_gen_pb2.Output()
        for name, share in conversion.splits.items():
            options["output_config"].split_config.splits.add(name=name, hash_buckets=share)
    made: BaseComponent = conversion.component(input_base=conversion.source, **options)
    return made


def run_pipeline(
    conversion: Conversion, root: str, name: str, metadata: str, *, use_cache: bool = True
) -> dict[str, str]:
    """The uri that each component gave, by the component's name."""
    examples = make_example_gen(conversion)
    balanced = ShardBalancer(examples=examples.outputs["examples"], **conversion.balancer)
    exported = SchemaExport(examples=balanced.outputs["balanced_examples"])
    # Without Beam arguments our components run in process, and TFX does not pack itself up for
    # workers elsewhere, which took longer than converting 10,000 photos.
    pipeline = Pipeline(
        pipeline_name=name,
        pipeline_root=os.path.join(root, "artifacts"),
        components=[examples, balanced, exported],
        enable_cache=use_cache,
        beam_pipeline_args=list(conversion.beam_pipeline_args),
        metadata_connection_config=sqlite_metadata_connection_config(metadata),
    )
    return run_here(pipeline, metadata)
