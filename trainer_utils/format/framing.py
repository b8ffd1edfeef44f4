"""TFRecord framing: what stands before and after a record, made and checked.

    frame_records([b"first", b"second"])           # the content of a TFRecord file
    frame_headers(lengths), frame_footers(crcs)    # the same for many records at once, as arrays
    unframe(frame, path="…", offset=0)             # one payload, verified

A record is an 8-byte little-endian length, the length's masked CRC-32C, the payload, and the
payload's masked CRC-32C.

Source: `tensorflow/core/lib/io/record_writer.h`.
"""

import functools
import struct
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO, NoReturn

import google_crc32c
import numpy as np
import numpy.typing as npt

from trainer_utils.format.crc32c import Buffer, mask_crc32c, masked_crc32c, masked_crc32c_of_rows
from trainer_utils.format.errors import CorruptShardError

__all__ = [
    "FOOTER_BYTES",
    "HEADER_BYTES",
    "RECORD_OVERHEAD_BYTES",
    "Lengths",
    "bad_headers",
    "begins_with_frame",
    "check_header",
    "footers_of",
    "frame_footers",
    "frame_headers",
    "frame_parts",
    "frame_records",
    "headers_of",
    "lengths_in",
    "payload_crcs",
    "raise_bad_checksum",
    "read_record_at",
    "unframe",
]

LENGTH_BYTES = 8
HEADER_BYTES = LENGTH_BYTES + 4
FOOTER_BYTES = 4
RECORD_OVERHEAD_BYTES = HEADER_BYTES + FOOTER_BYTES

_VIEWED_FROM_BYTES = 4 << 10  # a record: a view of a shorter one costs more than its copy

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")

Lengths = npt.NDArray[np.integer[Any]]


def frame_parts(parts: Sequence[Buffer]) -> tuple[bytes, bytes]:
    """What stands before and after a record that is given in parts, end to end."""
    return _header(sum(map(len, parts))), _CRC.pack(masked_crc32c(*parts))


@functools.lru_cache(maxsize=4096)  # of short records, whose lengths are few, a third of the time
def _header(length: int) -> bytes:
    octets = _LENGTH.pack(length)
    return octets + _CRC.pack(masked_crc32c(octets))


def frame_records(records: Iterable[bytes]) -> bytes:
    """Records, framed, end to end: the content of a TFRecord file."""
    framed = ((frame_parts([record]), record) for record in records)
    return b"".join(part for (head, foot), record in framed for part in (head, record, foot))


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


def headers_of(data: Buffer, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """The headers that begin at `starts`: `(records, 12) uint8`."""
    return np.frombuffer(data, np.uint8)[starts[:, None] + np.arange(HEADER_BYTES)]


def lengths_in(headers: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """The payloads' lengths that headers say: `(records,) int64`."""
    return headers[:, :LENGTH_BYTES].copy().view("<i8")[:, 0]


def bad_headers(headers: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Which headers' checksums do not agree: `(records,) bool`."""
    sums = headers[:, LENGTH_BYTES:].copy().view("<u4")[:, 0]
    return np.not_equal(masked_crc32c_of_rows(headers[:, :LENGTH_BYTES]), sums)


def begins_with_frame(data: bytes) -> bool:
    """Whether there is a record's length at the beginning, with its checksum."""
    header = np.frombuffer(data[:HEADER_BYTES], np.uint8)[None]
    return header.shape[1] == HEADER_BYTES and not bad_headers(header)[0]


def footers_of(data: Any, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """The masked CRC-32C of the payloads whose frames end at `ends`: `(n,) uint32`."""
    octets = np.frombuffer(data, np.uint8)
    return octets[ends[:, None] + np.arange(-FOOTER_BYTES, 0)].view("<u4")[:, 0]


def payload_crcs(
    data: Buffer, begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint32]:
    """The masked CRC-32C of the payloads `[begins, ends)` themselves: `(records,) uint32`."""
    is_large = len(data) > _VIEWED_FROM_BYTES * len(begins)
    given: Any = np.frombuffer(data, np.uint8) if is_large else data
    crc, bounds = google_crc32c.value, zip(begins.tolist(), ends.tolist(), strict=True)
    return mask_crc32c(np.array([crc(given[begin:end]) for begin, end in bounds], np.uint32))


def unframe(frame: bytes, *, path: str, record: int | None = None, offset: int) -> bytes:
    """The payload of one frame, verified; the other arguments are for messages.

    Raises:
        CorruptShardError: it is no whole frame, has another length, or a checksum does not agree.
    """
    payload = frame[HEADER_BYTES:-FOOTER_BYTES]
    header, footer = frame_parts([payload])
    if len(frame) >= RECORD_OVERHEAD_BYTES and frame[:HEADER_BYTES] == header:
        if frame[-FOOTER_BYTES:] == footer:
            return payload
        raise_bad_checksum("payload", path, record, offset)
    check_header(frame, path, record, offset)
    raise CorruptShardError.at(
        path,
        expected=f"a whole record of {max(len(frame) - RECORD_OVERHEAD_BYTES, 0)} bytes",
        got="another, or the end of the file",
        record=record,
        offset=offset,
        advice="The file is damaged: write it again.",
    )


def read_record_at(
    stream: BinaryIO, *, offset: int, length: int, path: str, record: int | None = None
) -> bytes:
    """One verified payload of `length` bytes, whose frame is at `offset`; errors as `unframe`."""
    stream.seek(offset)
    frame = stream.read(length + RECORD_OVERHEAD_BYTES)
    return unframe(frame, path=path, record=record, offset=offset)


def check_header(data: bytes, path: str, record_number: int | None, offset: int) -> None:
    """Refuses a length whose checksum is wrong before anything is allocated for it."""
    if len(data) < HEADER_BYTES:
        return
    if masked_crc32c(data[:LENGTH_BYTES]) != _CRC.unpack_from(data, LENGTH_BYTES)[0]:
        raise_bad_checksum("length", path, record_number, offset)


def raise_bad_checksum(what: str, path: str, record_number: int | None, offset: int) -> NoReturn:
    """Raises CorruptShardError: the checksum of a record's length or payload does not agree."""
    raise CorruptShardError.at(
        path,
        expected=f"the {what}'s checksum to agree",
        got="another one",
        record=record_number,
        offset=offset,
        advice="The file is damaged: write it again.",
    )
