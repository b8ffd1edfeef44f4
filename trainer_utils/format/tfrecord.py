"""Frame, find and verify records of TFRecord files, many at a time, and compute their CRC-32C.

    for block in read_blocks(open("data_tfrecord-00000-of-00008", "rb"), path="…"):
        block.records()            # verified payloads
    unframe(frame, path="…", offset=0)             # one payload, verified

A record is an 8-byte little-endian length, the length's masked CRC-32C, the payload, and the
payload's masked CRC-32C. google-crc32c sums payloads, with SSE 4.2 or ARMv8 instructions. Numpy
sums all lengths together: for short records, a call for each would cost more than everything else.

Source: `tensorflow/core/lib/io/record_writer.h`; the polynomial is Castagnoli's (RFC 3720, appendix
B.4); the mask, a rotation by 15 bits and a constant, is from `tsl/lib/hash/crc32c.h`.
"""

import dataclasses
import functools
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO

import google_crc32c
import numpy as np
import numpy.typing as npt

from trainer_utils.core.errors import CorruptShardError
from trainer_utils.format.hashing import splitmix64

HEADER_BYTES = 12
FOOTER_BYTES = 4
RECORD_OVERHEAD_BYTES = HEADER_BYTES + FOOTER_BYTES
BLOCK_BYTES = 8 << 20  # 8 MiB: larger reads are no faster, on disk or GCS

_MAX_BYTES_A_READ = 256 << 20  # bounds the allocation for a forged length
_VIEWED_FROM_BYTES = 4 << 10  # a record: a view takes 184 bytes, and as long as copying these
_GZIP = b"\x1f\x8b"
_LENGTH, _CRC = struct.Struct("<Q"), struct.Struct("<I")
_HEADER = np.dtype([("length", "<i8"), ("crc", "<u4")])

_MASK_DELTA = 0xA282EAD8
_POLYNOMIAL = 0x82F63B78  # Castagnoli, bits reversed
_ONE = 1 << 31  # x**0, bits reversed
_LONG_BYTES = 64 << 10  # a scan reads only the headers of records that are longer in the mean
_MAX_HEADERS = 1024  # headers that are read until the mean is looked at again
_TRUNCATED = "expected a whole record, got the end of the file"
_FEW = 64  # up to this many, single calls are faster: numpy's steps take 50 us for any number

Buffer = bytes | npt.NDArray[np.uint8]  # the types that google-crc32c takes without a copy
Sums = npt.NDArray[np.uint32]
Lengths = npt.NDArray[np.integer[Any]]
Positions = npt.NDArray[np.int64]


def extend_crc32c(crc: int, data: Buffer) -> int:
    """Return the CRC-32C of data with the checksum `crc` (0 if empty) followed by `data`."""
    return int(google_crc32c.extend(crc, data))


def combine_crc32c(first: int, second: int, second_bytes: int) -> int:
    """Return the CRC-32C of two concatenated buffers from their checksums and the second's length.

    Source: `crc32_combine` of zlib 1.2.12 (Mark Adler): the first sum, times x to the power of the
    bits after it, modulo the polynomial.
    """
    square, shift = _ONE >> 8, second_bytes  # x**8: one byte
    while shift:
        if shift & 1:
            first = _multiply(square, first)
        square, shift = _multiply(square, square), shift >> 1
    return first ^ second


def _multiply(first: int, other: int) -> int:
    """Return the product of two polynomials modulo Castagnoli's, bits reversed."""
    product = 0
    while first:
        if first & _ONE:
            product ^= other
        first = first << 1 & 0xFFFFFFFF
        other = other >> 1 ^ (_POLYNOMIAL if other & 1 else 0)
    return product


def masked_crc32c(*parts: Buffer) -> int:
    """Return the masked CRC-32C of one or several concatenated buffers, as in TFRecord files."""
    crc = 0
    for part in parts:
        crc = google_crc32c.extend(crc, part)
    return int(((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF)


def mask_crc32c(crcs: Sums) -> Sums:
    """Return the masked form of `(n,) uint32` checksums."""
    return (crcs >> np.uint32(15) | crcs << np.uint32(17)) + np.uint32(_MASK_DELTA)


def masked_crc32c_of_lengths(lengths: npt.NDArray[np.integer[Any]]) -> Sums:
    """Return the masked CRC-32C of `(n,)` lengths in a frame's form: 8 bytes, little-endian."""
    octets = lengths.astype("<i8").view(np.uint8).reshape(-1, 8)
    if len(lengths) <= _FEW:
        crcs = np.array([google_crc32c.value(row.tobytes()) for row in octets], np.uint32)
        return mask_crc32c(crcs)
    crcs = np.full(len(lengths), 0xFFFFFFFF, np.uint32)
    for column in octets.T:
        crcs = _TABLE[(crcs ^ column) & 0xFF] ^ (crcs >> np.uint32(8))
    return mask_crc32c(crcs ^ np.uint32(0xFFFFFFFF))


_TABLE: Sums = np.arange(256, dtype=np.uint32)  # indexed by byte
for _ in range(8):
    _TABLE = np.where(_TABLE & 1, _TABLE >> 1 ^ np.uint32(_POLYNOMIAL), _TABLE >> 1)


def multiset_checksum(lengths: npt.NDArray[np.int64], payload_crcs: Sums) -> int:
    """Return an unsigned 64-bit checksum of records that does not depend on their order.

    The length and CRC-32C of each record are mixed and added. A lost, duplicate or replaced record
    changes the sum.

    Args:
        lengths: `(records,) int64`, each payload's length in bytes.
        payload_crcs: `(records,) uint32`, each payload's masked CRC-32C, as in its frame.
    """
    mixed = lengths.astype(np.uint64) << np.uint64(32) | payload_crcs.astype(np.uint64)
    return int(np.sum(splitmix64(mixed, np.uint64(1)), dtype=np.uint64))


def combine_checksums(sums: Iterable[int]) -> int:
    """Return the `multiset_checksum` of several groups of records together."""
    return sum(sums) % 2**64


def frame_parts(parts: Sequence[Buffer]) -> tuple[bytes, bytes]:
    """Return the header and the footer of a record that is given in parts."""
    return _header(sum(map(len, parts))), _CRC.pack(masked_crc32c(*parts))


@functools.lru_cache(maxsize=4096)  # short records have few lengths: saves a third of the time
def _header(length: int) -> bytes:
    octets = _LENGTH.pack(length)
    return octets + _CRC.pack(masked_crc32c(octets))


def frame_headers(lengths: Lengths) -> npt.NDArray[np.uint8]:
    """Return the frame headers of records of `(n,)` bytes: `(n, 12) uint8`."""
    headers = np.empty(len(lengths), _HEADER)
    headers["length"], headers["crc"] = lengths, masked_crc32c_of_lengths(lengths)
    return headers.view(np.uint8).reshape(-1, HEADER_BYTES)


def frame_footers(crcs: Sums) -> npt.NDArray[np.uint8]:
    """Return the frame footers of records with these unmasked `(n,)` CRC-32C: `(n, 4) uint8`."""
    return mask_crc32c(crcs).astype("<u4").view(np.uint8).reshape(-1, FOOTER_BYTES)


def footers_of(data: Any, stops: Positions) -> Sums:
    """Return the masked CRC-32C of payloads with frames that end at `stops`: `(n,) uint32`."""
    octets = np.frombuffer(data, np.uint8)
    return octets[stops[:, None] + np.arange(-FOOTER_BYTES, 0)].view("<u4")[:, 0]


def check_frames(
    data: Buffer, starts: Positions, stops: Positions
) -> tuple[Sums, npt.NDArray[np.bool_]]:
    """Verify the frames `[starts, stops)` in a buffer.

    Returns:
        `(records,) uint32`, the masked CRC-32C that each frame stores for its payload; `(records,)
        bool`, whether the length, the payload and both checksums of each frame are right.
    """
    footers, is_whole = footers_of(data, stops), _check_headers(data, starts, stops)
    begins, ends = (starts + HEADER_BYTES).tolist(), (stops - FOOTER_BYTES).tolist()
    is_viewed = len(data) > _VIEWED_FROM_BYTES * len(starts)
    octets: Any = np.frombuffer(data, np.uint8) if is_viewed else data
    crc, bounds = google_crc32c.value, zip(begins, ends, strict=True)
    crcs = np.array([crc(octets[begin:end]) for begin, end in bounds], np.uint32)
    is_whole &= mask_crc32c(crcs) == footers
    return footers, is_whole


def _check_headers(data: Buffer, starts: Positions, stops: Positions) -> npt.NDArray[np.bool_]:
    """Return whether the headers of the frames `[starts, stops)` are intact, with these lengths."""
    octets = np.frombuffer(data, np.uint8)[starts[:, None] + np.arange(HEADER_BYTES)]
    headers = octets.view(_HEADER)[:, 0]
    lengths = stops - starts - RECORD_OVERHEAD_BYTES
    is_whole: npt.NDArray[np.bool_] = headers["length"] == lengths
    is_whole &= headers["crc"] == masked_crc32c_of_lengths(headers["length"])
    return is_whole


def begins_with_frame(data: bytes) -> bool:
    """Return whether data begins with a record's length and the right checksum."""
    head = data[:HEADER_BYTES]
    return len(head) == HEADER_BYTES and head == _header(*_LENGTH.unpack_from(head))


def begins_with_gzip(head: bytes) -> bool:
    """Return whether a file begins as gzip does, and not with a record of a length like that."""
    return head.startswith(_GZIP) and not begins_with_frame(head)


def begins_with_zlib(head: bytes) -> bool:
    """Return whether data, of about a hundred bytes or more, begins a zlib stream of records.

    TensorFlow writes such files with `TFRecordOptions("ZLIB")`. Source: RFC 1950.
    """
    is_header = len(head) > 1 and head[0] & 15 == 8 and int.from_bytes(head[:2], "big") % 31 == 0
    if not is_header or begins_with_frame(head):
        return False
    try:
        return begins_with_frame(zlib.decompressobj().decompress(head, HEADER_BYTES))
    except zlib.error:
        return False


def unframe(frame: bytes, *, path: str, record: int | None = None, offset: int) -> bytes:
    """Return the verified payload of one frame.

    Args:
        frame: the whole frame.
        path: the file, for messages.
        record: the index of the record, for messages.
        offset: the offset of the frame in bytes, for messages.

    Raises:
        CorruptShardError: the frame is incomplete, has another length, or a checksum is wrong.
    """
    payload = frame[HEADER_BYTES:-FOOTER_BYTES]
    header, footer = frame_parts([payload])
    if len(frame) < RECORD_OVERHEAD_BYTES or frame[:HEADER_BYTES] != header:
        _check_header(frame, path, record, offset)
        size = max(len(frame) - RECORD_OVERHEAD_BYTES, 0)
        got = "a record of another size, or the end of the file"
        problem = f"expected a whole record of {size} bytes, got {got}"
    elif frame[-FOOTER_BYTES:] != footer:
        problem = _mismatch("payload", frame[-FOOTER_BYTES:], footer)
    else:
        return payload
    raise _damage(path, record, offset, problem)


def _mismatch(what: str, stored: bytes, computed: bytes) -> str:
    """Return a message with both checksums, masked as in the file."""
    numbers = [f"0x{int.from_bytes(crc, 'little'):08x}" for crc in (stored, computed)]
    return f"{what} CRC mismatch: stored {numbers[0]}, computed {numbers[1]}"


def _check_header(data: bytes, path: str, record: int | None, offset: int) -> None:
    """Raise CorruptShardError if a length's checksum is wrong before memory is allocated for it."""
    if len(data) >= HEADER_BYTES and not begins_with_frame(data):
        if not offset and begins_with_zlib(data):
            raise CorruptShardError.at(
                path,
                expected="uncompressed records, since the name of the remote file has no .zlib",
                got="a zlib stream",
                record=record,
                offset=offset,
                advice="Give it a name that ends in .zlib, or copy it to this machine.",
            )
        raise _damage(path, record, offset, "length CRC mismatch")


def _damage(
    path: str, record: int | None, offset: int, problem: str, what: str = "damaged"
) -> CorruptShardError:
    place = f"byte {offset}" if record is None else f"record {record}, byte {offset}"
    cure = f"The file is {what}: write it again, or run convert with --verify-output."
    message = f"{path!r}: {problem} ({place}). {cure}"
    return CorruptShardError(message, path=path, record=record, offset=offset)


@dataclasses.dataclass(frozen=True)
class RecordBlock:
    """Consecutive whole, verified records of one file, still framed.

    Args:
        data: the framed records, end to end.
        starts: `(records,) int64`, the offset of each record's frame in `data`.
        lengths: `(records,) int64`, each payload's length in bytes.
        payload_crcs: `(records,) uint32`, each payload's masked CRC-32C.
        file_offset: the offset of `data` in its (decompressed) file, in bytes.
    """

    data: bytes
    starts: Positions
    lengths: Positions
    payload_crcs: Sums
    file_offset: int

    def __len__(self) -> int:
        return len(self.starts)

    def records(self) -> list[bytes]:
        """Return the payloads, in order."""
        begins = self.starts + HEADER_BYTES
        ends = begins + self.lengths
        return [self.data[b:e] for b, e in zip(begins.tolist(), ends.tolist(), strict=True)]

    def record(self, number: int) -> bytes:
        """Return one payload."""
        begin = int(self.starts[number]) + HEADER_BYTES
        return self.data[begin : begin + int(self.lengths[number])]

    def frames(self) -> list[bytes | memoryview]:
        """Return the framed records, in order: views of `data` if they are large, else copies."""
        ends = self.starts + self.lengths + RECORD_OVERHEAD_BYTES
        large = len(self.data) > _VIEWED_FROM_BYTES * len(self)
        view: bytes | memoryview = memoryview(self.data) if large else self.data
        return [view[b:e] for b, e in zip(self.starts.tolist(), ends.tolist(), strict=True)]


def read_blocks(
    stream: BinaryIO, *, path: str, block_bytes: int = BLOCK_BYTES
) -> Iterator[RecordBlock]:
    """Read and verify an uncompressed TFRecord stream from its position to its end.

    Yields blocks of whole records with about `block_bytes`. A longer record is one block.

    Raises:
        CorruptShardError: a checksum is wrong, or the stream ends inside a record.
    """
    records = 0
    for data, bounds, offset in _whole_frames(stream, path, block_bytes):
        starts, stops = bounds[:-1], bounds[1:]
        crcs, is_whole = check_frames(data, starts, stops)
        if not is_whole.all():  # a wrong length misaligns later frames: only the first error counts
            bad = int(is_whole.argmin())
            place, frame = int(starts[bad]), data[starts[bad] : stops[bad]]
            unframe(frame, path=path, record=records + bad, offset=offset + place)
        whole = data if stops[-1] == len(data) else data[: stops[-1]]
        yield RecordBlock(whole, starts, stops - starts - RECORD_OVERHEAD_BYTES, crcs, offset)
        records += len(starts)


def compact(lengths: Lengths) -> Lengths:
    """Return lengths as the smallest unsigned type of two bytes or more that can hold them."""
    longest = int(lengths.max(initial=0))
    width = next(n for n in (2, 4, 8) if longest < 1 << 8 * n)
    return lengths.astype(f"<u{width}")


def scan_lengths(stream: BinaryIO, *, path: str) -> Lengths:
    """Return the payloads' lengths in bytes, in file order: `(records,)`, smallest unsigned type.

    It checks the checksums of the lengths, not of the payloads: four times as fast as
    `read_blocks`. It raises the same errors.
    """
    lengths, damage = scan_until_damage(stream, path=path)
    if damage is not None:
        raise damage
    return lengths


def scan_until_damage(stream: BinaryIO, *, path: str) -> tuple[Lengths, CorruptShardError | None]:
    """Return the lengths before the first damaged record, and its error; see `scan_lengths`."""
    lengths: list[Lengths] = [np.zeros(0, np.uint16)]
    records, damage = 0, None
    try:
        for data, bounds, offset in _whole_frames(stream, path, BLOCK_BYTES):
            is_whole = _check_headers(data, bounds[:-1], bounds[1:])
            good = len(is_whole) if is_whole.all() else int(is_whole.argmin())
            lengths.append(compact(np.diff(bounds[: good + 1]) - RECORD_OVERHEAD_BYTES))
            records, place = records + good, int(bounds[good])
            if good < len(is_whole):
                _check_header(data[place : place + HEADER_BYTES], path, records, offset + place)
    except CorruptShardError as error:
        damage = error
    return np.concatenate(lengths), damage


def scan_lengths_at(
    read: Callable[[int, int], bytes],
    size: int,
    *,
    path: str,
    report: Callable[[int], object] = bool,
) -> Lengths:
    """Return the payloads' lengths of an uncompressed file that can be read at any offset.

    Blocks are read while records are short. Of long records only the headers are read.

    Args:
        read: returns the bytes of the file from an offset to another, fewer at its end.
        size: the size of the file in bytes.
        path: the file, for messages.
        report: called with the number of bytes passed since the last call.

    Raises:
        CorruptShardError: a length is damaged, or the file ends inside a record.
    """
    parts: list[Lengths] = [np.zeros(0, np.uint16)]
    offset, records, is_long = 0, 0, False
    while offset < size:
        if is_long:
            lengths = _long_lengths(read, offset, size, path=path, record=records)
        else:
            data = read(offset, min(offset + BLOCK_BYTES, size))
            bounds = _frame_bounds(data)
            is_whole = _check_headers(data, bounds[:-1], bounds[1:])
            if not is_whole.all():
                bad = int(is_whole.argmin())
                header = data[bounds[bad] : bounds[bad] + HEADER_BYTES]
                _check_header(header, path, records + bad, offset + int(bounds[bad]))
            lengths = np.diff(bounds) - RECORD_OVERHEAD_BYTES
        passed = int(lengths.sum()) + RECORD_OVERHEAD_BYTES * len(lengths)
        # No whole record in a block: the next one is long.
        is_long = passed >= _LONG_BYTES * len(lengths)
        parts.append(compact(lengths))
        offset, records = offset + passed, records + len(lengths)
        report(passed)
    return np.concatenate(parts)


def _long_lengths(
    read: Callable[[int, int], bytes], offset: int, size: int, *, path: str, record: int
) -> Positions:
    """Return the lengths of up to 1,024 records, by reading their headers alone."""
    lengths: list[int] = []
    while offset < size and len(lengths) < _MAX_HEADERS:
        header, number = read(offset, min(offset + HEADER_BYTES, size)), record + len(lengths)
        _check_header(header, path, number, offset)
        length = _LENGTH.unpack_from(header)[0] if len(header) == HEADER_BYTES else size
        end = offset + RECORD_OVERHEAD_BYTES + length
        if end > size:
            raise _damage(path, number, offset, _TRUNCATED, "truncated")
        lengths.append(length)
        offset = end
    return np.array(lengths, np.int64)


def _whole_frames(
    stream: BinaryIO, path: str, block_bytes: int
) -> Iterator[tuple[bytes, Positions, int]]:
    """Yield blocks of whole frames: data, offsets of the frames and the end, offset of the data."""
    offset = records = 0
    pending = b""
    while True:
        missing = 0  # bytes still to read of the first pending record
        if len(pending) >= HEADER_BYTES:
            _check_header(pending, path, records, offset)
            missing = _LENGTH.unpack_from(pending)[0] + RECORD_OVERHEAD_BYTES - len(pending)
        chunk = stream.read(max(block_bytes, min(missing, _MAX_BYTES_A_READ)))
        if not chunk:
            break
        pending = pending + chunk if pending else chunk
        bounds = _frame_bounds(pending)
        if len(bounds) > 1:
            yield pending, bounds, offset
            end = int(bounds[-1])
            offset += end
            records += len(bounds) - 1
            pending = pending[end:]
    if pending:
        _check_header(pending, path, records, offset)
        raise _damage(path, records, offset, _TRUNCATED, "truncated")


def _frame_bounds(data: bytes) -> Positions:
    """Return the offset of each whole frame in `data`, and the end of the last one."""
    bounds = [0]
    position, size, unpack = 0, len(data), _LENGTH.unpack_from
    while position + RECORD_OVERHEAD_BYTES <= size:
        position += RECORD_OVERHEAD_BYTES + unpack(data, position)[0]
        if position > size:
            break
        bounds.append(position)
    return np.array(bounds, np.int64)
