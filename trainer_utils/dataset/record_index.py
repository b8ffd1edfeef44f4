"""Where each record of a shard begins and what it is: by its index, or else the shard itself."""

import errno
import functools
import logging
import math
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from trainer_utils.dataset.opening import Dataset, ShardFile, check_count
from trainer_utils.dataset.shards import open_records, read_shard_blocks
from trainer_utils.format import CorruptShardError, DatasetError, RecordIndex, Shard, scan_lengths
from trainer_utils.format.example import decode_context
from trainer_utils.format.framing import HEADER_BYTES
from trainer_utils.format.index import name_crcs, name_of
from trainer_utils.format.naming import NAME_FEATURES, SPLIT_PREFIX, index_file
from trainer_utils.format.slices import FileRange
from trainer_utils.storage import exists, read_bytes

_logger = logging.getLogger(__name__)


def read_index(shard: ShardFile, *, is_strict: bool = True) -> RecordIndex:
    """Where a shard's records lie: from its index, else by walking from header to header.

    An index that is damaged or gone is an error where `is_strict`; else the shard is walked.

    Raises:
        CorruptShardError: the index is not the manifest's, or a header is damaged.
        DatasetError: it holds another number of records than the dataset says.
    """
    if shard.index_path is not None:
        try:
            data = read_bytes(shard.index_path)
            return RecordIndex.from_bytes(data, path=shard.index_path, shard=shard.entry)
        except (DatasetError, OSError):
            if is_strict:
                raise
    with open_records(shard.path) as stream:
        index = RecordIndex(scan_lengths(stream, path=shard.path))
    check_count(shard, len(index))
    return index


def summed_index(shard: ShardFile) -> RecordIndex:
    """The same with the sums of payloads and names, for which the shard is read where it has to
    be."""
    index = read_index(shard, is_strict=False)
    if index.name_crcs is not None:
        return index
    parts = [np.zeros((2, 0), np.uint32)]
    for block in read_shard_blocks(shard.path):
        begins = block.starts + HEADER_BYTES
        names = name_crcs(block.data, begins, begins + block.lengths)
        parts.append(np.stack([block.payload_crcs, names]))
    return RecordIndex(index.lengths, *np.concatenate(parts, axis=1))


def record_keys(dataset: Dataset, ranges: Sequence[FileRange]) -> npt.NDArray[np.uint64]:
    """`(records,) uint64`: by which records are known in another version of their dataset, made of
    the sums of payloads and of names, and the lengths."""
    shards = {shard.path: shard for shard in dataset.shard_files}
    found = [np.zeros(0, np.uint64)]
    for path, skip, take in ranges:
        index = summed_index(shards[path])
        sums = (index.payload_crcs, index.name_crcs, index.lengths)
        payloads, names, lengths = (np.asarray(some).astype(np.uint64) for some in sums)
        keys = payloads << np.uint64(32) | names ^ lengths
        found.append(keys[skip : skip + take])
    return np.concatenate(found)


def find_numbers(dataset: Dataset, shard: ShardFile, names: Collection[bytes]) -> list[int] | None:
    """The numbers of a shard's records of some names, in order, of which no others are read.

    None where the shard has to be read for that: nothing is written of its records, or they may
    have further names, of which the first alone is written.

    Raises:
        CorruptShardError: a record of such a name is damaged.
    """
    named = [dataset.features[name] for name in NAME_FEATURES if name in dataset.features]
    if len(named) != 1 or not named[0].dense or math.prod(named[0].shape) != 1:
        return None
    index = read_index(shard, is_strict=False)
    if index.name_crcs is None:
        return None
    numbers = sorted({number for name in names for number in index.numbers_named(name) or ()})
    if not numbers:
        return []
    with open_records(shard.path) as stream:
        records = [(number, index.read(stream, number, path=shard.path)) for number in numbers]
    found = [(n, name_of(decode_context(record, NAME_FEATURES))) for n, record in records]
    return [number for number, name in found if name in names]


def believed_index(path: str, *, size: int, entry: Shard | None = None) -> RecordIndex | None:
    """The index of a shard of `size` uncompressed bytes, where its dataset has one.

    None where it cannot be believed: it is damaged, or of another file, or missing though the
    manifest (`entry`) names it. One warning says so.
    """
    uri, prefix, name = path.rpartition(f"/{SPLIT_PREFIX}")
    try:
        index_path = f"{uri}/{index_file(prefix[1:] + name)}"
    except DatasetError:  # a shard whose name is not one of ours
        return None
    try:
        if not exists(index_path):
            if entry is None or entry.index_crc32c is None:
                return None
            raise CorruptShardError("expected the file that the manifest names, got none.")
        index = RecordIndex.from_bytes(read_bytes(index_path), path=index_path, shard=entry)
        if index.framed_bytes != size:
            raise CorruptShardError(f"expected a shard of {index.framed_bytes} bytes, got {size}.")
        return index
    except (CorruptShardError, OSError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            raise  # it is no matter of the index
        _warn_of(index_path, str(error))
        return None


@functools.lru_cache(maxsize=4096)  # once each
def _warn_of(index_path: str, why: str) -> None:
    _logger.warning(
        "record index %r is not used, the shard is read through instead: %s", index_path, why
    )
