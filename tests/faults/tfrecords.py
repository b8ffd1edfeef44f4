"""A TFRecord reader written from the specification, independent of our code, as an oracle.

for start, payload in read_records(path): ...      # start: the byte at which the record begins
frame(b"payload"), frame_length(2**40)   # see `tensorflow/core/lib/io/record_writer.h`
"""

import gzip
import struct
from pathlib import Path

import google_crc32c


def masked(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def frame_length(length: int) -> bytes:
    packed = struct.pack("<Q", length)
    return packed + masked(packed)


def frame(payload: bytes) -> bytes:
    return frame_length(len(payload)) + payload + masked(payload)


def read_records(path: Path) -> list[tuple[int, bytes]]:
    """Return the offset (after decompression) and payload of each record; assert its checksums."""
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
