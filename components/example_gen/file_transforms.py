"""Beam's part of media: one element is a shard, or all of them for processes of this machine.

pipeline | WriteMediaShards(plan, base="photos/", uri=uri, settings=settings)
"""

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection

from components.common.side_by_side import Cost, SideBySide
from components.common.summaries import working_folder
from components.example_gen.file_plan import FilePlan
from components.example_gen.file_shards import WriteMediaShard
from components.example_gen.file_tasks import write_task
from components.example_gen.media_settings import MediaSettings

__all__ = ["WriteMediaShards"]

# What one core takes for a file that is kept, and for a byte of one that is decoded.
_FILE_SECONDS, _DECODED_BYTE_SECONDS = 250e-6, 1 / 25e6
# A process holds the largest image that settings allow, and as much again while it is turned or
# resized; without images sounds and what is read ahead; and TensorFlow, where `verify` asks it.
_PIXEL_BYTES, _LEAST_BYTES, _TENSORFLOW_BYTES = 6, 256 << 20, 512 << 20


class WriteMediaShards(beam.PTransform[PBegin, PCollection[None]]):
    """Writes every shard of a plan, with a summary beside each.

    Tasks go to workers as files, by name: a plan of a million inputs is too large for the graphs
    that runners take.

    Args:
        plan: the shards and what is in them.
        base: the folder that paths are relative to.
        uri: of the dataset.
        settings: of the component.
    """

    def __init__(self, plan: FilePlan, *, base: str, uri: str, settings: MediaSettings) -> None:
        super().__init__()
        self._names: list[str] = []
        self._write = WriteMediaShard(plan.for_workers(), base, uri, settings)
        self._cost = _cost_of(plan, settings)
        for task in plan.tasks:
            write_task(working_folder(uri), task)
            self._names.append(task.name)

    def expand(self, begin: PBegin) -> PCollection[None]:
        """The shards and their summaries are side effects; the output holds nothing."""
        done: PCollection[None] = begin | "WriteShards" >> SideBySide(
            self._write,
            self._names,
            cost=self._cost,
            paths=(self._write.base, self._write.uri, *self._write.settings.image_roots),
        )
        return done


def _cost_of(plan: FilePlan, settings: MediaSettings) -> Cost:
    sizes = [(files, num_bytes) for _, files, num_bytes in plan.sizes()]
    seconds = _FILE_SECONDS * sum(files for files, _ in sizes)
    if settings.images.decodes_all or settings.audio.sample_rate is not None:
        seconds += _DECODED_BYTE_SECONDS * sum(num_bytes for _, num_bytes in sizes)
    held = max(_LEAST_BYTES, _PIXEL_BYTES * settings.images.max_pixels)
    return Cost(seconds, held + _TENSORFLOW_BYTES * (settings.images.verify == "decode"))
