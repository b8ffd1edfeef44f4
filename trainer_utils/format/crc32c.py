"""CRC-32C and TFRecord's masked form of it, for one buffer or for many headers at once.

    masked_crc32c(b"payload")      # what stands behind a record's payload

The sums over payloads are the work of google-crc32c (SSE 4.2 or ARMv8 instructions); the sums
over the 8-byte length headers of a whole block are vectorised with numpy, since a call a header
would cost more than all else for short records.

Source: the polynomial is Castagnoli's (RFC 3720, appendix B.4); the mask, a rotation by 15 bits
and a constant, is from TensorFlow's `tsl/lib/hash/crc32c.h`.
"""

import google_crc32c
import numpy as np
import numpy.typing as npt

__all__ = [
    "combine_crc32c",
    "extend_crc32c",
    "mask_crc32c",
    "masked_crc32c",
    "masked_crc32c_of_rows",
]

_MASK_DELTA = 0xA282EAD8
_POLYNOMIAL = 0x82F63B78  # Castagnoli, bits reversed

# So few are summed sooner by a call each: numpy's steps take some 50 us for however few.
_FEW_ROWS = 64

_ONE = 1 << 31  # x**0, bits reversed

Buffer = bytes | npt.NDArray[np.uint8]  # what google-crc32c takes without a copy


def extend_crc32c(crc: int, data: Buffer) -> int:
    """The CRC-32C of what `crc` is the sum of (0 for nothing), followed by `data`."""
    return int(google_crc32c.extend(crc, data))


def combine_crc32c(first: int, second: int, second_bytes: int) -> int:
    """The CRC-32C of two buffers end to end, of which only the sums are known.

    Args:
        first, second: their CRC-32C.
        second_bytes: how long the second is.

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


def masked_crc32c_of_rows(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """The masked CRC-32C of each row.

    Args:
        rows: `(rows, width) uint8`; meant for narrow rows, such as 8-byte headers.

    Returns:
        `(rows,) uint32`.
    """
    if rows.size and len(rows) <= _FEW_ROWS:
        data, width = rows.tobytes(), rows.shape[1]
        sums = [google_crc32c.value(data[at : at + width]) for at in range(0, len(data), width)]
        return mask_crc32c(np.array(sums, np.uint32))
    crc = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    for column in rows.T:
        crc = _TABLE[(crc ^ column) & 0xFF] ^ (crc >> np.uint32(8))
    crc ^= np.uint32(0xFFFFFFFF)
    return mask_crc32c(crc)


def mask_crc32c(crc: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """The masked form of `(n,) uint32` sums."""
    return (crc >> np.uint32(15) | crc << np.uint32(17)) + np.uint32(_MASK_DELTA)


def _byte_table() -> npt.NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(_POLYNOMIAL), table >> 1)
    return table.astype(np.uint32)


_TABLE = _byte_table()
