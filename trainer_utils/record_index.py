"""Where each record of a shard begins, so that any record can be read without those before it.

offsets = indexed_offsets("data_tfrecord-00000-of-00008", size=size)      # one more than records
"""

import functools
import logging

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.format import CorruptShardError, DatasetError, RecordIndex, Shard
from trainer_utils.format.naming import SPLIT_PREFIX, index_file

__all__ = ["indexed_offsets"]

_logger = logging.getLogger(__name__)


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
        Of that, and of one that is missing though the manifest names it, a warning tells once.
    """
    uri, prefix, name = path.rpartition(f"/{SPLIT_PREFIX}")
    try:
        index_path = f"{uri}/{index_file(prefix[1:] + name)}"
    except DatasetError:  # a shard whose name is not one of ours
        return None
    try:
        return _believed(index_path, size, entry)
    except (CorruptShardError, tf.errors.OpError) as error:
        _warn_of(index_path, str(error))
        return None


def _believed(index_path: str, size: int, entry: Shard | None) -> npt.NDArray[np.int64] | None:
    if not tf.io.gfile.exists(index_path):
        if entry is None or entry.index_crc32c is None:
            return None
        raise CorruptShardError("expected the file that the manifest names, got none.")
    with tf.io.gfile.GFile(index_path, "rb") as stream:
        data = stream.read()
    index = RecordIndex.from_bytes(data, path=index_path, shard=entry)
    if index.framed_bytes != size:
        raise CorruptShardError(f"expected a shard of {index.framed_bytes} bytes, got {size}.")
    return index.offsets


@functools.lru_cache(maxsize=4096)  # once each
def _warn_of(index_path: str, why: str) -> None:
    _logger.warning(
        "record index %r is not used, the shard is read through instead: %s", index_path, why
    )
