"""Open shards when they are first read: local files, copies of remote ones, unpacked gzip files.

files = open_shards(shards, options, is_long=False, read=[0, 1, 2])
files.file(0).read(0, 1 << 20)
"""

import dataclasses
import resource
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer_utils.core.errors import CorruptShardError
from trainer_utils.format.layouts import ShardFile
from trainer_utils.options import CacheOptions, InputOptions
from trainer_utils.reading.input_stats import StageCounters
from trainer_utils.reading.local_files import (
    LocalFile,
    OpenShard,
    Positions,
    resized_error,
    translate_missing_shard,
)
from trainer_utils.reading.remote_files import RemoteParts
from trainer_utils.reading.unpacked_files import UnpackedFiles
from trainer_utils.runtime.single_flight import SingleFlightCache
from trainer_utils.storage import file_size, is_remote, open_for_reading
from trainer_utils.storage.cache_folder import CacheFolder
from trainer_utils.storage.open_files import can_copy_mapped, open_more_files, with_high_descriptor

_MAX_OPEN = 512  # open files, with one or two descriptors each
_MIN_HELD = 64  # shards; mappings of fewer are faster
_MAX_MAPPED = 1 << 14  # files that are mapped; Linux allows 65,530 mappings in a process


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileLimits:
    """The number of files to have open, and how their bytes are read.

    Attributes:
        is_mapped: whether files are mapped into memory.
        is_held: whether all files stay open. For single records of thousands of shards, a call for
            each costs less than the page faults of mappings, whose page tables would also grow
            with the data.
        max_open: the maximum number of shards to have open.
        max_open_indices: the maximum number of index files to have open.
    """

    is_mapped: bool
    is_held: bool
    max_open: int
    max_open_indices: int


class OpenShards:
    """Shards that are opened when they are first read, for several threads.

    Args:
        shards: the shards.
        options: the settings of the input.
        limits: the number of files to have open.
        parts: the copies of remote files, or None if no file is fetched.
        unpacked: the copies of compressed files, or None without such files.
    """

    def __init__(
        self,
        shards: Sequence[ShardFile],
        options: InputOptions,
        limits: FileLimits,
        parts: RemoteParts | None,
        unpacked: UnpackedFiles | None,
    ) -> None:
        self.limits, self.parts = limits, parts
        self._shards, self._unpacked = shards, unpacked
        self._is_strict = options.on_corrupt != "skip"
        self._caches_all = options.cache is not None
        self._open = SingleFlightCache[OpenShard](limits.max_open)

    @property
    def reads_in_order(self) -> bool:
        """Whether reading is fast only in the order of the shards, by one thread."""
        return self._unpacked is not None and self._unpacked.max_open is not None

    def file(self, index: int) -> OpenShard:
        """Return a shard, which is opened if it is not.

        Raises:
            CorruptShardError: it is gone, or damaged or of another size, unless damage is skipped.
        """
        return self._open.get(index, lambda: self._opened(self._shards[index]))

    def check(self, indices: Positions) -> None:
        """Raise a CorruptShardError if the size of a shard has changed since it was opened."""
        for index in np.unique(indices).tolist():
            self.file(index).check()

    def _opened(self, shard: ShardFile) -> OpenShard:
        with translate_missing_shard(shard.path):
            size = shard.bytes if is_remote(shard.path) else file_size(shard.path)
            if size != shard.bytes and self._is_strict:
                raise resized_error(shard.path, shard.bytes, size)
            if shard.is_gzip:
                return self._unpacked_file(shard)
            if self.parts is not None and (self._caches_all or is_remote(shard.path)):
                return self.parts.open(shard)
            stream: Any = open_for_reading(shard.path)
            if self.limits.is_held:
                stream = with_high_descriptor(stream)
            return LocalFile(shard.path, stream, is_mapped=self.limits.is_mapped)

    def _unpacked_file(self, shard: ShardFile) -> LocalFile:
        """Open the unpacked copy of a compressed shard; of a damaged one, its intact part."""
        assert self._unpacked is not None, shard.path
        try:
            return self._unpacked.open(shard, is_mapped=self.limits.is_mapped)
        except CorruptShardError:
            if self._is_strict:
                raise
            return LocalFile.until_damage(shard.path, is_mapped=self.limits.is_mapped)


def open_shards(
    shards: Sequence[ShardFile],
    options: InputOptions,
    *,
    is_long: bool,
    read: Sequence[int],
    counters: StageCounters,
) -> OpenShards:
    """Return the shards; a shard is opened when it is first read.

    Args:
        shards: the shards.
        options: the settings of the input.
        is_long: whether records are so long that each is read with a call.
        read: the indices of the shards that are read.
        counters: the counters of the input's work.

    Raises:
        ConfigError: the unpacked copies of compressed shards do not fit into the cache folder.
    """
    cache = options.cache or CacheOptions()
    assert isinstance(cache, CacheOptions)
    parts: RemoteParts | None = None
    unpacked: UnpackedFiles | None = None
    if options.cache is not None or any(is_remote(shard.path) for shard in shards):
        is_global = options.shuffle == "global"
        parts = RemoteParts(cache.folder, cache.max_bytes, is_global=is_global, counters=counters)
    if any(shards[index].is_gzip for index in read):
        unpacked = UnpackedFiles(CacheFolder(cache.folder, cache.max_bytes), shards, read, options)
        if parts is not None:  # parts of other files must leave space
            parts.folder.most_bytes -= unpacked.total
    may_hold = options.shuffle == "global" and not is_long and len(read) > _MIN_HELD
    limits = _limits_of(shards, parts, unpacked, is_long=is_long, may_hold=may_hold)
    return OpenShards(shards, options, limits, parts, unpacked)


def _limits_of(
    shards: Sequence[ShardFile],
    parts: RemoteParts | None,
    unpacked: UnpackedFiles | None,
    *,
    is_long: bool,
    may_hold: bool,
) -> FileLimits:
    """Return the number of files to have open, within the limits of the system.

    Args:
        shards: the shards.
        parts: the copies of remote files, or None.
        unpacked: the copies of compressed files, or None.
        is_long: whether records are so long that each is read with a call.
        may_hold: whether local files may all stay open.
    """
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4
    max_open_indices = max(1, min(_MAX_OPEN, descriptors) // 4)
    if (
        may_hold
        and parts is None
        and unpacked is None
        and open_more_files(len(shards) + descriptors)
    ):
        return FileLimits(
            is_mapped=False,
            is_held=True,
            max_open=len(shards),
            max_open_indices=max_open_indices,
        )
    is_mapped = not is_long and can_copy_mapped()
    if is_mapped and parts is None and not any(shard.is_gzip for shard in shards):
        max_open = _MAX_MAPPED
    else:
        max_open = max(1, min(_MAX_OPEN, descriptors) // (1 if parts is None else 2))
    if unpacked is not None and unpacked.max_open is not None:
        max_open = min(max_open, unpacked.max_open)
    return FileLimits(
        is_mapped=is_mapped,
        is_held=False,
        max_open=max_open,
        max_open_indices=max_open_indices,
    )
