"""Single records of an open shard: those that TensorFlow reads, however it is kept and damaged."""

import gzip

import numpy as np
import pytest
import tensorflow as tf

from trainer_utils.dataset.open_shard import OpenShard
from trainer_utils.format import CorruptShardError

PAYLOADS = [bytes([n]) * (n * 997) for n in range(12)]


def write(path, compression=""):
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for payload in PAYLOADS:
            writer.write(payload)
    return str(path)


@pytest.mark.parametrize("is_mapped", [False, True])
@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_records_by_number_are_those_that_tensorflow_wrote(tmp_path, compression, is_mapped):
    path = write(tmp_path / ("a.gz" if compression else "a"), compression)
    shard = OpenShard(path, is_mapped=is_mapped)
    assert shard.damage is None
    for number in (11, 0, 5, 5):
        assert shard.record(number) == PAYLOADS[number]
    with pytest.raises(CorruptShardError, match="record 12, byte") as caught:
        shard.frame(12)
    assert caught.value.offset == sum(map(len, PAYLOADS)) + 16 * len(PAYLOADS)


@pytest.mark.parametrize("is_mapped", [False, True])
@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_views_are_the_records_in_memory_that_is_used_again(tmp_path, compression, is_mapped):
    path = write(tmp_path / ("a.gz" if compression else "a"), compression)
    shard = OpenShard(path, is_mapped=is_mapped)
    memory = np.zeros(sum(map(len, PAYLOADS)), np.uint8)
    for number in (11, 0, 5, 11, 5):
        assert bytes(shard.view(number, lambda size: memory)) == PAYLOADS[number]


@pytest.mark.parametrize("number", [5, 11])
def test_damage_to_any_part_of_a_record_is_the_same_error_in_a_view(tmp_path, number):
    path = write(tmp_path / "a")
    shard = OpenShard(path)
    begin, end = shard.offset(number), shard.offset(number + 1)
    whole = (tmp_path / "a").read_bytes()
    memory = np.zeros(end - begin, np.uint8)
    for place in (*range(begin, begin + 14), (begin + end) // 2, *range(end - 6, end)):
        changed = bytearray(whole)
        changed[place] ^= 1
        (tmp_path / "a").write_bytes(changed)
        with pytest.raises(CorruptShardError) as by_view:
            shard.view(number, lambda size: memory)
        with pytest.raises(CorruptShardError) as by_record:
            shard.record(number)
        assert str(by_view.value) == str(by_record.value)
    (tmp_path / "a").write_bytes(whole[: end - 1])
    with pytest.raises(CorruptShardError, match="whole record"):
        shard.view(number, lambda size: memory)


def test_records_before_the_damage_of_a_gzip_file_are_there(tmp_path):
    path = tmp_path / "a.gz"
    write(tmp_path / "a")
    whole = (tmp_path / "a").read_bytes()
    zipped = gzip.compress(whole, compresslevel=0)  # stored: damage is where it looks
    path.write_bytes(zipped[: len(zipped) // 2])
    shard = OpenShard(str(path), is_mapped=True)
    readable = next(n for n in range(12) if shard.offset(n + 1) == shard.offset(n))
    assert 0 < readable < 12
    assert [shard.record(n) for n in range(readable)] == PAYLOADS[:readable]
    assert "expected a whole gzip stream" in str(shard.damage)
    with pytest.raises(CorruptShardError, match="whole gzip stream"):
        shard.frame(readable)


def test_a_full_disk_is_no_damage(tmp_path, monkeypatch):
    path = write(tmp_path / "a.gz", "GZIP")

    class Full:
        def write(self, data):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", Full)
    with pytest.raises(OSError, match="No space left"):
        OpenShard(path)


@pytest.mark.parametrize("name", ["a", "a.gz"])
def test_a_shard_that_went_meanwhile_is_an_error_of_ours(tmp_path, name):
    with pytest.raises(CorruptShardError, match=rf"{name}'.*got no such file.*open it again"):
        OpenShard(str(tmp_path / name))


@pytest.mark.parametrize("more", [b"no frame", None])
def test_a_mapped_shard_that_grew_is_an_error_as_soon_as_it_is_looked_at(tmp_path, more):
    path = write(tmp_path / "a")
    data = (tmp_path / "a").read_bytes()
    shard = OpenShard(path, is_mapped=True)
    shard.look_again()
    with open(path, "ab") as stream:
        stream.write(more or data[:16])
    with pytest.raises(CorruptShardError, match="got one that has grown") as caught:
        shard.look_again()
    assert caught.value.offset == len(data)
    assert shard.record(11) == PAYLOADS[11]


def test_more_records_than_a_dataset_says_and_what_lies_behind_them_are_errors(tmp_path):
    path = write(tmp_path / "a")
    shard = OpenShard(path)
    for records in (12, 13, None):
        shard.refuse_more_than(records)
    with pytest.raises(CorruptShardError, match=r"expected 11 records, .* got 12") as caught:
        shard.refuse_more_than(11)
    assert (caught.value.record, caught.value.offset) == (11, shard.offset(11))
    with open(path, "ab") as stream:
        stream.write(b"no frame")
    shard = OpenShard(path)
    shard.refuse_more_than(13)
    with pytest.raises(CorruptShardError, match="record 12, byte"):
        shard.refuse_more_than(12)
