"""Read compressed shards: unpack each once for all processes of a machine, within a limit.

unpacked = UnpackedFiles(folder, shards, read=[0, 1, 2], options=options)
unpacked.open(shards[0], is_mapped=True)         # a `LocalFile`

A compressed file has no offsets, so its records are reached in an unpacked copy. Copies are in the
cache folder and stay there. If all of them together would exceed the folder's limit, the shards
are read in their order and each copy is removed after use. A shuffle would unpack every shard many
times then, so it is refused.
"""

import errno
import io
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trainer_utils.core.errors import ConfigError
from trainer_utils.core.printable import printable
from trainer_utils.core.text_output import human_bytes, quantity
from trainer_utils.dataset.compression import compression_of, content_bytes, open_records
from trainer_utils.format.layouts import ShardFile
from trainer_utils.reading.local_files import LocalFile
from trainer_utils.storage import MachineError, is_remote
from trainer_utils.storage.cache_folder import (
    WHOLE_END_BYTES,
    CacheFolder,
    unpacked_name,
    version_to_copy,
)

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions

_PIECE_BYTES = 4 << 20
_SAMPLED = 16  # local shards whose unpacked sizes are looked up; each takes some system calls
_SAMPLED_REMOTE = 2  # each takes two requests
_USUAL_RATIO = 4.0  # for zlib, which does not store the unpacked size
_MAX_RATIO = 1032.0  # of deflate; the size that a damaged file gives may be anything
_PATIENCE_SECONDS, _PAUSE_SECONDS = 30.0, 0.2


class UnpackedFiles:
    """The unpacked copies of a dataset's compressed shards.

    Args:
        folder: the cache folder.
        shards: all shards.
        read: the indices of the shards that are read.
        options: the settings of the input.

    Attributes:
        total: the estimated size of all copies in bytes.
        max_open: the maximum number of copies to have open at a time, or None for no limit.

    Raises:
        ConfigError: the copies do not fit into the folder, and the records are shuffled.
    """

    def __init__(
        self,
        folder: CacheFolder,
        shards: Sequence[ShardFile],
        read: Sequence[int],
        options: "InputOptions",
    ) -> None:
        self._folder = folder
        self._packed = [shards[index] for index in read if shards[index].is_gzip]
        self._ratio = unpacked_ratio(self._packed)
        self.total = total = sum(map(self._estimate, self._packed))
        self.max_open: int | None = None
        if total <= folder.most_bytes:
            return
        largest = max(map(self._estimate, self._packed))
        self.max_open = max(1, int(folder.most_bytes / (2 * largest)))  # sizes are estimates
        if options.shuffle is not False or options.weights is not None:
            name = "weights" if options.shuffle is False else "shuffle"
            raise ConfigError.of(
                name,
                getattr(options, name),
                allowed="False for these gzip shards, since their records would be read from all "
                "of them in turn",
                advice=self._advice,
            )
        if 2 * largest > folder.most_bytes:
            raise ConfigError.of(
                "cache",
                options.cache,
                allowed=f"space for two unpacked shards, {2 * largest:,} bytes",
                advice=self._advice,
            )

    def open(self, shard: ShardFile, *, is_mapped: bool) -> LocalFile:
        """Open the unpacked copy of a shard, which is made if it does not exist.

        Raises:
            CorruptShardError: the shard is damaged.
            MachineError: there is no space for the copy.
        """
        name = unpacked_name(shard.path, version_to_copy(shard.path, shard.entry))
        waits_until = time.monotonic() + _PATIENCE_SECONDS * (self.max_open is not None)
        while (descriptor := self._folder.open_whole(name, lambda: _pieces(shard.path))) is None:
            if time.monotonic() < waits_until:
                time.sleep(_PAUSE_SECONDS)  # for other processes, which remove copies behind them
                continue
            raise MachineError(
                f"{shard.path!r}: cannot be unpacked in {self._folder.path!r}: no space within "
                f"the limit of {self._folder.most_bytes:,} bytes. {self._advice}.",
                path=shard.path,
                errno=errno.ENOSPC,
            )
        size = os.fstat(descriptor).st_size - WHOLE_END_BYTES
        stream = (
            io.FileIO(descriptor)
            if self.max_open is None
            else _RemovedCopy(descriptor, self._folder, name)
        )
        return LocalFile(shard.path, stream, size=size, is_mapped=is_mapped, is_copy=True)

    def _estimate(self, shard: ShardFile) -> int:
        return int(shard.bytes * self._ratio)

    @property
    def _advice(self) -> str:
        shard, count = self._packed[0], quantity(len(self._packed), "gzip shard")
        uri = shard.path.removesuffix(shard.name).rstrip("/") or shard.path
        return (
            f"Unpacked, {count} would take about {human_bytes(self.total)}, and "
            f"{self._folder.path!r} may take {human_bytes(self._folder.most_bytes)}. Rewrite them "
            f"once: tfx-shards balance {printable(uri)} OUT --compression none. Or allow more, "
            f"cache=CacheOptions(max_bytes={self._needed}), or read them in order, shuffle=False"
        )

    @property
    def _needed(self) -> int:
        """Bytes that are certainly enough, rounded up."""
        return int(self.total * 1.25) + (1 << 20)


class _RemovedCopy(io.FileIO):
    """An open copy that is removed when it is closed, unless another process has it open."""

    def __init__(self, descriptor: int, folder: CacheFolder, name: str) -> None:
        super().__init__(descriptor)
        self._folder, self._name_of_copy = folder, name

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._folder.remove_unused(self._name_of_copy)


def unpacked_ratio(shards: Sequence[ShardFile]) -> float:
    """Return the unpacked bytes for each stored byte: the median of some of the shards."""
    count = _SAMPLED_REMOTE if shards and is_remote(shards[0].path) else _SAMPLED
    sampled_shards = shards[:: max(-(-len(shards) // count), 1)]
    gzipped = [
        shard for shard in sampled_shards if shard.bytes and compression_of(shard.path) == "gzip"
    ]
    ratios = [content_bytes(shard.path) / shard.bytes for shard in gzipped]
    return min(statistics.median(ratios), _MAX_RATIO) if ratios else _USUAL_RATIO


def _pieces(path: str) -> Iterator[bytes]:
    """Yield the unpacked content of a file."""
    with open_records(path) as packed:
        while data := packed.read(_PIECE_BYTES):
            yield data
