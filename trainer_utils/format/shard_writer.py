"""Writes one shard: framed records in, blocks out, and what the manifest says of it.

with open(temporary_path, "wb") as stream:
    writer = ShardWriter(stream)
    writer.write(example.SerializeToString())
    digest = writer.finish()
"""

import dataclasses
import zlib
from typing import BinaryIO

from trainer_utils.format.crc32c import extend_crc32c
from trainer_utils.format.tfrecord import frame_record

__all__ = ["ShardDigest", "ShardWriter"]

_WRITE_BYTES = 4 << 20  # 4 MiB: joins short records into few writes, and stays in cache
_GZIP_CONTAINER = 16 + zlib.MAX_WBITS


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardDigest:
    """What was written: `records`, `bytes` of the file, and `crc32c` of all its bytes."""

    records: int
    bytes: int
    crc32c: int


class ShardWriter:
    """Appends records to a stream. The caller opens, closes and renames the file.

    Args:
        stream: where the bytes go.
        gzip: whether to compress. The gzip header holds no time and no name, so that equal
            records give equal files.
    """

    def __init__(self, stream: BinaryIO, *, gzip: bool = False) -> None:
        self._stream = stream
        self._gzip = zlib.compressobj(6, zlib.DEFLATED, _GZIP_CONTAINER) if gzip else None
        self._parts: list[bytes] = []
        self._pending_bytes = 0
        self._records = 0
        self._bytes = 0
        self._crc = 0

    def write(self, record: bytes) -> int:
        """Frames and appends one record; returns its masked CRC-32C."""
        header, payload, footer = frame_record(record)
        self._parts += (header, payload, footer)
        self._pending_bytes += len(record)
        self._records += 1
        if self._pending_bytes >= _WRITE_BYTES:
            self._flush()
        return int.from_bytes(footer, "little")

    def write_framed(self, frames: bytes, num_records: int) -> None:
        """Appends a block of records that carry their (verified) frames already."""
        self._flush()
        self._emit(frames)
        self._records += num_records

    def finish(self) -> ShardDigest:
        """Writes what is pending. The stream stays open; nothing may be written after this."""
        self._flush()
        if self._gzip is not None:
            self._emit_raw(self._gzip.flush())
        return ShardDigest(records=self._records, bytes=self._bytes, crc32c=self._crc)

    def _flush(self) -> None:
        if self._parts:
            block = b"".join(self._parts)
            self._parts.clear()
            self._pending_bytes = 0
            self._emit(block)

    def _emit(self, block: bytes) -> None:
        self._emit_raw(self._gzip.compress(block) if self._gzip is not None else block)

    def _emit_raw(self, block: bytes) -> None:
        self._stream.write(block)
        self._crc = extend_crc32c(self._crc, block)
        self._bytes += len(block)
