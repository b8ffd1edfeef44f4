"""How parts of files, and single records, are read: checked, past damage, or from copies.

readers = readers_of(sources, options)
readers.read, readers.shards, readers.sums
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import tensorflow as tf

from trainer_utils.dataset.selection import Source, digest_of, mean_bytes
from trainer_utils.reading import memory_files as memory_files  # serves ram:// for `cache="memory"`
from trainer_utils.reading.records import (
    ReadPiece,
    make_reader,
    read_where_located,
    records_at_once,
)
from trainer_utils.reading.shard_checksums import ShardChecksums
from trainer_utils.reading.shard_reader import ShardReader
from trainer_utils.storage.cache import make_locator

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions

__all__ = ["Readers", "readers_of"]


class Readers(NamedTuple):
    """How parts of files are read, and single records, and what compares files with their sums."""

    read: ReadPiece
    shards: ShardReader
    sums: ShardChecksums


def readers_of(sources: Sequence[Source], options: "InputOptions") -> Readers:
    """The readers that the options ask for."""
    skips = options.on_corrupt == "skip"
    mean = mean_bytes(sources)
    files = [
        shard for source in sources for group in source.dataset.shards.values() for shard in group
    ]
    entries = {shard.path: shard.entry for shard in files if shard.entry is not None}
    sums = ShardChecksums(entries, skips=skips)
    cache = options.cache
    if cache is None and not all(map(_can_read, (shard.path for shard in files))):
        cache = "disk"
    copy = None if cache is None else make_locator(cache, digest_of(sources), check=sums.check)

    def locate(path: str) -> str:
        location = path if copy is None else copy(path)
        sums.begin(path, location)
        return location

    shards = ShardReader(locate=locate, entries=entries, skips=skips)
    if skips:
        return Readers(shards.read_blocks(records_at_once(mean)), shards, sums)
    read = make_reader(mean)
    return Readers(
        read_where_located(read, locate) if copy is not None or sums else read, shards, sums
    )


def _can_read(path: str) -> bool:
    """Whether TensorFlow can; what else `storage` can open is copied to the disk first."""
    scheme, separator, _ = path.partition("://")
    return not separator or scheme in tf.io.gfile.get_registered_schemes()
