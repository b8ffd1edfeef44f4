"""Where every record of a shard lies, so that a reader can reach any of them without scanning.

    index = RecordIndex.from_bytes(data, path=…, shard=shard)    # compared with the manifest
    index.read(stream, 17, path=…)                               # the 18th record, verified

On disk it is a NumPy array (`.npy`, which anything reads) of the payloads' lengths in the smallest
unsigned integer that holds them: 2 bytes a record of text, 4 an image. The offsets follow from it.
"""

import dataclasses
import functools
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from trainer_utils.format.crc32c import Buffer, extend_crc32c
from trainer_utils.format.errors import CorruptShardError
from trainer_utils.format.framing import (
    HEADER_BYTES,
    RECORD_OVERHEAD_BYTES,
    Lengths,
    frame_headers,
    headers_of,
    read_record_at,
)
from trainer_utils.format.manifest import Shard
from trainer_utils.format.npy import npy_bytes, parse_npy
from trainer_utils.format.tfrecord import compact

__all__ = ["RecordIndex"]

_WHAT = "a record index"


@dataclasses.dataclass(frozen=True, eq=False)
class RecordIndex:
    """The place of each record of one shard.

    Args:
        lengths: `(records,)` of any integer type, each payload's length in bytes, in file order.
    """

    lengths: Lengths

    def __len__(self) -> int:
        return len(self.lengths)

    @functools.cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """`(records + 1,) int64`: where each record's frame begins, and where the last one ends.

        In bytes of the uncompressed file: a gzip shard can be reached so only by decompressing it.
        """
        offsets = np.arange(len(self) + 1, dtype=np.int64) * RECORD_OVERHEAD_BYTES
        offsets[1:] += np.cumsum(self.lengths, dtype=np.int64)
        return offsets

    @property
    def framed_bytes(self) -> int:
        """Of the uncompressed file."""
        return int(self.lengths.sum(dtype=np.int64)) + RECORD_OVERHEAD_BYTES * len(self)

    def check_headers(self, chunk: Buffer, *, offset: int, path: str) -> None:
        """Checks that records begin where the index says, in a part of the shard.

        Args:
            chunk: the part, uncompressed; a header that is cut at an end of it is left out.
            offset: where it begins in the shard, in bytes.
            path: the shard's name, for error messages.

        Raises:
            CorruptShardError: a header has another length, or its checksum does not agree.
        """
        first, stop = np.searchsorted(
            self.offsets[:-1], (offset, offset + len(chunk) - HEADER_BYTES + 1)
        ).tolist()
        headers = headers_of(chunk, self.offsets[first:stop] - offset)
        expected = frame_headers(self.lengths[first:stop])
        if headers.tobytes() != expected.tobytes():
            number = first + int((headers != expected).any(axis=1).argmax())
            raise CorruptShardError.at(
                path,
                expected=f"a record of {self.lengths[number]} bytes as the index says",
                got="none or a damaged one",
                record=number,
                offset=int(self.offsets[number]),
            )

    def read(self, stream: BinaryIO, number: int, *, path: str) -> bytes:
        """The payload of a record, verified.

        Args:
            stream: the shard, seekable and not compressed.
            number: of the record, in [0, len(index)).
            path: the shard's name, for error messages.

        Raises:
            CorruptShardError: the record is damaged, or is not where the index says.
            IndexError: there is no record of that number.
        """
        if not 0 <= number < len(self):
            raise IndexError(f"record {number}: expected 0 <= record < {len(self)} ({path})")
        return read_record_at(
            stream,
            offset=int(self.offsets[number]),
            length=int(self.lengths[number]),
            path=path,
            record=number,
        )

    def to_bytes(self) -> bytes:
        """The index as it lies on disk."""
        return npy_bytes(compact(self.lengths))

    @classmethod
    def from_bytes(cls, data: bytes, *, path: str, shard: Shard | None = None) -> "RecordIndex":
        """Reads what `to_bytes` made.

        Args:
            data: the file's.
            path: its name, for error messages.
            shard: what the manifest says of its shard, to be compared with.

        Raises:
            CorruptShardError: it is no such array, or not the one of the manifest's shard.
        """
        lengths, size = parse_npy(data, path=path, what=_WHAT)
        if len(data) != size:
            raise CorruptShardError.at(
                path,
                expected=f"{_WHAT} of {size} bytes",
                got=str(len(data)),
                offset=size,
                advice="It is damaged: write the dataset again.",
            )
        index = cls(lengths)
        if shard is not None:
            index._check(shard, extend_crc32c(0, data), path)
        return index

    def _check(self, shard: Shard, crc: int, path: str) -> None:
        framed_bytes = self.framed_bytes
        expected = (shard.records, shard.bytes, shard.index_crc32c)
        found = (
            len(self),
            shard.bytes if shard.path.endswith(".gz") else framed_bytes,
            crc if shard.index_crc32c is not None else None,
        )
        if found != expected:
            raise CorruptShardError.at(
                path,
                expected=f"the index of {shard.records} records in {shard.bytes} bytes that the "
                "manifest names",
                got=f"{len(self)} in {framed_bytes}",
                advice="It is of another shard, or damaged: write the dataset again.",
            )
