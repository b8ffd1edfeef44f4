"""Read shards of any compression: plain, gzip or zlib.

for block in read_shard_blocks(shard.path):
    block.records()
content_bytes("train.tfrecord.gz")      # its uncompressed size
"""

import contextlib
import gzip
import sys
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from trainer_utils import storage
from trainer_utils.core.errors import CorruptShardError
from trainer_utils.format import RecordBlock, read_blocks
from trainer_utils.format.tfrecord import BLOCK_BYTES, begins_with_gzip, begins_with_zlib

_HEAD_BYTES = 512  # of a shard: enough to detect its compression
_PACKED_AT_ONCE = 1 << 20


def compression_of(path: str) -> str | None:
    """Return `gzip`, `zlib` or None: for a remote shard from its name, else from its head."""
    if storage.is_remote(path):
        return "gzip" if path.endswith(".gz") else "zlib" if path.endswith(".zlib") else None
    head = storage.read_range(path, start=0, stop=_HEAD_BYTES)
    return "gzip" if begins_with_gzip(head) else "zlib" if begins_with_zlib(head) else None


def read_shard_blocks(path: str, *, block_bytes: int = BLOCK_BYTES) -> Iterator[RecordBlock]:
    """Yield a shard's verified blocks of about `block_bytes`; raise the errors of `read_blocks`."""
    with open_records(path) as stream:
        yield from read_blocks(stream, path=path, block_bytes=block_bytes)


@contextlib.contextmanager
def open_records(path: str) -> Iterator[BinaryIO]:
    """Yield a stream of a shard's framed records, decompressed; raise the errors of `unpacked`."""
    with storage.open_for_reading(path) as stream, unpacked(stream, path=path) as records:
        yield records


@contextlib.contextmanager
def unpacked(stream: BinaryIO, *, path: str) -> Iterator[BinaryIO]:
    """Yield a stream of the framed records in a shard's bytes, decompressed.

    Raises:
        CorruptShardError: the compressed stream is incomplete or damaged.
    """
    compression = compression_of(path)
    if compression is None:
        yield stream
        return
    try:
        if compression == "gzip":
            with gzip.GzipFile(fileobj=stream, mode="rb") as records:
                yield cast(BinaryIO, records)
        else:
            yield cast(BinaryIO, _ZlibStream(stream))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        advice, offset = "The file is damaged: write it again.", stream.tell()
        rule = f"expected a whole {compression} stream"
        said = f"{path!r}: {rule}: {error} (near byte {offset}). {advice}"
        raise CorruptShardError(said, path=path, offset=offset) from error


class _ZlibStream:
    """The content of a zlib stream, read in order."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._unpacker, self._given = stream, zlib.decompressobj(), b""

    def read(self, count: int = -1) -> bytes:
        """Return up to `count` bytes, or all if it is negative; no bytes at the end."""
        most = count if count >= 0 else sys.maxsize
        unpacked = bytearray()
        while len(unpacked) < most and not self._unpacker.eof:
            if not self._given and not (data := self._stream.read(_PACKED_AT_ONCE)):
                raise EOFError("the stream ends before its checksum")
            unpacked += self._unpacker.decompress(self._given or data, most - len(unpacked))
            self._given = self._unpacker.unconsumed_tail
        if self._unpacker.eof and (self._unpacker.unused_data or self._stream.read(1)):
            raise zlib.error("more bytes follow the end of the stream")
        return bytes(unpacked)


def content_bytes(path: str) -> int:
    """Return the uncompressed size of a compressed file in bytes.

    For gzip it is modulo 2**32, from the last field of RFC 1952. A zlib stream is read completely.
    """
    if compression_of(path) == "zlib":
        with open_records(path) as stream:
            return sum(map(len, iter(lambda: stream.read(BLOCK_BYTES), b"")))
    size = storage.file_size(path)
    return int.from_bytes(storage.read_range(path, start=max(size - 4, 0), stop=size), "little")
