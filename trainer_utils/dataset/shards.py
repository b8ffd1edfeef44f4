"""A shard: its bytes and records, however they are compressed, and where each record begins.

for block in read_shard_blocks("examples/Split-train/data_tfrecord-00000-of-00008.gz"):
    block.records()
read_index(shard).offsets              # by its index, or else by the shard itself
"""

import contextlib
import errno
import functools
import gzip
import logging
import math
import zlib
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from trainer_utils.format import (
    CorruptShardError,
    DatasetError,
    RecordBlock,
    RecordIndex,
    read_blocks,
    scan_lengths,
)
from trainer_utils.format.index import name_crcs, name_in
from trainer_utils.format.layouts import ShardFile
from trainer_utils.format.naming import NAME_FEATURES
from trainer_utils.format.slices import FileRange
from trainer_utils.format.tfrecord import BLOCK_BYTES, HEADER_BYTES
from trainer_utils.storage import exists, file_size, open_for_reading, read_bytes, read_range

if TYPE_CHECKING:
    from trainer_utils.dataset.opening import Dataset

_logger = logging.getLogger(__name__)
_GZIP = b"\x1f\x8b"
_looked_at: dict[str, bool] = {}  # of others' shards, whether they are compressed, by path


def check_count(shard: ShardFile, records: int) -> None:
    """Refuses a shard that holds another number of records than its dataset says."""
    if shard.records not in (None, records):
        said = f"{shard.records} records as the dataset says"
        advice = "The dataset was changed: write it again."
        raise DatasetError.at(shard.path, expected=said, got=str(records), advice=advice)


def is_gzip(path: str) -> bool:
    """Whether a shard is compressed: by its name, unless `look_for_gzip` has looked at it."""
    return _looked_at.get(path, path.endswith(".gz"))


def look_for_gzip(path: str) -> None:
    """Sees by its first two bytes whether a file that others wrote is compressed."""
    _looked_at[path] = read_range(path, start=0, stop=len(_GZIP)) == _GZIP


def read_shard_blocks(path: str, *, block_bytes: int = BLOCK_BYTES) -> Iterator[RecordBlock]:
    """A shard's verified blocks of about `block_bytes`; errors as `read_blocks`."""
    with open_records(path) as stream:
        yield from read_blocks(stream, path=path, block_bytes=block_bytes)


@contextlib.contextmanager
def open_records(path: str) -> Iterator[BinaryIO]:
    """The framed records of a shard, decompressed where its name says so; errors as `unpacked`."""
    with open_for_reading(path) as stream, unpacked(stream, path=path) as records:
        yield records


@contextlib.contextmanager
def unpacked(stream: BinaryIO, *, path: str) -> Iterator[BinaryIO]:
    """The framed records in a shard's bytes; a CorruptShardError where its gzip is not whole."""
    if not is_gzip(path):
        yield stream
        return
    try:
        with gzip.GzipFile(fileobj=stream, mode="rb") as records:
            yield cast(BinaryIO, records)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        advice, offset = "The file is damaged: write it again.", stream.tell()
        said = f"{path!r}: expected a whole gzip stream: {error} (near byte {offset}). {advice}"
        raise CorruptShardError(said, path=path, offset=offset) from error


def gzip_content_bytes(path: str) -> int:
    """How many bytes a gzip file holds, modulo 2**32 (the last field of RFC 1952)."""
    size = file_size(path)
    return int.from_bytes(read_range(path, start=max(size - 4, 0), stop=size), "little")


def read_index(shard: ShardFile, *, is_strict: bool = True) -> RecordIndex:
    """Where a shard's records lie: from its index, else by walking from header to header.

    An index that is damaged or gone is an error where `is_strict`; else the shard is walked.

    Raises:
        CorruptShardError: the index is not the manifest's, or a header is damaged.
        DatasetError: it holds another number of records than the dataset says.
    """
    index = _stored_index(shard) if is_strict else believed_index(shard)
    if index is None:
        with open_records(shard.path) as stream:
            index = RecordIndex(scan_lengths(stream, path=shard.path))
        check_count(shard, len(index))
    return index


def believed_index(shard: ShardFile, *, size: int | None = None) -> RecordIndex | None:
    """A shard's index, where it has one: by the manifest, or, of one of `size` uncompressed bytes,
    beside it. None where it is damaged, of another file, or gone; one warning says so."""
    try:
        return _stored_index(shard, size)
    except (DatasetError, OSError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            raise  # it is no matter of the index
        _warn_of(shard.index_path, str(error))
        return None


def _stored_index(shard: ShardFile, size: int | None = None) -> RecordIndex | None:
    path, entry = shard.index_path, shard.entry
    is_named = entry is not None and entry.index_crc32c is not None
    if path is None or not (is_named or (size is not None and exists(path))):
        return None
    index = RecordIndex.from_bytes(read_bytes(path), path=path, shard=entry)
    if size not in (None, index.framed_bytes):
        raise CorruptShardError(f"expected a shard of {index.framed_bytes} bytes, got {size}.")
    return index


@functools.lru_cache(maxsize=4096)  # once each
def _warn_of(index_path: str | None, why: str) -> None:
    _logger.warning(
        "record index %r is not used, the shard is read through instead: %s", index_path, why
    )


def summed_index(shard: ShardFile) -> RecordIndex:
    """The same with the sums of payloads and names, for which the shard is read if need be."""
    index = read_index(shard, is_strict=False)
    if index.name_crcs is not None:
        return index
    parts = [np.zeros((2, 0), np.uint32)]
    for block in read_shard_blocks(shard.path):
        begins = block.starts + HEADER_BYTES
        names = name_crcs(block.data, begins, begins + block.lengths)
        parts.append(np.stack([block.payload_crcs, names]))
    return RecordIndex(index.lengths, *np.concatenate(parts, axis=1))


def record_keys(dataset: "Dataset", ranges: Sequence[FileRange]) -> npt.NDArray[np.uint64]:
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


def find_numbers(
    dataset: "Dataset", shard: ShardFile, names: Collection[bytes]
) -> list[int] | None:
    """The numbers of a shard's records of some names, in order, of which no others are read.

    None where the shard has to be read for that: nothing is written of its records, or they may
    have further names, of which the first alone is written.
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
    return [number for number, record in records if name_in(record) in names]
