"""The work on one shard, and the file in which it goes to a worker.

write_task(folder, ShardTask("train", 0, 8, entries))
read_task(folder, "train-00000")
"""

import dataclasses
import json
from typing import Any

from components.common.entry import Blob, Entry, Value
from trainer_utils.storage import join, read_text, write_text

__all__ = ["ShardTask", "read_task", "write_task"]


@dataclasses.dataclass(frozen=True)
class ShardTask:
    """One shard to write: its place, and its inputs, labels as ids."""

    split: str
    shard_index: int
    num_shards: int
    entries: tuple[Entry, ...]

    @property
    def name(self) -> str:
        """What it is known by among all tasks."""
        return f"{self.split}-{self.shard_index:05d}"


def write_task(folder: str, task: ShardTask) -> None:
    """Keeps a task as a file of JSON, in which a name that is not UTF-8 is escaped."""
    path = join(folder, f"tasks/{task.name}.json")
    write_text(
        path,
        json.dumps((task.split, task.shard_index, task.num_shards, task.entries)),
        temporary_folder=folder,
    )


def read_task(folder: str, name: str) -> ShardTask:
    """The task that `write_task` kept."""
    text = read_text(join(folder, f"tasks/{name}.json"))
    split, shard_index, num_shards, entries = json.loads(text)
    return ShardTask(
        split,
        shard_index,
        num_shards,
        tuple(
            Entry(name, own_split, tuple(Blob(*blob) for blob in blobs), tuple(map(_tuple, values)))
            for name, own_split, blobs, values in entries
        ),
    )


def _tuple(value: Any) -> Value:
    return tuple(value) if isinstance(value, list) else value
