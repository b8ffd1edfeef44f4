"""How parts of files, and single records, are read: checked, past damage, or from copies.

read, shards = readers_of(sources, options)
"""

from collections.abc import Sequence

from trainer_utils.cache import cached, locator
from trainer_utils.options import InputOptions
from trainer_utils.records import ReadPiece, reader, records_at_once
from trainer_utils.shard_reader import ShardReader
from trainer_utils.sources import Source, digest_of, mean_bytes

__all__ = ["readers_of"]


def readers_of(sources: Sequence[Source], options: InputOptions) -> tuple[ReadPiece, ShardReader]:
    """How parts of files are read, and single records."""
    skips = options.on_corrupt == "skip"
    mean = mean_bytes(sources)
    if options.cache is None:
        shards = ShardReader(skips=skips)
        return (shards.read_blocks(records_at_once(mean)) if skips else reader(mean)), shards
    locate = locator(options.cache, digest_of(sources))
    shards = ShardReader(locate=locate, skips=skips)
    if skips:
        return shards.read_blocks(records_at_once(mean)), shards
    return cached(reader(mean), locate), shards
