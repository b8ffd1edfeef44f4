"""The TFX pipeline of `balance`: a dataset that is brought in, and ShardBalancer.

run_balancer("/data/examples", {"num_shards": 8}, "/data/out", "balance", "/data/metadata.sqlite")
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tfx.dsl.components.common.importer import Importer
from tfx.orchestration.metadata import sqlite_metadata_connection_config
from tfx.orchestration.pipeline import Pipeline
from tfx.types import standard_artifacts

from components import ShardBalancer
from pipelines.tools.conversion.local_runs import run_here

__all__ = ["run_balancer"]


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
    pipeline = Pipeline(
        pipeline_name=name,
        pipeline_root=os.path.join(root, "artifacts"),
        components=[given, balanced],
        enable_cache=False,
        beam_pipeline_args=list(beam_pipeline_args),
        metadata_connection_config=sqlite_metadata_connection_config(metadata),
    )
    return run_here(pipeline, metadata)["ShardBalancer"]
