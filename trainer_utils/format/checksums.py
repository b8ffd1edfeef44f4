"""CRC-32C, sums of sets of records, and the sum that a file of JSON has of itself.

    masked_crc32c(b"payload")      # what stands behind a record's payload
    seal(text)                     # the same with the CRC-32C of its bytes in `checksum`

google-crc32c sums payloads (by instructions of SSE 4.2 or ARMv8); lengths in headers are summed all
together, since a call for each would cost more than all else for short records.

Source: the polynomial is Castagnoli's (RFC 3720, appendix B.4); the mask, a rotation by 15 bits
and a constant, is from TensorFlow's `tsl/lib/hash/crc32c.h`.
"""

import re
from collections.abc import Iterable
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt

from trainer_utils.format.planning import splitmix64

NO_CHECKSUM = "00000000"

_MASK_DELTA = 0xA282EAD8
_POLYNOMIAL = 0x82F63B78  # Castagnoli, bits reversed
_ONE = 1 << 31  # x**0, bits reversed
_FEW = 64  # so few are summed sooner by a call each: numpy's steps take 50 us for however few
# Two blanks of indent are the top level's alone, and no text of JSON holds a newline.
_CHECKSUM = re.compile(r'\n  "checksum": "([0-9a-f]{8})"')

Buffer = bytes | npt.NDArray[np.uint8]  # what google-crc32c takes without a copy
Sums = npt.NDArray[np.uint32]


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


def seal(text: str) -> str:
    """A text of JSON with its own checksum: the CRC-32C of its bytes with zeros for the digits.

    A ValueError where it has no place for one, or two.
    """
    places = [found.span(1) for found in _CHECKSUM.finditer(text)]
    if len(places) != 1:
        raise ValueError(f"expected a line with its checksum, got {len(places)}")
    start, stop = places[0]
    crc = extend_crc32c(0, (text[:start] + NO_CHECKSUM + text[stop:]).encode())
    return f"{text[:start]}{crc:08x}{text[stop:]}"


def is_sealed(text: str) -> bool:
    """Whether a text has its own checksum, and the right one."""
    try:
        return seal(text) == text
    except ValueError:
        return False
