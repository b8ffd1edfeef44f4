"""Beam's part of media: a call is a shard.

write_media_shards(make_pipeline, plan, base="photos/", uri=uri, settings=settings)
"""

from collections.abc import Iterator

from components.common.side_by_side import Cost, call_side_by_side
from components.common.summaries import working_folder
from components.example_gen.conversion import MakePipeline
from components.example_gen.file_plan import FilePlan
from components.example_gen.file_shards import WriteMediaShard
from components.example_gen.file_tasks import write_task
from components.example_gen.settings import MediaSettings

__all__ = ["write_media_shards"]

# What one core takes for a file that is kept, and for a byte of one that is decoded.
_FILE_SECONDS, _DECODED_BYTE_SECONDS = 300e-6, 1 / 25e6
# A process holds the largest image that settings allow, and as much again while it is turned or
# resized; without images sounds and what is read ahead; and TensorFlow, where `verify` asks it.
_PIXEL_BYTES, _LEAST_BYTES, _TENSORFLOW_BYTES = 6, 256 << 20, 512 << 20


def write_media_shards(
    make_pipeline: MakePipeline,
    plan: FilePlan,
    *,
    base: str,
    uri: str,
    settings: MediaSettings,
) -> None:
    """Writes every shard of a plan, with a summary beside each.

    Tasks go to workers as files, by name: a plan of a million inputs is too large for the graphs
    that runners take.

    Args:
        make_pipeline: of the runner that was asked for.
        plan: the shards and what is in them.
        base: the folder that paths are relative to.
        uri: of the dataset.
        settings: of the component.
    """
    call_side_by_side(
        make_pipeline,
        WriteMediaShard(plan.columns, plan.blobs, base, uri, settings),
        _write_tasks(plan, working_folder(uri)),
        cost=_cost_of(plan, settings),
        paths=(base, uri, *settings.image_roots),
    )


def _write_tasks(plan: FilePlan, folder: str) -> Iterator[str]:
    for task in plan.tasks:
        write_task(folder, task)
        yield task.name


def _cost_of(plan: FilePlan, settings: MediaSettings) -> Cost:
    sizes = [(files, num_bytes) for _, files, num_bytes in plan.sizes()]
    seconds = _FILE_SECONDS * sum(files for files, _ in sizes)
    if settings.images.decodes_all or settings.audio.sample_rate is not None:
        seconds += _DECODED_BYTE_SECONDS * sum(num_bytes for _, num_bytes in sizes)
    held = max(_LEAST_BYTES, _PIXEL_BYTES * settings.images.max_pixels)
    return Cost(
        len(sizes), seconds, held + _TENSORFLOW_BYTES * (settings.images.verify == "decode")
    )
