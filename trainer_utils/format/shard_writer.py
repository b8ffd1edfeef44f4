"""Writes one shard: framed records in, blocks out, and what the manifest says of it.

with open(temporary_path, "wb") as stream:
    writer = ShardWriter(stream)
    writer.write([example.SerializeToString()])
    digest = writer.finish()
"""

import array
import zlib
from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

import numpy as np

from trainer_utils.format.checksums import Sums, extend_crc32c, multiset_checksum
from trainer_utils.format.index import RecordIndex, name_crc, name_crcs, name_in
from trainer_utils.format.tfrecord import (
    FOOTER_BYTES,
    RECORD_OVERHEAD_BYTES,
    Positions,
    frame_parts,
)

_WRITE_BYTES = 1 << 20  # 1 MiB: few system calls, each of which lets another thread in
_GZIP_CONTAINER = 16 + zlib.MAX_WBITS


class ShardDigest(NamedTuple):
    """What was written: `bytes` and `crc32c` are of the file, `content` of its records in any
    order."""

    records: int
    bytes: int
    crc32c: int
    content: int


class ShardWriter:
    """Appends records to a stream. The caller opens, closes and renames the file.

    Args:
        stream: where the bytes go, a MiB or so at a time.
        gzip: whether to compress. The gzip header holds no time and no name, so that equal
            records give equal files.
        buffer_bytes: what is held back before it is written.
    """

    def __init__(
        self, stream: BinaryIO, *, gzip: bool = False, buffer_bytes: int = _WRITE_BYTES
    ) -> None:
        self._stream = stream
        self._buffer_bytes = buffer_bytes
        self._gzip = zlib.compressobj(6, zlib.DEFLATED, _GZIP_CONTAINER) if gzip else None
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._lengths = array.array("Q")
        self._payload_crcs = array.array("I")
        self._name_crcs = array.array("I")
        self._bytes = self._crc = 0

    def write(self, parts: Sequence[bytes], *, name: bytes | None = None) -> int:
        """Frames and appends one record; returns its masked CRC-32C.

        Args:
            parts: of the payload.
            name: what it is called (`name_of`); None: that is looked for in it.
        """
        header, footer = frame_parts(parts)
        self._pending += (header, *parts, footer)
        length, crc = sum(map(len, parts)), int.from_bytes(footer, "little")
        self._lengths.append(length)
        self._payload_crcs.append(crc)
        self._name_crcs.append(name_crc(name_in(b"".join(parts)) if name is None else name))
        self._pending_bytes += length + RECORD_OVERHEAD_BYTES
        if self._pending_bytes >= self._buffer_bytes:
            self._flush()
        return crc

    def write_framed(
        self,
        frames: bytes | memoryview,
        lengths: Positions,
        payload_crcs: Sums,
        names: Sums | None = None,
    ) -> None:
        """Appends records that carry their (verified) frames already, end to end.

        Args:
            frames: the framed records.
            lengths: `(records,) int64`, each payload's length in bytes.
            payload_crcs: `(records,) uint32`, each payload's masked CRC-32C.
            names: `(records,) uint32`, the CRC-32C of what they are called, 0 of one without; None:
                names are looked for in them.
        """
        self._flush()
        if names is None:
            ends = np.cumsum(lengths + RECORD_OVERHEAD_BYTES) - FOOTER_BYTES
            names = name_crcs(np.frombuffer(frames, np.uint8), ends - lengths, ends)
        self._emit(frames if self._gzip is None else self._gzip.compress(frames))
        self._lengths.frombytes(lengths.astype(np.uint64).tobytes())
        self._payload_crcs.frombytes(payload_crcs.astype(np.uint32).tobytes())
        self._name_crcs.frombytes(names.astype(np.uint32).tobytes())

    @property
    def index(self) -> RecordIndex:
        """Of the records written so far."""
        return RecordIndex(
            np.array(self._lengths, np.int64),
            np.array(self._payload_crcs, np.uint32),
            np.array(self._name_crcs, np.uint32),
        )

    def finish(self) -> ShardDigest:
        """Writes what is pending. The stream stays open; nothing may be written after this."""
        self._flush()
        if self._gzip is not None:
            self._emit(self._gzip.flush())
        lengths, crcs = np.array(self._lengths, np.int64), np.array(self._payload_crcs, np.uint32)
        return ShardDigest(len(lengths), self._bytes, self._crc, multiset_checksum(lengths, crcs))

    def _flush(self) -> None:
        block = b"".join(self._pending)
        self._pending.clear()
        self._pending_bytes = 0
        self._emit(block if self._gzip is None else self._gzip.compress(block))

    def _emit(self, block: bytes | memoryview) -> None:
        if block:
            self._stream.write(block)
            summed = block if isinstance(block, bytes) else np.frombuffer(block, np.uint8)
            self._crc = extend_crc32c(self._crc, summed)
            self._bytes += len(block)
