"""The TFX pipelines of `convert` and of `balance`.

run_pipeline(conversion, "/data/out", "tfx-shards-convert", "/data/out/metadata.sqlite")
run_balancer("/data/examples", {"num_shards": 8}, "/data/out", "balance", "/data/metadata.sqlite")
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

# `tfx.v1` would bring Vertex AI's client: three seconds.
from tfx.dsl.components.base.base_component import BaseComponent
from tfx.dsl.components.common.importer import Importer
from tfx.orchestration.metadata import sqlite_metadata_connection_config
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import example_gen_pb2
from tfx.types import standard_artifacts

from components import SchemaExport, ShardBalancer
from pipelines.tools.conversion.local_runs import run_here
from pipelines.tools.conversion.settings import Conversion

__all__ = ["make_example_gen", "run_balancer", "run_pipeline"]


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
) -> tuple[dict[str, str], bool]:
    """The uri that each component gave, by the component's name; and whether all were cached."""
    examples = make_example_gen(conversion)
    balanced = ShardBalancer(examples=examples.outputs["examples"], **conversion.balancer)
    exported = SchemaExport(examples=balanced.outputs["balanced_examples"])
    components = [examples, balanced, exported]
    beam = conversion.beam_pipeline_args
    made, cached = _run(
        components, root, name, metadata, use_cache=use_cache, beam_pipeline_args=beam
    )
    return made, len(cached) == len(components)


def run_balancer(
    examples: str,
    settings: Mapping[str, Any],
    root: str,
    name: str,
    metadata: str,
    beam_pipeline_args: Sequence[str] = (),
) -> str:
    """The uri of the dataset that was made.

    Args:
        examples: the uri of the dataset that is read.
        settings: of ShardBalancer.
        root: the folder for the artifacts.
        name: of the pipeline.
        metadata: the path of the sqlite file.
        beam_pipeline_args: as Beam takes them.
    """
    # Imported anew: what lies at a uri may have changed.
    given = Importer(
        source_uri=examples, artifact_type=standard_artifacts.Examples, reimport=True
    ).with_id("Imported")
    balanced = ShardBalancer(examples=given.outputs["result"], **settings)
    components, beam = [given, balanced], beam_pipeline_args
    made, _ = _run(components, root, name, metadata, use_cache=False, beam_pipeline_args=beam)
    return made["ShardBalancer"]


def _run(
    components: Sequence[BaseComponent],
    root: str,
    name: str,
    metadata: str,
    *,
    use_cache: bool,
    beam_pipeline_args: Sequence[str],
) -> tuple[dict[str, str], list[str]]:
    # Without Beam arguments our components run in process, and TFX does not pack itself up for
    # workers elsewhere, which took longer than converting 10,000 photos.
    pipeline = Pipeline(
        pipeline_name=name,
        pipeline_root=os.path.join(root, "artifacts"),
        components=list(components),
        enable_cache=use_cache,
        beam_pipeline_args=list(beam_pipeline_args),
        metadata_connection_config=sqlite_metadata_connection_config(metadata),
    )
    return run_here(pipeline, metadata)
