"""Writes one shard: framed records in, blocks out, and what the manifest says of it.

with open(temporary_path, "wb") as stream:
    writer = ShardWriter(stream)
    writer.write([example.SerializeToString()])
    digest = writer.finish()
"""

import array
import dataclasses
import zlib
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from trainer_utils.format.checksums import multiset_checksum
from trainer_utils.format.crc32c import extend_crc32c
from trainer_utils.format.framing import (
    FOOTER_BYTES,
    HEADER_BYTES,
    RECORD_OVERHEAD_BYTES,
    frame_parts,
)
from trainer_utils.format.index import RecordIndex, name_crc, name_crcs, name_in

__all__ = ["ShardDigest", "ShardWriter"]

_WRITE_BYTES = 1 << 20  # 1 MiB: few system calls, each of which lets another thread in
_GZIP_CONTAINER = 16 + zlib.MAX_WBITS


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardDigest:
    """What was written.

    Args:
        records: how many.
        bytes: of the file.
        crc32c: of all its bytes.
        content: the order-free checksum of the records.
    """

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
        self._bytes = 0
        self._crc = 0

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
        frames: bytes | memoryview | Sequence[memoryview],
        lengths: npt.NDArray[np.int64],
        payload_crcs: npt.NDArray[np.uint32],
        names: npt.NDArray[np.uint32] | None = None,
    ) -> None:
        """Appends records that carry their (verified) frames already.

        Args:
            frames: the framed records, end to end; or views of them one by one, which spares a
                copy of records so large that a write for each costs nothing.
            lengths: `(records,) int64`, each payload's length in bytes.
            payload_crcs: `(records,) uint32`, each payload's masked CRC-32C.
            names: `(records,) uint32`, the CRC-32C of what they are called, 0 of one without; None:
                names are looked for in them.
        """
        self._flush()
        blocks: Any = [frames] if isinstance(frames, bytes | memoryview) else frames
        if names is None:
            names = _name_crcs(blocks, lengths)
        for block in blocks:
            self._emit(block)
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
            self._emit_raw(self._gzip.flush())
        content = multiset_checksum(
            np.array(self._lengths, np.int64), np.array(self._payload_crcs, np.uint32)
        )
        return ShardDigest(
            records=len(self._lengths), bytes=self._bytes, crc32c=self._crc, content=content
        )

    def _flush(self) -> None:
        if self._pending:
            self._emit(b"".join(self._pending))
            self._pending.clear()
            self._pending_bytes = 0

    def _emit(self, block: bytes | memoryview) -> None:
        self._emit_raw(self._gzip.compress(block) if self._gzip is not None else block)

    def _emit_raw(self, block: bytes | memoryview) -> None:
        self._stream.write(block)
        summed = block if isinstance(block, bytes) else np.frombuffer(block, np.uint8)
        self._crc = extend_crc32c(self._crc, summed)
        self._bytes += len(block)


def _name_crcs(blocks: Any, lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """Of framed records, end to end in one block or a block each."""
    if len(blocks) == 1:
        ends = np.cumsum(lengths + RECORD_OVERHEAD_BYTES) - FOOTER_BYTES
        return name_crcs(np.frombuffer(blocks[0], np.uint8), ends - lengths, ends)
    names = [name_in(block[HEADER_BYTES:-FOOTER_BYTES]) for block in blocks]
    return np.array([*map(name_crc, names)], np.uint32)
