"""TFRecord framing: records to bytes and back, a block of many records at a time.

    block = frame_records([b"first", b"second"])
    for block in read_blocks(open("data_tfrecord-00000-of-00008", "rb"), path="…"):
        block.records()            # verified payloads

A record is an 8-byte little-endian length, the length's masked CRC-32C, the payload, and the
payload's masked CRC-32C. Every sum of every record is checked; what makes that fast is that
the lengths' sums are vectorised over a block and that a payload is never copied to be checked.

Source: `tensorflow/core/lib/io/record_writer.h`.
"""

import dataclasses
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, NoReturn

import google_crc32c
import numpy as np
import numpy.typing as npt

from trainer_utils.format.crc32c import mask_crc32c, masked_crc32c, masked_crc32c_of_rows
from trainer_utils.format.errors import CorruptShardError

__all__ = [
    "BLOCK_BYTES",
    "HEADER_BYTES",
    "RECORD_OVERHEAD_BYTES",
    "Lengths",
    "RecordBlock",
    "bad_headers",
    "compact",
    "count_records",
    "footers_of",
    "frame_footers",
    "frame_headers",
    "frame_parts",
    "frame_records",
    "headers_of",
    "read_blocks",
    "read_record_at",
    "read_records",
    "scan_lengths",
    "scan_until_damage",
    "unframe",
]

LENGTH_BYTES = 8
HEADER_BYTES = LENGTH_BYTES + 4
FOOTER_BYTES = 4
RECORD_OVERHEAD_BYTES = HEADER_BYTES + FOOTER_BYTES
BLOCK_BYTES = 8 << 20  # 8 MiB: past the point where a larger read is any faster on disk or GCS
_MOST_BYTES_A_READ = 256 << 20  # so that a length made up by an attacker allocates no more
_VIEWED_FROM_BYTES = 4 << 10  # a record: a view costs 184 bytes and as much time as copying these

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")

Frame = bytes | memoryview
Lengths = npt.NDArray[np.integer[Any]]
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

    def frames(self) -> list[Frame]:
        """The framed records, in order: views of `data` where they are large, else copies."""
        ends = self.starts + self.lengths + RECORD_OVERHEAD_BYTES
        large = len(self.data) > _VIEWED_FROM_BYTES * len(self)
        view: Frame = memoryview(self.data) if large else self.data
        return [view[b:e] for b, e in zip(self.starts.tolist(), ends.tolist(), strict=True)]


def frame_parts(parts: Sequence[bytes]) -> tuple[bytes, bytes]:
    """What stands before and after a record that is given in parts, end to end."""
    length = _LENGTH.pack(sum(map(len, parts)))
    return length + _CRC.pack(masked_crc32c(length)), _CRC.pack(masked_crc32c(*parts))


def frame_records(records: Iterable[bytes]) -> bytes:
    """Records, framed, end to end: the content of a TFRecord file."""
    framed: list[bytes] = []
    for record in records:
        header, footer = frame_parts([record])
        framed += (header, record, footer)
    return b"".join(framed)


def frame_headers(lengths: Lengths) -> npt.NDArray[np.uint8]:
    """What stands before records of `(n,)` bytes: `(n, 12) uint8`."""
    headers = np.empty((len(lengths), HEADER_BYTES), np.uint8)
    headers[:, :LENGTH_BYTES] = lengths.astype("<u8").view(np.uint8).reshape(-1, LENGTH_BYTES)
    sums = masked_crc32c_of_rows(headers[:, :LENGTH_BYTES])
    headers[:, LENGTH_BYTES:] = sums.astype("<u4").view(np.uint8).reshape(-1, 4)
    return headers


def frame_footers(crcs: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
    """What stands after records of these CRC-32C, `(n,)`, not masked: `(n, 4) uint8`."""
    return mask_crc32c(crcs).astype("<u4").view(np.uint8).reshape(-1, FOOTER_BYTES)


def footers_of(data: Any, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """The masked CRC-32C of the payloads whose frames end at `ends`: `(n,) uint32`."""
    octets = np.frombuffer(data, np.uint8)
    return octets[ends[:, None] + np.arange(-FOOTER_BYTES, 0)].view("<u4")[:, 0]


def unframe(frame: bytes, *, path: str, record: int | None = None, offset: int) -> bytes:
    """The payload of one frame, verified.

    Args:
        frame: all of it.
        path: the file's name, for error messages.
        record: its number in the file, if it is known.
        offset: where it begins there, in bytes.

    Raises:
        CorruptShardError: it is no whole frame, has another length, or a sum does not agree.
    """
    payload = frame[HEADER_BYTES:-FOOTER_BYTES]
    header, footer = frame_parts([payload])
    if len(frame) >= RECORD_OVERHEAD_BYTES and frame[:HEADER_BYTES] == header:
        if frame[-FOOTER_BYTES:] == footer:
            return payload
        _raise_bad_sum("payload", path, record, offset)
    _check_header(frame, path, record, offset)
    raise CorruptShardError.at(
        path,
        expected=f"a whole record of {max(len(frame) - RECORD_OVERHEAD_BYTES, 0)} bytes",
        got="another, or the end of the file",
        record=record,
        offset=offset,
        advice="The file is damaged: write it again.",
    )


def read_blocks(
    stream: BinaryIO,
    *,
    path: str,
    block_bytes: int = BLOCK_BYTES,
    lengths: Lengths | None = None,
) -> Iterator[RecordBlock]:
    """Reads and verifies a TFRecord stream in blocks of whole records.

    Args:
        stream: yields the uncompressed bytes; read from where it stands to its end.
        path: the file's name, for error messages.
        block_bytes: about how much is held at a time; a longer record is held whole.
        lengths: of the payloads, as an index has them. They spare the walk from header to header,
            a third of the time where records are short, and are checked like all else.

    Yields:
        Blocks in file order, each of at least one record.

    Raises:
        CorruptShardError: a sum does not agree, or the stream ends inside a record. The message
            names `path`, the record's number and its byte offset.
    """
    record_number = 0
    for data, starts, end, offset in _whole_frames(stream, path, block_bytes, lengths):
        block = _verified_block(data, starts, end, path, record_number, offset)
        yield block
        record_number += len(block)


def compact(lengths: Lengths) -> Lengths:
    """The same numbers in the smallest of the unsigned types of 2, 4 or 8 bytes that holds them."""
    longest = int(lengths.max(initial=0))
    width = next(width for width in (2, 4, 8) if longest < 1 << 8 * width)
    return lengths.astype(f"<u{width}")


def count_records(stream: BinaryIO, *, path: str) -> tuple[int, int]:
    """How many records a TFRecord stream holds, and how many bytes with their frames.

    Raises:
        CorruptShardError: as `scan_lengths`.
    """
    lengths = scan_lengths(stream, path=path)
    return len(lengths), int(lengths.sum(dtype=np.int64)) + RECORD_OVERHEAD_BYTES * len(lengths)


def scan_lengths(stream: BinaryIO, *, path: str) -> Lengths:
    """The payloads' lengths in bytes, in file order: `(records,)` of the smallest unsigned type.

    The sums of the lengths are checked, those of the payloads are not: four times as fast as
    `read_blocks` where the payloads will be read later anyway.

    Raises:
        CorruptShardError: as `read_blocks`.
    """
    lengths, damage = scan_until_damage(stream, path=path)
    if damage is not None:
        raise damage
    return lengths


def scan_until_damage(stream: BinaryIO, *, path: str) -> tuple[Lengths, CorruptShardError | None]:
    """As `scan_lengths`, of the records before the first that is damaged, and what is wrong there.

    Returns:
        The payloads' lengths in bytes, and None where the whole stream is good.
    """
    found: list[Lengths] = [np.zeros(0, np.uint16)]
    records = 0
    try:
        for data, starts, end, offset in _whole_frames(stream, path, BLOCK_BYTES):
            lengths = np.diff(starts, append=end) - RECORD_OVERHEAD_BYTES
            if (bad := bad_headers(headers_of(data, starts))).any():
                index = int(bad.argmax())
                found.append(compact(lengths[:index]))
                _raise_bad_sum("length", path, records + index, offset + int(starts[index]))
            found.append(compact(lengths))
            records += len(starts)
    except CorruptShardError as error:
        return np.concatenate(found), error
    return np.concatenate(found), None


def read_record_at(
    stream: BinaryIO, *, offset: int, length: int, path: str, record: int | None = None
) -> bytes:
    """One verified payload, from where an index says that it lies.

    Args:
        stream: a seekable stream of uncompressed bytes.
        offset: of the record's frame in the stream, in bytes.
        length: of the payload, in bytes.
        path: the file's name, for error messages.
        record: its number in the file, if it is known, for error messages.

    Raises:
        CorruptShardError: there is no such record at that place, or it is damaged.
    """
    stream.seek(offset)
    frame = stream.read(length + RECORD_OVERHEAD_BYTES)
    return unframe(frame, path=path, record=record, offset=offset)


def read_records(stream: BinaryIO, *, path: str) -> Iterator[bytes]:
    """The verified payloads of a TFRecord stream, one after the other; errors as `read_blocks`."""
    for block in read_blocks(stream, path=path):
        yield from block.records()


def _whole_frames(
    stream: BinaryIO, path: str, block_bytes: int, lengths: Lengths | None = None
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
        starts, end = _frame_starts(pending, lengths, record_number)
        if len(starts):
            yield pending, starts, end, offset
            offset += end
            record_number += len(starts)
            pending = pending[end:]
    if pending:
        _check_header(pending, path, record_number, offset)
        raise CorruptShardError.at(
            path,
            expected="a whole record",
            got="the end of the file",
            record=record_number,
            offset=offset,
            advice="The file is truncated: write it again.",
        )


def _frame_starts(data: bytes, lengths: Lengths | None, record_number: int) -> tuple[Starts, int]:
    """Where each whole frame in `data` begins, and where the last one ends."""
    if lengths is None or record_number >= len(lengths):
        return _walked_starts(data, 0)
    known, end = _known_starts(lengths[record_number:], len(data))
    if record_number + len(known) < len(lengths):
        return known, end
    more, end = _walked_starts(data, end)  # there should be none; the reader will say so
    return np.concatenate([known, more]), end


def _known_starts(lengths: Lengths, size: int) -> tuple[Starts, int]:
    most = size // RECORD_OVERHEAD_BYTES + 1
    ends = np.cumsum(lengths[:most].astype(np.int64) + RECORD_OVERHEAD_BYTES)
    count = int(np.searchsorted(ends, size, side="right"))
    starts = np.zeros(count, np.int64)
    starts[1:] = ends[: max(count - 1, 0)]
    return starts, int(ends[count - 1]) if count else 0


def _walked_starts(data: bytes, position: int) -> tuple[Starts, int]:
    starts = []
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
    bad = bad_headers(headers) | (_lengths_in(headers) != lengths)
    frame_ends = np.append(starts[1:], end)
    footers, ends = footers_of(data, frame_ends), frame_ends - FOOTER_BYTES
    trusted = len(starts) if not bad.any() else int(bad.argmax())
    crc = google_crc32c.value
    begins_list = (starts[:trusted] + HEADER_BYTES).tolist()
    sums = np.array(
        [crc(data[b:e]) for b, e in zip(begins_list, ends[:trusted].tolist(), strict=True)],
        np.uint32,
    )
    wrong = mask_crc32c(sums) != footers[:trusted]
    if wrong.any():
        index = int(wrong.argmax())
        _raise_bad_sum("payload", path, record_number + index, offset + int(starts[index]))
    if trusted < len(starts):
        _raise_bad_sum("length", path, record_number + trusted, offset + int(starts[trusted]))
    whole = data if end == len(data) else data[:end]
    return RecordBlock(whole, starts, lengths, footers, offset)


def headers_of(data: bytes, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """The headers that begin at `starts`: `(records, 12) uint8`."""
    return np.frombuffer(data, np.uint8)[starts[:, None] + np.arange(HEADER_BYTES)]


def _lengths_in(headers: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    return headers[:, :LENGTH_BYTES].copy().view("<i8")[:, 0]


def bad_headers(headers: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Which headers' sums do not agree: `(records,) bool`."""
    sums = headers[:, LENGTH_BYTES:].copy().view("<u4")[:, 0]
    return np.not_equal(masked_crc32c_of_rows(headers[:, :LENGTH_BYTES]), sums)


def _missing_bytes(pending: bytes, path: str, record_number: int, offset: int) -> int:
    """How much of the record that `pending` begins with has not been read yet."""
    if len(pending) < HEADER_BYTES:
        return 0
    _check_header(pending, path, record_number, offset)
    return int(_LENGTH.unpack_from(pending)[0]) + RECORD_OVERHEAD_BYTES - len(pending)


def _check_header(data: bytes, path: str, record_number: int | None, offset: int) -> None:
    """Refuses a length whose sum is wrong before anything is allocated for it."""
    if len(data) < HEADER_BYTES:
        return
    if masked_crc32c(data[:LENGTH_BYTES]) != _CRC.unpack_from(data, LENGTH_BYTES)[0]:
        _raise_bad_sum("length", path, record_number, offset)


def _raise_bad_sum(what: str, path: str, record_number: int | None, offset: int) -> NoReturn:
    raise CorruptShardError.at(
        path,
        expected=f"the {what}'s checksum to agree",
        got="another one",
        record=record_number,
        offset=offset,
        advice="The file is damaged: write it again.",
    )
