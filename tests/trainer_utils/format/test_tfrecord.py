"""Test TFRecord framing against TensorFlow's writer, damage at every byte, and RFC 3720."""

import io
import random
import struct
import tracemalloc

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.make import frame_records, write_records
from trainer_utils.core.errors import CorruptShardError
from trainer_utils.format import combine_checksums, multiset_checksum, read_blocks, scan_lengths
from trainer_utils.format.tfrecord import (
    RECORD_OVERHEAD_BYTES,
    combine_crc32c,
    extend_crc32c,
    footers_of,
    frame_footers,
    frame_headers,
    masked_crc32c,
    masked_crc32c_of_lengths,
    scan_until_damage,
    unframe,
)

RECORDS = {
    "none": [],
    "an empty one": [b""],
    "several": [b"first", b"", b"third record", bytes(100)],
    "large": [random.Random(0).randbytes(1 << 20), b"x", random.Random(1).randbytes(300_000)],
    "many": [b"%d" % number * (number % 7) for number in range(20_000)],
}


def payloads(data: bytes, *, path: str = "x") -> list[bytes]:
    return [one for block in read_blocks(io.BytesIO(data), path=path) for one in block.records()]


def test_mask_matches_tensorflow():
    # RFC 3720, appendix B.4: 0x8a9136aa is the checksum of 32 zeros
    assert extend_crc32c(extend_crc32c(0, bytes(7)), bytes(25)) == 0x8A9136AA
    rotated = (0x8A9136AA >> 15 | 0x8A9136AA << 17) & 0xFFFFFFFF
    assert masked_crc32c(bytes(32)) == (rotated + 0xA282EAD8) & 0xFFFFFFFF
    assert masked_crc32c(bytes(10), bytes(22)) == masked_crc32c(bytes(32))


@pytest.mark.parametrize("count", [0, 1, 64, 65, 500])
def test_length_checksums_match_google_crc32c(count):
    lengths = np.random.default_rng(0).integers(0, 2**62, 2 * count)[::2]
    expected = [masked_crc32c(int(n).to_bytes(8, "little")) for n in lengths]
    assert masked_crc32c_of_lengths(lengths).tolist() == expected


@given(st.binary(), st.binary(max_size=5000))
def test_checksums_of_two_parts_combine(one, other):
    sums = extend_crc32c(0, one), extend_crc32c(0, other)
    assert combine_crc32c(*sums, len(other)) == extend_crc32c(0, one + other)


def checksum(records: list[bytes]) -> int:
    crcs = np.array([google_crc32c.value(record) for record in records], np.uint32)
    return multiset_checksum(np.array([*map(len, records)], np.int64), crcs)


def test_multiset_checksum_detects_loss_copies_and_changes():
    source = random.Random(0)
    records = [source.randbytes(source.randint(8, 40)) for _ in range(2000)]
    mixed = source.sample(records, len(records))
    lots = [mixed[:1], mixed[1:900], [], mixed[900:]]
    assert combine_checksums(map(checksum, lots)) == checksum(records)
    sums = {checksum(records)}
    for number in range(200):
        lost = records[:number] + records[number + 1 :]
        sums |= {checksum(lost), checksum([*records, records[number]])}
        sums.add(checksum([*lost, records[number] + b"\0"]))
    assert len(sums) == 601


@pytest.mark.parametrize("records", RECORDS.values(), ids=RECORDS)
def test_framed_records_match_tensorflow(tmp_path, records):
    assert frame_records(records) == write_records(tmp_path / "records", records)


def test_batch_headers_and_footers_match_tensorflow(tmp_path):
    block = write_records(tmp_path / "records", [b"a" * n for n in range(300)])
    (read,) = read_blocks(io.BytesIO(block), path="x")
    crcs = np.array([google_crc32c.value(record) for record in read.records()], np.uint32)
    headers, footers = frame_headers(read.lengths), frame_footers(crcs)
    parts = zip(headers, read.records(), footers, strict=True)
    assert b"".join(h.tobytes() + r + f.tobytes() for h, r, f in parts) == block
    ends = read.starts + read.lengths + RECORD_OVERHEAD_BYTES
    assert footers_of(block, ends).tolist() == read.payload_crcs.tolist()


def test_unframing_returns_the_payload_or_raises():
    frame = frame_records([b"payload"])
    assert unframe(frame, path="x", offset=5) == b"payload"
    for place in range(len(frame)):
        flipped = bytearray(frame)
        flipped[place] ^= 1
        for bad in (bytes(flipped), frame[:place], frame + frame[: place + 1]):
            with pytest.raises(CorruptShardError) as found:
                unframe(bad, path="x", record=3, offset=5)
            assert (found.value.path, found.value.record, found.value.offset) == ("x", 3, 5)


@pytest.mark.parametrize(
    ("name", "block_bytes"), [("several", 1), ("several", 13), ("large", 1000), ("large", 1 << 23)]
)
def test_blocks_of_any_size_hold_all_records(tmp_path, name, block_bytes):
    data = write_records(tmp_path / "records", RECORDS[name])
    blocks = list(read_blocks(io.BytesIO(data), path="x", block_bytes=block_bytes))
    assert [record for block in blocks for record in block.records()] == RECORDS[name]
    assert b"".join(bytes(frame) for block in blocks for frame in block.frames()) == data
    assert all(data[b.file_offset :].startswith(b.data) for b in blocks)
    assert [int(n) for b in blocks for n in b.lengths] == [len(r) for r in RECORDS[name]]


FRAGILE = [b"first record", b"", b"third"]
BOUNDARIES = [0, 28, 44, 65]


def test_file_truncated_within_a_record_raises():
    data = frame_records(FRAGILE)
    assert len(data) == BOUNDARIES[-1]
    for size in range(len(data)):
        whole = max(n for n, start in enumerate(BOUNDARIES) if start <= size)
        lengths, error = scan_until_damage(io.BytesIO(data[:size]), path="a/shard")
        assert lengths.tolist() == [len(record) for record in FRAGILE[:whole]]
        if size in BOUNDARIES:
            assert error is None
            assert payloads(data[:size]) == FRAGILE[:whole]
            continue
        assert (error.path, error.record, error.offset) == ("a/shard", whole, BOUNDARIES[whole])
        place = rf"'a/shard'.*\(record {whole}, byte {BOUNDARIES[whole]}\)"
        for read in (payloads, lambda data, path: scan_lengths(io.BytesIO(data), path=path)):
            with pytest.raises(CorruptShardError, match=place):
                read(data[:size], path="a/shard")


def test_flipped_bit_raises_with_its_record():
    data = frame_records(FRAGILE)
    for place in range(len(data)):
        number = max(n for n, start in enumerate(BOUNDARIES) if start <= place)
        expected = rf"'x'.*\(record {number}, byte {BOUNDARIES[number]}\)"
        for bit in range(8):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            with pytest.raises(CorruptShardError, match=expected):
                payloads(bytes(flipped))
        lengths, error = scan_until_damage(io.BytesIO(flipped), path="x")
        is_seen = place < BOUNDARIES[number] + 12  # a scan only reads lengths
        at = None if error is None else (error.record, error.offset)
        assert at == ((number, BOUNDARIES[number]) if is_seen else None)
        found = FRAGILE[:number] if is_seen else FRAGILE
        assert lengths.tolist() == [len(record) for record in found]


def test_forged_length_does_not_allocate_memory():
    length = struct.pack("<Q", 1 << 62)
    header = length + struct.pack("<I", masked_crc32c(length))
    tracemalloc.start()
    with pytest.raises(CorruptShardError, match="truncated"):
        payloads(frame_records([b"good"]) + header + b"little")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 400 << 20
