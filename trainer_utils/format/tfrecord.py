"""TFRecord files: their records found and verified, a block of many at a time.

for block in read_blocks(open("data_tfrecord-00000-of-00008", "rb"), path="…"):
    block.records()            # verified payloads
"""

import dataclasses
import struct
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from trainer_utils.format.errors import CorruptShardError
from trainer_utils.format.framing import (
    FOOTER_BYTES,
    HEADER_BYTES,
    RECORD_OVERHEAD_BYTES,
    Lengths,
    bad_headers,
    check_header,
    footers_of,
    headers_of,
    lengths_in,
    payload_crcs,
    raise_bad_checksum,
)

BLOCK_BYTES = 8 << 20  # 8 MiB: past the point where a larger read is any faster on disk or GCS
_MOST_BYTES_A_READ = 256 << 20  # so that a length made up by an attacker allocates no more
_VIEWED_FROM_BYTES = 4 << 10  # a record: a view costs 184 bytes and as much time as copying these

_LENGTH = struct.Struct("<Q")

Frame = bytes | memoryview
Starts = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class RecordBlock:
    """Consecutive whole, verified records of one file, still framed.

    Args:
        data: the framed records, end to end.
        starts: `(records,) int64`, where each record's frame begins in `data`.
        lengths: `(records,) int64`, each payload's length in bytes.
        payload_crcs: `(records,) uint32`, each payload's masked CRC-32C.
        file_offset: where `data` begins in its (decompressed) file, in bytes.
    """

    data: bytes
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    payload_crcs: npt.NDArray[np.uint32]
    file_offset: int

    def __len__(self) -> int:
        return len(self.starts)

    def records(self) -> list[bytes]:
        """The payloads, in order."""
        begins = self.starts + HEADER_BYTES
        ends = begins + self.lengths
        return [self.data[b:e] for b, e in zip(begins.tolist(), ends.tolist(), strict=True)]

    def record(self, number: int) -> bytes:
        """One payload."""
        begin = int(self.starts[number]) + HEADER_BYTES
        return self.data[begin : begin + int(self.lengths[number])]

    def frames(self) -> list[Frame]:
        """The framed records, in order: views of `data` where they are large, else copies."""
        ends = self.starts + self.lengths + RECORD_OVERHEAD_BYTES
        large = len(self.data) > _VIEWED_FROM_BYTES * len(self)
        view: Frame = memoryview(self.data) if large else self.data
        return [view[b:e] for b, e in zip(self.starts.tolist(), ends.tolist(), strict=True)]


def read_blocks(
    stream: BinaryIO, *, path: str, block_bytes: int = BLOCK_BYTES
) -> Iterator[RecordBlock]:
    """Reads and verifies a TFRecord stream, uncompressed, from where it stands to its end, in
    blocks of about `block_bytes` of whole records; a longer record is held whole.

    Raises:
        CorruptShardError: a sum does not agree, or the stream ends inside a record.
    """
    record_number = 0
    for data, starts, end, offset in _whole_frames(stream, path, block_bytes):
        block = _verified_block(data, starts, end, path, record_number, offset)
        yield block
        record_number += len(block)


def read_records(stream: BinaryIO, *, path: str) -> Iterator[bytes]:
    """The verified payloads of a TFRecord stream, one after the other; errors as `read_blocks`."""
    for block in read_blocks(stream, path=path):
        yield from block.records()


def compact(lengths: Lengths) -> Lengths:
    """The same numbers in the smallest unsigned type, of two bytes or more, that holds them."""
    longest = int(lengths.max(initial=0))
    width = next(n for n in (2, 4, 8) if longest < 1 << 8 * n)
    return lengths.astype(f"<u{width}")


def count_records(stream: BinaryIO, *, path: str) -> tuple[int, int]:
    """How many records a stream holds, and how many bytes with frames; errors as `scan_lengths`."""
    lengths = scan_lengths(stream, path=path)
    return len(lengths), int(lengths.sum(dtype=np.int64)) + RECORD_OVERHEAD_BYTES * len(lengths)


def scan_lengths(stream: BinaryIO, *, path: str) -> Lengths:
    """The payloads' lengths in bytes, in file order: `(records,)` of the smallest unsigned type.

    The checksums of the lengths are checked, those of the payloads are not: four times as fast as
    `read_blocks`, whose errors it raises.
    """
    lengths, damage = scan_until_damage(stream, path=path)
    if damage is not None:
        raise damage
    return lengths


def scan_until_damage(stream: BinaryIO, *, path: str) -> tuple[Lengths, CorruptShardError | None]:
    """As `scan_lengths`, of the records before the first damaged one, and what is wrong there."""
    found: list[Lengths] = [np.zeros(0, np.uint16)]
    records = 0
    try:
        for data, starts, end, offset in _whole_frames(stream, path, BLOCK_BYTES):
            lengths = np.diff(starts, append=end) - RECORD_OVERHEAD_BYTES
            if (bad := bad_headers(headers_of(data, starts))).any():
                index = int(bad.argmax())
                found.append(compact(lengths[:index]))
                raise_bad_checksum("length", path, records + index, offset + int(starts[index]))
            found.append(compact(lengths))
            records += len(starts)
    except CorruptShardError as error:
        return np.concatenate(found), error
    return np.concatenate(found), None


def _whole_frames(
    stream: BinaryIO, path: str, block_bytes: int
) -> Iterator[tuple[bytes, Starts, int, int]]:
    """Blocks of whole frames: data, where each begins, where the last ends, the data's offset."""
    offset = record_number = 0
    pending = b""
    while True:
        missing_bytes = _missing_bytes(pending, path, record_number, offset)
        chunk = stream.read(max(block_bytes, min(missing_bytes, _MOST_BYTES_A_READ)))
        if not chunk:
            break
        pending = pending + chunk if pending else chunk
        starts, end = _frame_starts(pending)
        if len(starts):
            yield pending, starts, end, offset
            offset += end
            record_number += len(starts)
            pending = pending[end:]
    if pending:
        check_header(pending, path, record_number, offset)
        raise CorruptShardError.at(
            path,
            expected="a whole record",
            got="the end of the file",
            record=record_number,
            offset=offset,
            advice="The file is truncated: write it again.",
        )


def _frame_starts(data: bytes) -> tuple[Starts, int]:
    """Where each whole frame in `data` begins, and where the last one ends."""
    starts, position = [], 0
    size, unpack = len(data), _LENGTH.unpack_from
    while position + RECORD_OVERHEAD_BYTES <= size:
        end = position + RECORD_OVERHEAD_BYTES + unpack(data, position)[0]
        if end > size:
            break
        starts.append(position)
        position = end
    return np.array(starts, np.int64), position


def _verified_block(
    data: bytes, starts: Starts, end: int, path: str, record_number: int, offset: int
) -> RecordBlock:
    # A wrong length leads the walk astray, so the first bad header is where the file is bad.
    headers = headers_of(data, starts)
    lengths = np.diff(starts, append=end) - RECORD_OVERHEAD_BYTES
    bad = bad_headers(headers) | (lengths_in(headers) != lengths)
    frame_ends = np.append(starts[1:], end)
    footers, ends = footers_of(data, frame_ends), frame_ends - FOOTER_BYTES
    trusted = len(starts) if not bad.any() else int(bad.argmax())
    crcs = payload_crcs(data, starts[:trusted] + HEADER_BYTES, ends[:trusted])
    wrong = crcs != footers[:trusted]
    if wrong.any():
        index = int(wrong.argmax())
        raise_bad_checksum("payload", path, record_number + index, offset + int(starts[index]))
    if trusted < len(starts):
        raise_bad_checksum("length", path, record_number + trusted, offset + int(starts[trusted]))
    whole = data if end == len(data) else data[:end]
    return RecordBlock(whole, starts, lengths, footers, offset)


def _missing_bytes(pending: bytes, path: str, record_number: int, offset: int) -> int:
    """How much of the record that `pending` begins with has not been read yet."""
    if len(pending) < HEADER_BYTES:
        return 0
    check_header(pending, path, record_number, offset)
    return int(_LENGTH.unpack_from(pending)[0]) + RECORD_OVERHEAD_BYTES - len(pending)
