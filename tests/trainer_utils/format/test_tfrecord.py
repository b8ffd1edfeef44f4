"""TFRecord framing against TensorFlow's own writer, and damage at every byte."""

import io
import struct
import tracemalloc

import google_crc32c
import numpy as np
import pytest

from tests.trainer_utils.format.tfrecord_files import (
    RECORDS,
    frame_records,
    payloads,
    written_by_tensorflow,
)
from trainer_utils.format import CorruptShardError, read_blocks, scan_lengths
from trainer_utils.format.tfrecord import (
    RECORD_OVERHEAD_BYTES,
    footers_of,
    frame_footers,
    frame_headers,
    masked_crc32c,
    scan_until_damage,
    unframe,
)


@pytest.mark.parametrize("records", RECORDS.values(), ids=RECORDS)
def test_framed_records_are_the_bytes_that_tensorflow_writes(tmp_path, records):
    assert frame_records(records) == written_by_tensorflow(tmp_path / "records", records)


def test_headers_and_footers_of_many_records_are_those_that_tensorflow_writes(tmp_path):
    block = written_by_tensorflow(tmp_path / "records", [b"a" * n for n in range(300)])
    (read,) = read_blocks(io.BytesIO(block), path="x")
    crcs = np.array([google_crc32c.value(record) for record in read.records()], np.uint32)
    headers, footers = frame_headers(read.lengths), frame_footers(crcs)
    parts = zip(headers, read.records(), footers, strict=True)
    assert b"".join(h.tobytes() + r + f.tobytes() for h, r, f in parts) == block
    ends = read.starts + read.lengths + RECORD_OVERHEAD_BYTES
    assert footers_of(block, ends).tolist() == read.payload_crcs.tolist()


def test_one_frame_is_taken_apart_or_refused_with_its_place():
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
def test_blocks_of_any_size_hold_the_records_of_tensorflows_file(tmp_path, name, block_bytes):
    data = written_by_tensorflow(tmp_path / "records", RECORDS[name])
    blocks = list(read_blocks(io.BytesIO(data), path="x", block_bytes=block_bytes))
    assert [record for block in blocks for record in block.records()] == RECORDS[name]
    assert b"".join(bytes(frame) for block in blocks for frame in block.frames()) == data
    assert all(data[b.file_offset :].startswith(b.data) for b in blocks)
    assert [int(n) for b in blocks for n in b.lengths] == [len(r) for r in RECORDS[name]]


FRAGILE = [b"first record", b"", b"third"]
BOUNDARIES = [0, 28, 44, 65]


def test_a_file_cut_anywhere_but_between_records_is_refused():
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
        with pytest.raises(CorruptShardError, match=place):
            payloads(data[:size], path="a/shard")
        with pytest.raises(CorruptShardError, match=place):
            scan_lengths(io.BytesIO(data[:size]), path="a/shard")


def test_each_flipped_bit_is_found_in_its_record():
    data = frame_records(FRAGILE)
    for place in range(len(data)):
        number = max(n for n, start in enumerate(BOUNDARIES) if start <= place)
        expected = rf"'x'.*\(record {number}, byte {BOUNDARIES[number]}\)"
        for bit in range(8):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            with pytest.raises(CorruptShardError, match=expected):
                payloads(bytes(flipped))
        # A scan looks at lengths alone.
        lengths, error = scan_until_damage(io.BytesIO(flipped), path="x")
        if place < BOUNDARIES[number] + 12:
            assert (error.record, error.offset) == (number, BOUNDARIES[number])
        else:
            assert error is None
        found = FRAGILE if error is None else FRAGILE[:number]
        assert lengths.tolist() == [len(record) for record in found]


def test_a_huge_length_with_a_right_sum_allocates_nothing_of_that_size():
    length = struct.pack("<Q", 1 << 62)
    header = length + struct.pack("<I", masked_crc32c(length))
    tracemalloc.start()
    with pytest.raises(CorruptShardError, match="truncated"):
        payloads(frame_records([b"good"]) + header + b"little")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 400 << 20
