"""Frames of records, against the bytes that TensorFlow writes."""

import io

import google_crc32c
import numpy as np
import pytest

from tests.trainer_utils.format.tfrecord_files import RECORDS, written_by_tensorflow
from trainer_utils.format import CorruptShardError, read_blocks
from trainer_utils.format.framing import (
    RECORD_OVERHEAD_BYTES,
    footers_of,
    frame_footers,
    frame_headers,
    frame_records,
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
