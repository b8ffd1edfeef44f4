"""Where each record of a shard begins, so that any record can be read without those before it.

offsets = record_offsets("data_tfrecord-00000-of-00008")      # one more than there are records
"""

import functools
import logging
import struct
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from trainer_utils.dataset.opening import ShardFile, check_count
from trainer_utils.dataset.shards import open_records
from trainer_utils.format import (
    CorruptShardError,
    DatasetError,
    RecordIndex,
    Shard,
    scan_lengths,
)
from trainer_utils.format.crc32c import masked_crc32c_of_rows
from trainer_utils.format.naming import SPLIT_PREFIX, index_file
from trainer_utils.format.tfrecord import HEADER_BYTES, RECORD_OVERHEAD_BYTES
from trainer_utils.storage import exists, read_bytes

__all__ = ["indexed_offsets", "read_index", "record_offsets"]

_READ_BYTES = 1 << 20
_LENGTH = struct.Struct("<Q")

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
        As `record_offsets`; None where there is no index, or it cannot be believed: it is damaged,
        or of another file. Of that, and of one that is missing though the manifest names it, a
        warning tells once.
    """
    uri, prefix, name = path.rpartition(f"/{SPLIT_PREFIX}")
    try:
        index_path = f"{uri}/{index_file(prefix[1:] + name)}"
    except DatasetError:  # a shard whose name is not one of ours
        return None
    try:
        return _believed(index_path, size, entry)
    except (CorruptShardError, OSError) as error:
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


def record_offsets(stream: BinaryIO, *, path: str) -> tuple[npt.NDArray[np.int64], str | None]:
    """Finds the records of a shard by one scan of their lengths; payloads are passed over.

    Args:
        stream: the uncompressed bytes, from their start; it can seek.
        path: for messages.

    Returns:
        `(records + 1,) int64`: where each frame begins, and where the last one ends, in bytes; and
        what is wrong where the scan had to end before the file does, None where nothing is.
    """
    offsets, headers, is_cut = _walk(stream)
    table = np.frombuffer(b"".join(headers), np.uint8).reshape(-1, HEADER_BYTES)
    bad = masked_crc32c_of_rows(table[:, :8]) != table[:, 8:].copy().view("<u4")[:, 0]
    if bad.any():
        first = int(bad.argmax())
        found = np.array(offsets[: first + 1], np.int64)
        return found, _message("the length's checksum to agree", path, first, offsets[first])
    if is_cut:
        last = len(offsets) - 1
        return np.array(offsets, np.int64), _message("a whole record", path, last, offsets[last])
    return np.array(offsets, np.int64), None


def _message(expected: str, path: str, record: int, offset: int) -> str:
    return str(
        CorruptShardError(
            f"{path!r}: expected {expected}, got another one or the end of the file "
            f"(record {record}, byte {offset})"
        )
    )


def _walk(stream: BinaryIO) -> tuple[list[int], list[bytes], bool]:
    """Offsets of all frames and of their end; their headers; whether the last one is cut short."""
    size = stream.seek(0, 2)
    stream.seek(0)
    offsets = [0]
    headers: list[bytes] = []
    begin, data = 0, b""
    position = 0
    while position < size:
        if position + HEADER_BYTES > size:
            return offsets, headers, True
        if position + HEADER_BYTES > begin + len(data):
            stream.seek(position)
            begin, data = position, stream.read(_READ_BYTES)
        at = position - begin
        end = position + RECORD_OVERHEAD_BYTES + _LENGTH.unpack_from(data, at)[0]
        headers.append(data[at : at + HEADER_BYTES])
        if end > size:
            return offsets, headers, True
        offsets.append(end)
        position = end
    return offsets, headers, False
