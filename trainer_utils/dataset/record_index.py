"""Where each record of a shard begins, so that any record can be read without those before it.

offsets = indexed_offsets("data_tfrecord-00000-of-00008", size=size)      # one more than records
"""

import errno
import functools
import logging

import numpy as np
import numpy.typing as npt

from trainer_utils.dataset.opening import ShardFile, check_count
from trainer_utils.dataset.shards import open_records
from trainer_utils.format import CorruptShardError, DatasetError, RecordIndex, Shard, scan_lengths
from trainer_utils.format.naming import SPLIT_PREFIX, index_file
from trainer_utils.storage import exists, read_bytes

__all__ = ["indexed_offsets", "read_index"]

_logger = logging.getLogger(__name__)


def read_index(shard: ShardFile, *, is_strict: bool = True) -> RecordIndex:
    """Where a shard's records lie: from its index, else by walking from header to header.

    Args:
        shard: of an opened dataset.
        is_strict: whether an index that is damaged or gone is an error; else the shard is walked.

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


def indexed_offsets(
    path: str, *, size: int, entry: Shard | None = None
) -> npt.NDArray[np.int64] | None:
    """Where the records of a shard lie, as the index beside its dataset's manifest says.

    Args:
        path: of the shard.
        size: of its uncompressed bytes.
        entry: what the manifest says of the shard, where there is one.

    Returns:
        `(records + 1,) int64`: where each frame begins, and where the last one ends, in bytes;
        None where there is no index, or it cannot be believed: it is damaged, or of another file.
        One warning names it; so does one for an index that the manifest names and that is missing.
    """
    uri, prefix, name = path.rpartition(f"/{SPLIT_PREFIX}")
    try:
        index_path = f"{uri}/{index_file(prefix[1:] + name)}"
    except DatasetError:  # a shard whose name is not one of ours
        return None
    try:
        return _believed(index_path, size, entry)
    except (CorruptShardError, OSError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            raise  # it is no matter of the index
        _warn_of(index_path, str(error))
        return None


def _believed(index_path: str, size: int, entry: Shard | None) -> npt.NDArray[np.int64] | None:
    if not exists(index_path):
        if entry is None or entry.index_crc32c is None:
            return None
        raise CorruptShardError("expected the file that the manifest names, got none.")
    data = read_bytes(index_path)
    index = RecordIndex.from_bytes(data, path=index_path, shard=entry)
    if index.framed_bytes != size:
        raise CorruptShardError(f"expected a shard of {index.framed_bytes} bytes, got {size}.")
    return index.offsets


@functools.lru_cache(maxsize=4096)  # once each
def _warn_of(index_path: str, why: str) -> None:
    _logger.warning(
        "record index %r is not used, the shard is read through instead: %s", index_path, why
    )
