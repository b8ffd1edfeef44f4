"""TFRecord framing against TensorFlow's own writer and reader."""

import io
import struct
import tracemalloc

import pytest

from tests.trainer_utils.format.tfrecord_files import RECORDS, written_by_tensorflow
from trainer_utils.format import CorruptShardError, count_records, read_blocks
from trainer_utils.format.crc32c import masked_crc32c
from trainer_utils.format.framing import frame_records
from trainer_utils.format.tfrecord import read_records, scan_until_damage


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
        stream = io.BytesIO(data[:size])
        if size in BOUNDARIES:
            assert list(read_records(stream, path="x")) == FRAGILE[: BOUNDARIES.index(size)]
            continue
        number = max(n for n, start in enumerate(BOUNDARIES) if start < size)
        place = rf"'a/shard'.*\(record {number}, byte {BOUNDARIES[number]}\)"
        with pytest.raises(CorruptShardError, match=place):
            list(read_records(stream, path="a/shard"))
        with pytest.raises(CorruptShardError, match=place):
            count_records(io.BytesIO(data[:size]), path="a/shard")


def test_each_flipped_bit_is_found_in_its_record():
    data = frame_records(FRAGILE)
    for place in range(len(data)):
        number = max(n for n, start in enumerate(BOUNDARIES) if start <= place)
        expected = rf"'x'.*\(record {number}, byte {BOUNDARIES[number]}\)"
        for bit in range(8):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            with pytest.raises(CorruptShardError, match=expected):
                list(read_records(io.BytesIO(flipped), path="x"))


def test_a_huge_length_with_a_right_sum_allocates_nothing_of_that_size():
    length = struct.pack("<Q", 1 << 62)
    header = length + struct.pack("<I", masked_crc32c(length))
    tracemalloc.start()
    with pytest.raises(CorruptShardError, match="truncated"):
        list(read_records(io.BytesIO(frame_records([b"good"]) + header + b"little"), path="x"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 400 << 20


def test_a_scan_of_a_cut_file_finds_the_records_before_and_says_as_data_what_is_wrong():
    data = frame_records(FRAGILE)
    for size in range(len(data)):
        lengths, error = scan_until_damage(io.BytesIO(data[:size]), path="x")
        whole = max(n for n, start in enumerate(BOUNDARIES) if start <= size)
        assert lengths.tolist() == [len(record) for record in FRAGILE[:whole]]
        if size in BOUNDARIES:
            assert error is None
        else:
            place = ("x", whole, BOUNDARIES[whole])
            assert (error.path, error.record, error.offset) == place


def test_a_scan_stops_at_the_first_flipped_length_and_passes_over_flipped_payloads():
    data = frame_records(FRAGILE)
    for place in range(len(data)):
        number = max(n for n, start in enumerate(BOUNDARIES) if start <= place)
        flipped = bytearray(data)
        flipped[place] ^= 1
        lengths, error = scan_until_damage(io.BytesIO(flipped), path="x")
        if place < BOUNDARIES[number] + 12:
            assert (error.record, error.offset) == (number, BOUNDARIES[number])
        else:
            assert error is None
        found = FRAGILE if error is None else FRAGILE[:number]
        assert lengths.tolist() == [len(record) for record in found]
