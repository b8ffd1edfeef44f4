"""From raw images to a balanced dataset in one call, through TFX, with its lineage kept.

uri = convert("photos/", "datasets/photos")
uri = convert(frame, "datasets/photos", columns={"age": "float"})     # a pandas DataFrame
"""

import io
import os
from pathlib import Path
from typing import Any

from tfx import v1 as tfx

from components import ImageExampleGen, SchemaExport, ShardBalancer
from components.common.beam import IN_PROCESS_RUNNER
from pipelines.runs import latest_artifacts
from pipelines.training_pipeline import METADATA_FILE, run_locally
from trainer_utils.format import ConfigError

__all__ = ["convert"]

_BALANCER_OPTIONS = (
    "num_shards",
    "target_shard_bytes",
    "shard_multiple",
    "balance",
    "stratify_by",
    "shuffle",
    "memory_bytes",
)
_SHARED_OPTIONS = ("seed", "compression")
_FRAME_FILE = "source/frame.parquet"


def convert(source: Any, out: str, **options: Any) -> str:
    """Runs ImageExampleGen, ShardBalancer and SchemaExport; what did not change is not run again.

    Args:
        source: a folder or a list of images, as ImageExampleGen takes; or a pandas DataFrame in
            the form of such a list, its paths relative to the working directory or whole.
        out: a folder for the artifacts and `metadata.sqlite`.
        options: of ImageExampleGen (`layout`, `vocabulary`, `output_config`, …) and of
            ShardBalancer (`num_shards`, `target_shard_bytes`, `shard_multiple`, `balance`,
            `stratify_by`, `shuffle`, `memory_bytes`); `seed` and `compression` are for both.

    Returns:
        The uri of the balanced dataset.

    Raises:
        InputError: the input is missing, malformed, or too much of it was rejected.
        ConfigError: a setting is not allowed.
    """
    if hasattr(source, "to_parquet"):
        options.setdefault("image_roots", [os.getcwd()])
        source = _write_frame(source, Path(out, _FRAME_FILE))
    if not isinstance(source, (str, os.PathLike)):
        raise ConfigError(f"source: expected a path or a DataFrame, got {type(source).__name__}")
    balancing = {name: options.pop(name) for name in _BALANCER_OPTIONS if name in options}
    balancing |= {name: options[name] for name in _SHARED_OPTIONS if name in options}
    images = ImageExampleGen(input_base=os.fspath(source), **options)
    balanced = ShardBalancer(examples=images.outputs["examples"], **balancing)
    exported = SchemaExport(examples=balanced.outputs["balanced_examples"])
    metadata = os.path.join(out, METADATA_FILE)
    os.makedirs(out, exist_ok=True)
    run_locally(
        tfx.dsl.Pipeline(
            pipeline_name="tfx-shards-convert",
            pipeline_root=os.path.join(out, "artifacts"),
            components=[images, balanced, exported],
            enable_cache=True,
            metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
                metadata
            ),
            beam_pipeline_args=[f"--runner={IN_PROCESS_RUNNER}"],
        )
    )
    return latest_artifacts(metadata)[0]["ShardBalancer"]


def _write_frame(frame: Any, path: Path) -> str:
    """Keeps a frame as Parquet; an equal one is left alone, so that the cache holds."""
    stream = io.BytesIO()
    frame.to_parquet(stream, index=False)
    if not path.is_file() or path.read_bytes() != stream.getvalue():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(stream.getvalue())
    return str(path)
