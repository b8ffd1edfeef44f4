"""Test shards and record indices against TensorFlow's reader and writer, gzip, and damage."""

import gzip
import io
import random

import google_crc32c
import numpy as np
import pytest
import tensorflow as tf

from tests.make import frame_records, write_records
from trainer_utils.core.errors import CorruptShardError
from trainer_utils.format import RecordIndex, Shard, ShardWriter, read_blocks, scan_lengths
from trainer_utils.format.tfrecord import extend_crc32c, mask_crc32c

PATH = "Split-train/data_tfrecord-00000-of-00001"
RECORDS = [random.Random(n).randbytes(size) for n, size in enumerate([0, 5, 3 << 20, 100, 1 << 20])]


def write(path, records, *, compress=False):
    with path.open("wb") as stream:
        writer = ShardWriter(stream, gzip=compress)
        for record in records:
            writer.write([record[:3], record[3:]])
        return writer.finish()


@pytest.mark.parametrize("compress", [False, True])
def test_digest_matches_the_written_file(tmp_path, compress):
    path = tmp_path / "shard"
    digest = write(path, RECORDS, compress=compress)
    assert digest.records == len(RECORDS)
    assert digest.bytes == path.stat().st_size
    assert digest.crc32c == google_crc32c.value(path.read_bytes())
    read = tf.data.TFRecordDataset(str(path), "GZIP" if compress else "").as_numpy_iterator()
    assert list(read) == RECORDS


def test_gzip_shards_are_reproducible(tmp_path):
    for name in ("one", "two"):
        write(tmp_path / name, RECORDS, compress=True)
    data = (tmp_path / "one").read_bytes()
    assert data == (tmp_path / "two").read_bytes()
    assert gzip.decompress(data) == frame_records(RECORDS)


def test_framed_blocks_and_records_keep_their_order():
    stream = io.BytesIO()
    writer, shuffled = ShardWriter(stream), ShardWriter(io.BytesIO())
    (block,) = read_blocks(io.BytesIO(frame_records([b"second", b"third"])), path="x")
    writer.write([b"first"])
    writer.write_framed(block.data, block.lengths, block.payload_crcs)
    writer.write([b"fourth"])
    for record in (b"third", b"fourth", b"first", b"second"):
        shuffled.write([record])
    assert writer.finish().content == shuffled.finish().content
    assert stream.getvalue() == frame_records([b"first", b"second", b"third", b"fourth"])


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> tuple[bytes, list[bytes]]:
    """Write 500 records of 0 to 5,000 bytes by TensorFlow; return the file and the records."""
    source = random.Random(0)
    records = [source.randbytes(source.choice([0, 1, 50, 5000])) for _ in range(500)]
    return write_records(tmp_path_factory.mktemp("tf") / "data", records), records


def index_of(data: bytes) -> RecordIndex:
    return RecordIndex(scan_lengths(io.BytesIO(data), path=PATH))


def shard_of(data: bytes, records: int, index: bytes | None = None) -> Shard:
    crc = None if index is None else extend_crc32c(0, index)
    return Shard(
        path=PATH, split="train", records=records, bytes=len(data), crc32c=0, index_crc32c=crc
    )


def test_any_record_is_read_by_its_index(written, subtests):
    data, records = written
    index, stream = index_of(data), io.BytesIO(data)
    order = random.Random(1).sample(range(500), 500)
    assert [index.read(stream, i, path=PATH) for i in order] == [records[i] for i in order]
    for number in (-1, 500):
        with subtests.test(number=number), pytest.raises(IndexError):
            index.read(stream, number, path=PATH)


def test_writer_index_matches_the_written_records(written):
    data, records = written
    stream = io.BytesIO()
    writer = ShardWriter(stream)
    for record in records:
        writer.write([record[:7], record[7:]])
    writer.finish()
    assert stream.getvalue() == data
    assert writer.index.offsets.tolist() == index_of(data).offsets.tolist()
    read = RecordIndex.from_bytes(writer.index.to_bytes(), path="x")
    crcs = [google_crc32c.value(record) for record in records]
    assert read.payload_crcs.tolist() == mask_crc32c(np.array(crcs, np.uint32)).tolist()
    assert not read.name_crcs.any()
    (block,) = read_blocks(io.BytesIO(data), path=PATH)
    again = ShardWriter(io.BytesIO())
    again.write_framed(block.data, block.lengths, block.payload_crcs)
    assert again.index.to_bytes() == writer.index.to_bytes()


def test_names_are_given_or_found_in_records(serialize, subtests):
    count = 40
    features = [
        {"filename": [b"a/b.jpg"], "label": [3]},
        {"id": [b"second"], "filename": []},
        {"id": [b"x", b"y"], "record_id": [b"first"], "filename": [b"z"]},
        {"text": [b"no name"]},
        {"id": [7]},
    ] * count
    names = [b"a/b.jpg", b"second", b"first", None, None] * count
    records = [*(serialize(**one) for one in features), b"no example"]
    told, found, framed = (ShardWriter(io.BytesIO(), buffer_bytes=900) for _ in range(3))
    for record, name in zip(records, [*names, None], strict=True):
        told.write([record], name=name)
        found.write([record[:5], record[5:]])
    (block,) = read_blocks(io.BytesIO(frame_records(records)), path=PATH)
    framed.write_framed(block.data, block.lengths, block.payload_crcs)
    expected = [0 if name is None else google_crc32c.value(name) for name in [*names, None]]
    for writer in (told, found, framed):
        with subtests.test(writer=writer):
            assert writer.index.name_crcs.tolist() == expected


def test_lengths_are_stored_in_the_smallest_integer_type(written, subtests):
    index = index_of(written[0])
    array = np.load(io.BytesIO(index.to_bytes()))
    assert array.dtype == np.uint16
    assert array.tolist() == [len(record) for record in written[1]]
    for length, dtype in ((0xFFFF, "u2"), (0x10000, "u4"), (0xFFFFFFFF, "u4"), (1 << 32, "u8")):
        with subtests.test(length=length):
            made = RecordIndex(np.array([length, 3], np.int64))
            assert np.load(io.BytesIO(made.to_bytes())).dtype == dtype
            assert RecordIndex.from_bytes(made.to_bytes(), path="x").lengths.tolist() == [length, 3]


def test_damaged_record_raises_with_its_offset(written, subtests):
    data, _ = written
    index = index_of(data)
    number = int(index.lengths.argmax())
    for within in (0, 9, 20, int(index.lengths[number]) + 13):  # length, its CRC, payload, its CRC
        with subtests.test(within=within):
            bad = bytearray(data)
            bad[index.offsets[number] + within] ^= 1
            with pytest.raises(CorruptShardError, match=rf"byte {index.offsets[number]}\)"):
                index.read(io.BytesIO(bad), number, path=PATH)


def test_index_of_another_shard_raises(written, subtests):
    data, _ = written
    index = index_of(data)
    good = index.to_bytes()
    sums = np.arange(500, dtype=np.uint32)
    summed = RecordIndex(index.lengths, sums, sums)
    shard = shard_of(data, 500, good)
    assert len(RecordIndex.from_bytes(good, path="x", shard=shard)) == 500
    fewer = RecordIndex(index.lengths[:-1])
    their_sums = RecordIndex(index.lengths[:-1], sums[:-1], sums[:-1]).to_bytes()
    others = {
        "fewer": fewer.to_bytes(),
        "two exchanged": RecordIndex(index.lengths[::-1]).to_bytes(),
        "cut short": good[:-1],
        "no array": b"nothing",
        "no numbers": good.replace(b"<u2", b"<f2"),
        "no sums": good + good,
        "sums of fewer": good + their_sums[len(fewer.to_bytes()) :],
        "one of the sums": summed.to_bytes()[: (len(good) + len(summed.to_bytes())) // 2],
        "another size of its header": good[:8] + bytes([good[8] ^ 1]) + good[9:],
        "one array too many": summed.to_bytes() + good,
        "half of the sums": summed.to_bytes()[: -len(summed.to_bytes()) // 3],
    }
    for what, other in others.items():
        with subtests.test(what=what):
            with pytest.raises(CorruptShardError, match=what):
                RecordIndex.from_bytes(other, path=what, shard=shard)
            if "exchanged" not in what and what != "fewer":
                with pytest.raises(CorruptShardError, match=what):
                    RecordIndex.from_bytes(other, path=what)
    without_sum = shard._replace(index_crc32c=None, records=499)
    with pytest.raises(CorruptShardError, match="499"):
        RecordIndex.from_bytes(good, path="x", shard=without_sum)
    zipped = shard._replace(path=PATH + ".gz", bytes=5)  # its compressed size
    assert len(RecordIndex.from_bytes(good, path="x", shard=zipped)) == 500
