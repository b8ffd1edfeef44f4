"""Where a record is in each dataset, by TensorFlow's own reader and by the bytes at that place."""

import gzip
import struct
from pathlib import Path

import pytest
import tensorflow as tf

import trainer_utils
from components.report.records import lookup
from components.report.records.lookup import find_places
from trainer_utils.dataset import open_dataset
from trainer_utils.format import Feature

NAMES = {"filename": Feature(type="string"), "id": Feature(type="string")}


def record_at(shard: Path, offset: int) -> bytes:
    """The payload of the frame at a place, by the format's description."""
    data = shard.read_bytes()
    data = gzip.decompress(data) if shard.suffix == ".gz" else data
    (length,) = struct.unpack_from("<Q", data, offset)
    return data[offset + 12 : offset + 12 + length]


def places(uri, name):
    return [(place.split, place.record) for place in find_places(open_dataset(str(uri)), name)]


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
def test_each_record_is_found_where_tensorflow_reads_it(tmp_path, write_dataset, compressed):
    # Each name begins another and stands in the image of another: only the feature counts.
    rows = [
        {"filename": [f"a/{number}".encode()], "image": [f"a/{number + 1}a/12".encode() * number]}
        for number in range(23)
    ]
    splits = {"train": [rows[:10], rows[10:19]], "eval": [[], rows[19:]]}
    write_dataset(tmp_path, splits, NAMES, gzip=compressed)
    dataset = open_dataset(str(tmp_path))
    for number in range(23):
        (place,) = find_places(dataset, f"a/{number}")
        shard = tmp_path / place.shard
        compression = "GZIP" if compressed else ""
        record = [r.numpy() for r in tf.data.TFRecordDataset(str(shard), compression)][place.record]
        example = tf.train.Example.FromString(record)
        assert example.features.feature["filename"].bytes_list.value == [f"a/{number}".encode()]
        assert record_at(shard, place.byte_offset) == record
        assert (place.bytes, place.split) == (len(record), "train" if number < 19 else "eval")
    assert find_places(dataset, "a/23") == []


def test_what_is_there_twice_no_utf_8_or_a_number_is_found(tmp_path, write_dataset):
    rows = [{"filename": [name]} for name in (b"a", b"caf\xe9.jpg", b"a")]
    write_dataset(tmp_path / "a", {"train": [rows], "eval": [rows[:1]]}, NAMES)
    assert places(tmp_path / "a", "a") == [("train", 0), ("train", 2), ("eval", 0)]
    assert places(tmp_path / "a", "caf\udce9.jpg") == [("train", 1)]
    numbers = [{"id": [n]} for n in (7, -3)]
    write_dataset(tmp_path / "b", {"train": [numbers]}, {"id": Feature(type="int")})
    assert places(tmp_path / "b", "-3") == [("train", 1)]


def test_datasets_of_others_are_searched(tmp_path, serialize):
    (tmp_path / "Split-train").mkdir()
    with tf.io.TFRecordWriter(str(tmp_path / "Split-train" / "data.gz"), "GZIP") as writer:
        for name in (b"a", b"b"):
            writer.write(serialize(filename=[name], weight=[0.5]))
    assert places(tmp_path, "b") == [("train", 1)]


def test_names_are_looked_up_in_the_index_and_without_it_in_the_shards(tmp_path, monkeypatch):
    uri = str(tmp_path / "out")
    with trainer_utils.DatasetWriter(uri, num_shards={"train": 3, "eval": 1}) as writer:
        for number in range(60):
            split = "eval" if number % 4 == 0 else "train"
            writer.write(split, {"id": f"{number % 50}", "text": f"{number} 7 8"})
    names, dataset = ["0", "7", "8", "49", "50"], open_dataset(uri)
    with monkeypatch.context() as patch:
        patch.setattr(lookup, "read_shard_blocks", None)
        found = [find_places(dataset, name) for name in names]
    for path in (tmp_path / "out/index").glob("*.names.npy"):
        path.write_bytes(path.read_bytes()[:-1])
    assert [find_places(dataset, name) for name in names] == found
    assert [len(each) for each in found] == [2, 2, 2, 1, 0]
