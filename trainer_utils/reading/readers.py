"""How parts of files, and single records, are read: checked, past damage, or from copies.

readers = readers_of(sources, options)
readers.locate, readers.shards, readers.sums
read = piece_reader(Remade(lambda: WorkerReading(strategy, readers)))
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from trainer_utils.dataset.opening import ShardFile
from trainer_utils.dataset.selection import Source, digest_of, mean_bytes
from trainer_utils.order.strategy import ShuffleStrategy
from trainer_utils.reading import memory_files as memory_files  # serves ram:// for `cache="memory"`
from trainer_utils.reading.cached_records import CachedRecords, read_cached
from trainer_utils.reading.made_up_lengths import refuse_made_up_lengths
from trainer_utils.reading.records import (
    ReadPiece,
    make_reader,
    read_where_located,
    records_at_once,
)
from trainer_utils.reading.remade import Remade
from trainer_utils.reading.shard_checksums import ShardChecksums
from trainer_utils.reading.shard_reader import ShardReader, read_past_damage
from trainer_utils.storage import is_remote
from trainer_utils.storage.cache import WholeCopies, cache_folder, copy_to_memory

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions

__all__ = ["Readers", "WorkerReading", "piece_reader", "readers_of"]


class Readers(NamedTuple):
    """Where files are, what reads single records, and what compares files with their sums.

    `cached` reads all records where the files are elsewhere, and is told in which order.
    `are_indexed` says that they are local files, not compressed, whose indices say where each
    record lies.
    """

    locate: Callable[[str], str]
    shards: ShardReader
    sums: ShardChecksums
    mean_bytes: float
    skips: bool = False
    cached: CachedRecords | None = None
    are_indexed: bool = False


class WorkerReading(NamedTuple):
    """What a worker reads its records by: their order, and what reads them."""

    strategy: ShuffleStrategy
    readers: Readers


def piece_reader(reading: Remade[WorkerReading]) -> ReadPiece:
    """How parts of files are read: checked, past damage, or from copies."""
    readers = reading.get().readers
    if readers.cached is not None:
        return read_cached(lambda: _cached_of(reading.get()))
    at_once, mean = records_at_once(readers.mean_bytes), readers.mean_bytes
    if readers.skips:
        return read_past_damage(lambda: reading.get().readers.shards, at_once)
    return read_where_located(make_reader(mean), lambda path: reading.get().readers.locate(path))


def _cached_of(reading: WorkerReading) -> CachedRecords:
    assert reading.readers.cached is not None
    return reading.readers.cached


def readers_of(sources: Sequence[Source], options: "InputOptions") -> Readers:
    """The readers that the options ask for."""
    skips = options.on_corrupt == "skip"
    mean = mean_bytes(sources)
    files = [shard for source in sources for shard in source.dataset.shard_files]
    entries = {shard.path: shard.entry for shard in files if shard.entry is not None}
    counts = {shard.path: shard.records for shard in files}
    sums = ShardChecksums(entries, skips=skips)
    cache = options.cache
    if cache is None and options.cache_dir is None and not any(is_remote(s.path) for s in files):
        copy = None
    elif cache == "memory":
        copy = copy_to_memory(digest_of(sources), sums.check)
    else:
        folder = cache_folder(cache, options.cache_dir, options.cache_bytes)
        if not skips and all(shard.is_indexed for shard in files):
            cached = CachedRecords(files, folder)
            whole = WholeCopies(folder, sums.check, entries)
            shards = ShardReader(locate=whole.locate, entries=entries, counts=counts)
            return Readers(whole.locate, shards, ShardChecksums({}), mean, cached=cached)
        copy = WholeCopies(folder, sums.check, entries).locate

    def locate(path: str) -> str:
        location = path if copy is None else copy(path)
        sums.begin(path, location)
        return location

    shards = ShardReader(locate=locate, entries=entries, counts=counts, skips=skips)
    if skips:
        return Readers(locate, shards, sums, mean, skips=True)

    def locate_checked(path: str) -> str:
        location = locate(path)
        refuse_made_up_lengths(path, location, entries.get(path))
        return location

    are_indexed = copy is None and _are_indexed(files)
    return Readers(locate_checked, shards, sums, mean, are_indexed=are_indexed)


def _are_indexed(files: Sequence[ShardFile]) -> bool:
    """Whether indices say where each record lies."""
    return all(shard.is_indexed for shard in files)
