"""A shard's bytes and records, wherever it lies and however it is compressed."""

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from trainer_utils.format import CorruptShardError, RecordBlock, read_blocks
from trainer_utils.format.tfrecord import BLOCK_BYTES
from trainer_utils.storage import file_size, open_for_reading, read_range

_GZIP = b"\x1f\x8b"
_looked_at: dict[str, bool] = {}  # of others' shards, whether they are compressed, by path


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
    """The framed records in a shard's own bytes; a CorruptShardError where its gzip is not
    whole."""
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
