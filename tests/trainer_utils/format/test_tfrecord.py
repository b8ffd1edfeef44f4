"""TFRecord framing against TensorFlow's own writer and reader."""

import io
import random
import struct
import tracemalloc

import pytest
import tensorflow as tf

from trainer_utils.format import (
    CorruptShardError,
    count_records,
    frame_records,
    read_blocks,
    read_records,
)
from trainer_utils.format.crc32c import masked_crc32c

RECORDS = {
    "none": [],
    "an empty one": [b""],
    "several": [b"first", b"", b"third record", bytes(100)],
    "large": [random.Random(0).randbytes(1 << 20), b"x", random.Random(1).randbytes(300_000)],
    "many": [b"%d" % number * (number % 7) for number in range(20_000)],
}


def written_by_tensorflow(path, records) -> bytes:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return path.read_bytes()


@pytest.mark.parametrize("records", RECORDS.values(), ids=RECORDS)
def test_framed_records_are_the_bytes_that_tensorflow_writes(tmp_path, records):
    assert frame_records(records) == written_by_tensorflow(tmp_path / "records", records)


@pytest.mark.parametrize("records", RECORDS.values(), ids=RECORDS)
def test_tensorflow_reads_what_is_framed(tmp_path, records):
    path = tmp_path / "records"
    path.write_bytes(frame_records(records))
    assert list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator()) == records


@pytest.mark.parametrize("block_bytes", [1, 13, 1000, 1 << 23])
@pytest.mark.parametrize("name", ["several", "large"])
def test_blocks_of_any_size_hold_the_records_of_tensorflows_file(tmp_path, name, block_bytes):
    data = written_by_tensorflow(tmp_path / "records", RECORDS[name])
    blocks = list(read_blocks(io.BytesIO(data), path="x", block_bytes=block_bytes))
    assert [record for block in blocks for record in block.records()] == RECORDS[name]
    assert b"".join(bytes(frame) for block in blocks for frame in block.frames()) == data
    assert all(data[b.file_offset :].startswith(b.data) for b in blocks)
    assert [int(n) for b in blocks for n in b.lengths] == [len(r) for r in RECORDS[name]]


def test_a_blocks_sums_are_those_that_tensorflow_wrote(tmp_path):
    data = written_by_tensorflow(tmp_path / "records", [b"one", b"two"])
    (block,) = read_blocks(io.BytesIO(data), path="x")
    footers = [struct.unpack("<I", data[15:19])[0], struct.unpack("<I", data[34:38])[0]]
    assert block.payload_crcs.tolist() == footers


@pytest.mark.parametrize("records", RECORDS.values(), ids=RECORDS)
def test_records_are_counted_without_being_read(records):
    data = frame_records(records)
    assert count_records(io.BytesIO(data), path="x") == (len(records), len(data))


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


def test_a_flipped_length_is_found_by_counting_too():
    data = bytearray(frame_records(FRAGILE))
    data[28] ^= 1
    with pytest.raises(CorruptShardError, match=r"record 1, byte 28"):
        count_records(io.BytesIO(data), path="x")


def test_a_huge_length_with_a_right_sum_allocates_nothing_of_that_size():
    length = struct.pack("<Q", 1 << 62)
    header = length + struct.pack("<I", masked_crc32c(length))
    tracemalloc.start()
    with pytest.raises(CorruptShardError, match="truncated"):
        list(read_records(io.BytesIO(frame_records([b"good"]) + header + b"little"), path="x"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 400 << 20
