"""How parts of files, and single records, are read: checked, past damage, or from copies.

readers = readers_of(sources, options)
readers.read, readers.shards, readers.sums
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from trainer_utils.dataset.selection import Source, digest_of, mean_bytes
from trainer_utils.reading import memory_files as memory_files  # serves ram:// for `cache="memory"`
from trainer_utils.reading.cached_records import CachedRecords
from trainer_utils.reading.made_up_lengths import refuse_made_up_lengths
from trainer_utils.reading.records import (
    ReadPiece,
    make_reader,
    read_where_located,
    records_at_once,
)
from trainer_utils.reading.shard_checksums import ShardChecksums
from trainer_utils.reading.shard_reader import ShardReader
from trainer_utils.storage import is_remote
from trainer_utils.storage.cache import WholeCopies, cache_folder, copy_to_memory

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions

__all__ = ["Readers", "readers_of"]


class Readers(NamedTuple):
    """How parts of files are read, and single records, and what compares files with their sums.

    `cached` reads both where the files are elsewhere, and is told in which order.
    """

    read: ReadPiece
    shards: ShardReader
    sums: ShardChecksums
    cached: CachedRecords | None = None


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
    if cache is None and options.cache_dir is None and not any(is_remote(s.path) for s in files):
        copy = None
    elif cache == "memory":
        copy = copy_to_memory(digest_of(sources), sums.check)
    else:
        folder = cache_folder(cache, options.cache_dir, options.cache_bytes)
        if not skips and all(shard.index_path and not shard.is_gzip for shard in files):
            cached = CachedRecords(files, folder)
            whole = WholeCopies(folder, sums.check, entries)
            shards = ShardReader(locate=whole.locate, entries=entries)
            return Readers(cached.read_piece, shards, ShardChecksums({}), cached)
        copy = WholeCopies(folder, sums.check, entries).locate

    def locate(path: str) -> str:
        location = path if copy is None else copy(path)
        sums.begin(path, location)
        return location

    shards = ShardReader(locate=locate, entries=entries, skips=skips)
    if skips:
        return Readers(shards.read_blocks(records_at_once(mean)), shards, sums)

    def locate_checked(path: str) -> str:
        location = locate(path)
        refuse_made_up_lengths(path, location, entries.get(path))
        return location

    return Readers(read_where_located(make_reader(mean), locate_checked), shards, sums)
