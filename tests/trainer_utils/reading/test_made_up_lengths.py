"""Lengths with good checksums that no file can hold; TensorFlow would allocate them."""

import gzip
import itertools
import os
import shutil

import pytest
import tensorflow as tf

from tests.faults.tfrecords import frame, frame_length
from trainer_utils import CorruptShardError, DatasetWriter
from trainer_utils.reading import made_up_lengths
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


SIZES = {"short": [5] * 40_000, "large": [100_000, 0, 5000] * 5, "mixed": [3] * 900 + [300_000, 7]}


def shard_of(path, sizes, *, is_indexed):
    """A shard of records of some sizes, with an index or without one."""
    with DatasetWriter(path, num_shards=1) as writer:
        for size in sizes:
            writer.write("train", {"data": b"x" * size})
    if not is_indexed:
        shutil.rmtree(path / "index")
    return next((path / "Split-train").iterdir())


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_headers_alone_show_that_a_file_is_good_or_is_not(tmp_path, monkeypatch, sizes, is_indexed):
    shard = shard_of(tmp_path / "d", sizes, is_indexed=is_indexed)
    with monkeypatch.context() as patch:
        patch.setattr(made_up_lengths, "scan_lengths", lambda *_, **__: pytest.fail("read whole"))
        refuse_made_up_lengths(str(shard), str(shard), None)
    data = bytearray(shard.read_bytes())
    offsets = list(itertools.accumulate(len(frame(r)) for r in read_back(shard)))
    start = offsets[-2]
    data[start : start + 12] = frame_length(2**40)
    shard.write_bytes(data)
    with pytest.raises(CorruptShardError) as caught:
        refuse_made_up_lengths(str(shard), str(shard), None)
    assert (caught.value.record, caught.value.offset) == (len(sizes) - 1, start)


def read_back(shard):
    return tf.data.TFRecordDataset(str(shard)).as_numpy_iterator()


@pytest.mark.parametrize("is_indexed", [False, True])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_a_file_that_is_cut_while_it_is_looked_at_is_an_error(
    tmp_path, monkeypatch, sizes, is_indexed
):
    shard = shard_of(tmp_path / "d", sizes, is_indexed=is_indexed)
    size = shard.stat().st_size
    find = made_up_lengths.indexed_offsets

    def find_and_cut(*args, **settings):
        offsets = find(*args, **settings)
        os.truncate(shard, size // 2 + 1)  # within a record
        return offsets

    monkeypatch.setattr(made_up_lengths, "indexed_offsets", find_and_cut)
    with pytest.raises(CorruptShardError, match="the end of the file"):
        refuse_made_up_lengths(str(shard), str(shard), None)
