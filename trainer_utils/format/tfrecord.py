"""TFRecord files: records framed, found and verified, a block of many at a time; their CRC-32C.

    for block in read_blocks(open("data_tfrecord-00000-of-00008", "rb"), path="…"):
        block.records()            # verified payloads
    unframe(frame, path="…", offset=0)             # one payload, verified

A record is an 8-byte little-endian length, the length's masked CRC-32C, the payload, and the
payload's masked CRC-32C. google-crc32c sums payloads (by instructions of SSE 4.2 or ARMv8); lengths
are summed all together, since a call for each would cost more than all else for short records.

Source: `tensorflow/core/lib/io/record_writer.h`; the polynomial is Castagnoli's (RFC 3720, appendix
B.4); the mask, a rotation by 15 bits and a constant, is from `tsl/lib/hash/crc32c.h`.
"""

import dataclasses
import functools
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

import google_crc32c
import numpy as np
import numpy.typing as npt

from trainer_utils.format.errors import CorruptShardError
from trainer_utils.format.planning import splitmix64

HEADER_BYTES = 12
FOOTER_BYTES = 4
RECORD_OVERHEAD_BYTES = HEADER_BYTES + FOOTER_BYTES
BLOCK_BYTES = 8 << 20  # 8 MiB: past the point where a larger read is any faster on disk or GCS

_MOST_BYTES_A_READ = 256 << 20  # so that a length made up by an attacker allocates no more
_VIEWED_FROM_BYTES = 4 << 10  # a record: a view costs 184 bytes and as much time as copying these
_GZIP = b"\x1f\x8b"
_LENGTH, _CRC = struct.Struct("<Q"), struct.Struct("<I")
_HEADER = np.dtype([("length", "<i8"), ("crc", "<u4")])

_MASK_DELTA = 0xA282EAD8
_POLYNOMIAL = 0x82F63B78  # Castagnoli, bits reversed
_ONE = 1 << 31  # x**0, bits reversed
_FEW = 64  # so few are summed sooner by a call each: numpy's steps take 50 us for however few

Buffer = bytes | npt.NDArray[np.uint8]  # what google-crc32c takes without a copy
Sums = npt.NDArray[np.uint32]
Lengths = npt.NDArray[np.integer[Any]]
Positions = npt.NDArray[np.int64]


def extend_crc32c(crc: int, data: Buffer) -> int:
    """The CRC-32C of what `crc` is the sum of (0 for nothing), followed by `data`."""
    return int(google_crc32c.extend(crc, data))


def combine_crc32c(first: int, second: int, second_bytes: int) -> int:
    """The CRC-32C of two buffers end to end, of their sums and the second one's length.

    Source: `crc32_combine` of zlib 1.2.12 (Mark Adler): the first sum, times x to the power of the
    bits behind it, modulo the polynomial.
    """
    square, shift = _ONE >> 8, second_bytes  # x**8: a byte
    while shift:
        if shift & 1:
            first = _multiply(square, first)
        square, shift = _multiply(square, square), shift >> 1
    return first ^ second


def _multiply(one: int, other: int) -> int:
    """The product of two polynomials modulo Castagnoli's, bits reversed."""
    product = 0
    while one:
        if one & _ONE:
            product ^= other
        one = one << 1 & 0xFFFFFFFF
        other = other >> 1 ^ (_POLYNOMIAL if other & 1 else 0)
    return product


def masked_crc32c(*parts: Buffer) -> int:
    """The masked CRC-32C of a buffer, or of several end to end, as TFRecord files keep it."""
    crc = 0
    for part in parts:
        crc = google_crc32c.extend(crc, part)
    return int(((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF)


def mask_crc32c(crcs: Sums) -> Sums:
    """The masked form of `(n,) uint32` sums."""
    return (crcs >> np.uint32(15) | crcs << np.uint32(17)) + np.uint32(_MASK_DELTA)


def masked_crc32c_of_lengths(lengths: npt.NDArray[np.integer[Any]]) -> Sums:
    """The masked CRC-32C of `(n,)` numbers as frames have them: of 8 bytes, little-endian."""
    octets = lengths.astype("<i8").view(np.uint8).reshape(-1, 8)
    if len(lengths) <= _FEW:
        crcs = np.array([google_crc32c.value(row.tobytes()) for row in octets], np.uint32)
        return mask_crc32c(crcs)
    crcs = np.full(len(lengths), 0xFFFFFFFF, np.uint32)
    for column in octets.T:
        crcs = _TABLE[(crcs ^ column) & 0xFF] ^ (crcs >> np.uint32(8))
    return mask_crc32c(crcs ^ np.uint32(0xFFFFFFFF))


_TABLE: Sums = np.arange(256, dtype=np.uint32)  # by byte
for _ in range(8):
    _TABLE = np.where(_TABLE & 1, _TABLE >> 1 ^ np.uint32(_POLYNOMIAL), _TABLE >> 1)


def multiset_checksum(lengths: npt.NDArray[np.int64], payload_crcs: Sums) -> int:
    """A checksum of 64 bits, unsigned, of records that does not depend on their order.

    Length and CRC-32C of each are mixed, and these are added: a lost record, one that is there
    twice, or one put in another's stead changes the sum. `lengths` are `(records,) int64`, of the
    payloads in bytes; `payload_crcs` `(records,) uint32`, masked, as frames have them.
    """
    mixed = lengths.astype(np.uint64) << np.uint64(32) | payload_crcs.astype(np.uint64)
    return int(np.sum(splitmix64(mixed, np.uint64(1)), dtype=np.uint64))


def combine_checksums(sums: Iterable[int]) -> int:
    """The `multiset_checksum` of several lots of records together."""
    return sum(sums) % 2**64


def frame_parts(parts: Sequence[Buffer]) -> tuple[bytes, bytes]:
    """What stands before and after a record that is given in parts, end to end."""
    return _header(sum(map(len, parts))), _CRC.pack(masked_crc32c(*parts))


@functools.lru_cache(maxsize=4096)  # of short records, whose lengths are few, a third of the time
def _header(length: int) -> bytes:
    octets = _LENGTH.pack(length)
    return octets + _CRC.pack(masked_crc32c(octets))


def frame_headers(lengths: Lengths) -> npt.NDArray[np.uint8]:
    """What stands before records of `(n,)` bytes: `(n, 12) uint8`."""
    headers = np.empty(len(lengths), _HEADER)
    headers["length"], headers["crc"] = lengths, masked_crc32c_of_lengths(lengths)
    return headers.view(np.uint8).reshape(-1, HEADER_BYTES)


def frame_footers(crcs: Sums) -> npt.NDArray[np.uint8]:
    """What stands after records of these CRC-32C, `(n,)`, not masked: `(n, 4) uint8`."""
    return mask_crc32c(crcs).astype("<u4").view(np.uint8).reshape(-1, FOOTER_BYTES)


def footers_of(data: Any, stops: Positions) -> Sums:
    """The masked CRC-32C of the payloads whose frames end at `stops`: `(n,) uint32`."""
    octets = np.frombuffer(data, np.uint8)
    return octets[stops[:, None] + np.arange(-FOOTER_BYTES, 0)].view("<u4")[:, 0]


def check_frames(
    data: Buffer, starts: Positions, stops: Positions
) -> tuple[Sums, npt.NDArray[np.bool_]]:
    """Verifies the frames `[starts, stops)` in some bytes.

    Returns:
        `(records,) uint32`, the masked CRC-32C that each says of its payload; `(records,) bool`,
        whether its length, its payload and their sums are as it says.
    """
    footers, is_whole = footers_of(data, stops), _check_headers(data, starts, stops)
    begins, ends = (starts + HEADER_BYTES).tolist(), (stops - FOOTER_BYTES).tolist()
    is_viewed = len(data) > _VIEWED_FROM_BYTES * len(starts)
    given: Any = np.frombuffer(data, np.uint8) if is_viewed else data
    crc, bounds = google_crc32c.value, zip(begins, ends, strict=True)
    crcs = np.array([crc(given[begin:end]) for begin, end in bounds], np.uint32)
    is_whole &= mask_crc32c(crcs) == footers
    return footers, is_whole


def _check_headers(data: Buffer, starts: Positions, stops: Positions) -> npt.NDArray[np.bool_]:
    """Whether the headers of the frames `[starts, stops)` are whole, and say these lengths."""
    octets = np.frombuffer(data, np.uint8)[starts[:, None] + np.arange(HEADER_BYTES)]
    headers = octets.view(_HEADER)[:, 0]
    lengths = stops - starts - RECORD_OVERHEAD_BYTES
    is_whole: npt.NDArray[np.bool_] = headers["length"] == lengths
    is_whole &= headers["crc"] == masked_crc32c_of_lengths(headers["length"])
    return is_whole


def begins_with_frame(data: bytes) -> bool:
    """Whether there is a record's length at the beginning, with its checksum."""
    head = data[:HEADER_BYTES]
    return len(head) == HEADER_BYTES and head == _header(*_LENGTH.unpack_from(head))


def begins_with_gzip(head: bytes) -> bool:
    """Whether a file that begins so, by `HEADER_BYTES`, is gzip: a record's length may look so."""
    return head.startswith(_GZIP) and not begins_with_frame(head)


def begins_with_zlib(head: bytes) -> bool:
    """Whether bytes, some hundred or more, begin a zlib stream of records.

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
    """The payload of one frame, verified; the other arguments are for messages.

    Raises:
        CorruptShardError: it is no whole frame, has another length, or a checksum does not agree.
    """
    payload = frame[HEADER_BYTES:-FOOTER_BYTES]
    header, footer = frame_parts([payload])
    if len(frame) < RECORD_OVERHEAD_BYTES or frame[:HEADER_BYTES] != header:
        _check_header(frame, path, record, offset)
        size = max(len(frame) - RECORD_OVERHEAD_BYTES, 0)
        expected, got = f"a whole record of {size} bytes", "another, or the end of the file"
    elif frame[-FOOTER_BYTES:] != footer:
        expected, got = "the payload's checksum to agree", "another one"
    else:
        return payload
    raise _damage(path, record, offset, expected, got)


def _check_header(data: bytes, path: str, record: int | None, offset: int) -> None:
    """Refuses a length whose checksum is wrong before anything is allocated for it."""
    if len(data) >= HEADER_BYTES and not begins_with_frame(data):
        if not offset and begins_with_zlib(data):
            raise CorruptShardError.at(
                path,
                expected="records that are not compressed, by the name of a remote file",
                got="a zlib stream",
                record=record,
                offset=offset,
                advice="Give it a name that ends in .zlib, or copy it to this machine.",
            )
        expected = "the length's checksum to agree"
        raise _damage(path, record, offset, expected, "another one")


def _damage(
    path: str, record: int | None, offset: int, expected: str, got: str, what: str = "damaged"
) -> CorruptShardError:
    return CorruptShardError.at(
        path,
        expected=expected,
        got=got,
        record=record,
        offset=offset,
        advice=f"The file is {what}: write it again, or run convert with --verify-output.",
    )


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
    starts: Positions
    lengths: Positions
    payload_crcs: Sums
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

    def frames(self) -> list[bytes | memoryview]:
        """The framed records, in order: views of `data` where they are large, else copies."""
        ends = self.starts + self.lengths + RECORD_OVERHEAD_BYTES
        large = len(self.data) > _VIEWED_FROM_BYTES * len(self)
        view: bytes | memoryview = memoryview(self.data) if large else self.data
        return [view[b:e] for b, e in zip(self.starts.tolist(), ends.tolist(), strict=True)]


def read_blocks(
    stream: BinaryIO, *, path: str, block_bytes: int = BLOCK_BYTES
) -> Iterator[RecordBlock]:
    """Reads and verifies a TFRecord stream, uncompressed, from where it stands to its end, in
    blocks of about `block_bytes` of whole records; a longer record is held whole.

    Raises:
        CorruptShardError: a sum does not agree, or the stream ends inside a record.
    """
    records = 0
    for data, bounds, offset in _whole_frames(stream, path, block_bytes):
        starts, stops = bounds[:-1], bounds[1:]
        crcs, is_whole = check_frames(data, starts, stops)
        if not is_whole.all():  # a wrong length leads astray: the first is where the file is bad
            bad = int(is_whole.argmin())
            place, frame = int(starts[bad]), data[starts[bad] : stops[bad]]
            unframe(frame, path=path, record=records + bad, offset=offset + place)
        whole = data if stops[-1] == len(data) else data[: stops[-1]]
        yield RecordBlock(whole, starts, stops - starts - RECORD_OVERHEAD_BYTES, crcs, offset)
        records += len(starts)


def compact(lengths: Lengths) -> Lengths:
    """The same numbers in the smallest unsigned type, of two bytes or more, that holds them."""
    longest = int(lengths.max(initial=0))
    width = next(n for n in (2, 4, 8) if longest < 1 << 8 * n)
    return lengths.astype(f"<u{width}")


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
    records, damage = 0, None
    try:
        for data, bounds, offset in _whole_frames(stream, path, BLOCK_BYTES):
            is_whole = _check_headers(data, bounds[:-1], bounds[1:])
            good = len(is_whole) if is_whole.all() else int(is_whole.argmin())
            found.append(compact(np.diff(bounds[: good + 1]) - RECORD_OVERHEAD_BYTES))
            records, place = records + good, int(bounds[good])
            if good < len(is_whole):
                _check_header(data[place : place + HEADER_BYTES], path, records, offset + place)
    except CorruptShardError as error:
        damage = error
    return np.concatenate(found), damage


def _whole_frames(
    stream: BinaryIO, path: str, block_bytes: int
) -> Iterator[tuple[bytes, Positions, int]]:
    """Blocks of whole frames: data, where each begins and the last one ends, the data's offset."""
    offset = records = 0
    pending = b""
    while True:
        missing = 0  # of the record that what is pending begins with
        if len(pending) >= HEADER_BYTES:
            _check_header(pending, path, records, offset)
            missing = _LENGTH.unpack_from(pending)[0] + RECORD_OVERHEAD_BYTES - len(pending)
        chunk = stream.read(max(block_bytes, min(missing, _MOST_BYTES_A_READ)))
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
        raise _damage(path, records, offset, "a whole record", "the end of the file", "truncated")


def _frame_bounds(data: bytes) -> Positions:
    """Where each whole frame in `data` begins, and where the last one ends."""
    bounds = [0]
    position, size, unpack = 0, len(data), _LENGTH.unpack_from
    while position + RECORD_OVERHEAD_BYTES <= size:
        position += RECORD_OVERHEAD_BYTES + unpack(data, position)[0]
        if position > size:
            break
        bounds.append(position)
    return np.array(bounds, np.int64)
