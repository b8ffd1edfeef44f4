"""Lengths with good checksums that no file can hold; TensorFlow would allocate them."""

import gzip

import pytest
import tensorflow as tf

from tests.faults.tfrecords import frame, frame_length
from trainer_utils import CorruptShardError
from trainer_utils.reading.made_up_lengths import refuse_made_up_lengths

RECORDS = [b"first", b"", b"x" * 3000]


@pytest.mark.parametrize("length", [2**20, 2**40, 2**62, 2**63, 2**64 - 1])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_length_past_the_end_is_named(tmp_path, length, suffix):
    path = tmp_path / f"part-00000-of-00001{suffix}"
    start = len(frame(RECORDS[0]))
    data = frame(RECORDS[0]) + frame_length(length) + b"payload"
    path.write_bytes(gzip.compress(data) if suffix else data)
    with pytest.raises(CorruptShardError, match=path.name) as caught:
        refuse_made_up_lengths(str(path), str(path), None)
    assert (caught.value.record, caught.value.offset) == (1, start)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_files_of_tensorflows_writer_pass(tmp_path, suffix):
    for records in ([], RECORDS):
        path = str(tmp_path / f"part-{len(records)}{suffix}")
        with tf.io.TFRecordWriter(path, "GZIP" if suffix else "") as writer:
            for record in records:
                writer.write(record)
        refuse_made_up_lengths(path, path, None)
