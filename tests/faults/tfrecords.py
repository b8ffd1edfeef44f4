"""TFRecord files by the book, and nothing of ours: the oracle of the tests of faults.

for start, payload in read_records(path): ...      # start: the byte at which the record begins
frame(b"payload"), frame_length(2**40)   # see `tensorflow/core/lib/io/record_writer.h`

The checksum is CRC-32C after RFC 3720, from its polynomial, a table entry a byte.
"""

import gzip
import struct
from pathlib import Path

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, reversed


def _entry(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
    return value


_TABLE = [_entry(value) for value in range(256)]


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for octet in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ octet) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def frame_length(length: int) -> bytes:
    packed = struct.pack("<Q", length)
    return packed + masked(packed)


def frame(payload: bytes) -> bytes:
    return frame_length(len(payload)) + payload + masked(payload)


def read_records(path: Path) -> list[tuple[int, bytes]]:
    """Each record and where it begins in the (decompressed) file; an assertion where one is bad."""
    data = path.read_bytes()
    if path.name.endswith(".gz"):
        data = gzip.decompress(data)
    found, position = [], 0
    while position < len(data):
        (length,) = struct.unpack_from("<Q", data, position)
        payload = data[position + 12 : position + 12 + length]
        end = position + 16 + length
        assert frame(payload) == data[position:end], f"{path}: bad record at byte {position}"
        found.append((position, payload))
        position = end
    return found
