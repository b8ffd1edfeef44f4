"""The shards of a split while examples still come: which one takes each, and how they end.

    shards = OpenShards(folder, "train", num_shards=4, **others)
    shards.append(parts)
    shards.finish()              # [Shard(…), …], under their final names

With a number of shards the n-th example goes into shard n modulo that number; with a size each
shard is filled before the next one is begun. How many there are is known at the end, so until then
they have other names.
"""

import dataclasses
import os
from typing import BinaryIO

from trainer_utils.format import Shard, ShardName, ShardWriter
from trainer_utils.storage import join, make_folder, naming_file, rename
from trainer_utils.writing.publishing import working_folder
from trainer_utils.writing.shards import finish_shard, verify_shard


@dataclasses.dataclass
class _AppendedFile:
    """A file that is open only while something is written, so that there may be many shards."""

    path: str

    def write(self, block: bytes | memoryview) -> int:
        with naming_file(self.path), open(self.path, "ab") as stream:
            return stream.write(block)


class OpenShards:
    """Takes the examples of one split.

    Args:
        folder: of the dataset while it is written, on this machine.
        split: its name.
        num_shards: how many, or fewer where there are fewer examples; None: as many as
            `target_shard_bytes` makes.
        target_shard_bytes: a shard of this size is full.
        gzip: whether shards are compressed.
        buffer_bytes: what each shard may hold back.
    """

    def __init__(
        self,
        folder: str,
        split: str,
        *,
        num_shards: int | None,
        target_shard_bytes: int,
        gzip: bool,
        buffer_bytes: int,
    ) -> None:
        self._folder, self._split, self._gzip = folder, split, gzip
        self._num_shards, self._target = num_shards, target_shard_bytes
        self._buffer_bytes = buffer_bytes
        self._writers: list[ShardWriter] = []
        self._paths: list[str] = []
        self._filled = 0  # bytes of the shard that is being filled
        self.records = 0

    def _begin(self) -> None:
        path = join(working_folder(self._folder), f"{self._split}-{len(self._paths)}")
        make_folder(os.path.dirname(path))
        open(path, "wb").close()
        stream: BinaryIO = _AppendedFile(path)  # type: ignore[assignment]
        self._paths.append(path)
        self._writers.append(ShardWriter(stream, gzip=self._gzip, buffer_bytes=self._buffer_bytes))
        self._filled = 0

    def append(self, parts: list[bytes], *, name: bytes | None = None) -> None:
        """Appends an example, in parts; `name`: as `ShardWriter.write` takes it."""
        if self._num_shards is not None:
            place = self.records % self._num_shards
        else:
            has_room = bool(self._writers) and self._filled < self._target
            place = len(self._writers) - has_room
        if place == len(self._writers):
            self._begin()
        self._writers[place].write(parts, name=name)
        self._filled += sum(map(len, parts))
        self.records += 1

    def finish(self) -> list[Shard]:
        """Gives all shards their names and indices, and reads them back."""
        shards, count = [], len(self._writers)
        for place, (writer, path) in enumerate(zip(self._writers, self._paths, strict=True)):
            digest = writer.finish()
            name = ShardName(
                split=self._split, shard_index=place, num_shards=count, gzip=self._gzip
            )
            final = join(self._folder, name.path)
            make_folder(os.path.dirname(final))
            rename(path, final)
            shards.append(finish_shard(name, digest, writer, uri=self._folder))
            verify_shard(shards[-1], uri=self._folder)
        return shards
