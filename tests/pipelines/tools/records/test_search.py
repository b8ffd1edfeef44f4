"""Where a record is in each dataset, by TensorFlow's own reader and by the bytes at that place."""

import gzip
import json
import re
import struct
from pathlib import Path

import pytest
import tensorflow as tf

import trainer_utils
from pipelines.tools.records import search as search_module
from pipelines.tools.records.search import search_dataset
from trainer_utils.format import Feature
from trainer_utils.format.sealing import seal

NAMES = {"filename": Feature(type="string"), "id": Feature(type="string")}


def record_at(shard: Path, offset: int) -> bytes:
    """The payload of the frame at a place, by the format's description."""
    data = shard.read_bytes()
    data = gzip.decompress(data) if shard.suffix == ".gz" else data
    (length,) = struct.unpack_from("<Q", data, offset)
    return data[offset + 12 : offset + 12 + length]


def records_of(shard: Path) -> list[bytes]:
    compression = "GZIP" if shard.suffix == ".gz" else ""
    return [r.numpy() for r in tf.data.TFRecordDataset(str(shard), compression)]


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
def test_each_record_is_found_where_tensorflow_reads_it(tmp_path, write_dataset, compressed):
    # Each name begins another and stands in the image of another: only the feature counts.
    rows = [
        {"filename": [f"a/{number}".encode()], "image": [f"a/{number + 1}a/12".encode() * number]}
        for number in range(23)
    ]
    splits = {"train": [rows[:10], rows[10:19]], "eval": [[], rows[19:]]}
    write_dataset(tmp_path, splits, NAMES, gzip=compressed)
    for number in range(23):
        search = search_dataset(str(tmp_path), f"a/{number}")
        assert search.outcome == "found"
        (place,) = search.places
        shard = tmp_path / place.shard
        record = records_of(shard)[place.record]
        example = tf.train.Example.FromString(record)
        assert example.features.feature["filename"].bytes_list.value == [f"a/{number}".encode()]
        assert record_at(shard, place.byte_offset) == record
        assert place.bytes == len(record)
        assert place.split == ("train" if number < 19 else "eval")
    assert search_dataset(str(tmp_path), "a/23").outcome == "not found"


def test_a_record_is_found_in_each_of_many_blocks_of_a_shard(tmp_path, write_dataset):
    rows = [{"id": [b"%d" % number], "text": [bytes(1 << 20)]} for number in range(20)]
    write_dataset(tmp_path, {"train": [rows]}, NAMES)
    for number in (0, 7, 8, 9, 19):
        (place,) = search_dataset(str(tmp_path), str(number)).places
        assert (place.record, place.feature) == (number, "id")


def test_a_record_that_is_there_twice_is_found_twice(tmp_path, write_dataset):
    row, other = {"filename": [b"a"]}, {"filename": [b"b"]}
    write_dataset(tmp_path, {"train": [[row, other, row]], "eval": [[row]]}, NAMES)
    places = search_dataset(str(tmp_path), "a").places
    assert [(place.split, place.record) for place in places] == [
        ("train", 0),
        ("train", 2),
        ("eval", 0),
    ]


def test_names_that_are_no_utf8_are_found(tmp_path, write_dataset):
    write_dataset(tmp_path, {"train": [[{"filename": [b"caf\xe9.jpg"]}]]}, NAMES)
    assert search_dataset(str(tmp_path), "caf\udce9.jpg").outcome == "found"


def test_rejected_inputs_are_found_with_what_was_wrong(tmp_path, write_dataset):
    write_dataset(tmp_path, {"train": [[{"filename": [b"a"]}]]}, NAMES)
    rejects = [
        {"split": "train", "source": "b\u2028.jpg", "code": "EMPTY_FILE", "detail": "0 bytes"},
        {"split": "eval", "source": "b", "code": "NOT_AN_IMAGE", "detail": "…"},
    ]
    text = "".join(json.dumps(reject, ensure_ascii=False) + "\n" for reject in rejects)
    (tmp_path / "rejects.jsonl").write_text(text, encoding="utf-8")
    search = search_dataset(str(tmp_path), "b\u2028.jpg")
    assert (search.outcome, list(search.rejects)) == ("rejected", rejects[:1])
    assert search_dataset(str(tmp_path), "b").rejects == rejects[1:]


def test_a_dataset_that_skipped_inputs_says_so_of_what_it_lacks(tmp_path, write_dataset):
    write_dataset(tmp_path, {"train": [[{"filename": [b"a"]}]]}, NAMES)
    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["splits"]["train"] |= {"found": 4, "skipped": 3}
    path.write_text(seal(json.dumps(manifest, indent=2)))
    assert "3 inputs were skipped by a setting" in search_dataset(str(tmp_path), "b").detail


def test_datasets_of_others_say_that_they_do_not_tell(tmp_path, serialize):
    (tmp_path / "Split-train").mkdir()
    with tf.io.TFRecordWriter(str(tmp_path / "Split-train" / "data")) as writer:
        writer.write(serialize(age=[1], name=[b"a"], id=[7]))
    search = search_dataset(str(tmp_path), "a")
    assert search.outcome == "unknown"
    assert "neither filename nor id nor record_id" in search.detail


def test_datasets_of_others_with_a_filename_are_searched(tmp_path, serialize):
    (tmp_path / "Split-train").mkdir()
    with tf.io.TFRecordWriter(str(tmp_path / "Split-train" / "data.gz"), "GZIP") as writer:
        for name in (b"a", b"b"):
            writer.write(serialize(filename=[name], weight=[0.5]))
    (place,) = search_dataset(str(tmp_path), "b").places
    assert (place.shard, place.record) == ("Split-train/data.gz", 1)


@pytest.mark.parametrize(
    ("damage", "detail"),
    [
        (lambda uri: (uri / "manifest.json").write_text("{"), "expected JSON"),
        (lambda uri: (uri / "manifest.json").write_bytes(b"\xff"), r"expected UTF-8, got b'\\xff'"),
        (lambda uri: (uri / "rejects.jsonl").write_text("{"), "expected a list of rejects"),
        (lambda uri: next(uri.rglob("data_*")).write_bytes(b"x"), "expected .* bytes, got 1"),
        (lambda uri: next(uri.rglob("data_*")).unlink(), "is missing"),
    ],
    ids=["manifest", "no text", "rejects", "cut short", "lost"],
)
def test_a_damaged_dataset_says_what_is_wrong(tmp_path, write_dataset, damage, detail):
    write_dataset(tmp_path, {"train": [[{"filename": [b"a"]}]]}, NAMES)
    damage(tmp_path)
    search = search_dataset(str(tmp_path), "a")
    assert search.outcome == "unknown"
    assert re.search(detail, search.detail)


def test_a_flipped_bit_is_found_before_the_record(tmp_path, write_dataset):
    write_dataset(tmp_path, {"train": [[{"filename": [b"abc"]}]]}, NAMES)
    shard = next(tmp_path.rglob("data_*"))
    shard.write_bytes(shard.read_bytes().replace(b"abc", b"abd"))
    search = search_dataset(str(tmp_path), "abd")
    assert search.outcome == "unknown"
    assert "byte 0" in search.detail


def test_names_are_looked_up_in_the_index_and_without_it_in_the_shards(tmp_path, monkeypatch):
    uri = str(tmp_path / "out")
    with trainer_utils.DatasetWriter(uri, num_shards={"train": 3, "eval": 1}) as writer:
        for number in range(60):
            split = "eval" if number % 4 == 0 else "train"
            writer.write(split, {"id": f"{number % 50}", "text": f"{number} 7 8"})
    names = ["0", "7", "8", "49", "50"]
    with monkeypatch.context() as patch:
        patch.setattr(search_module, "read_shard_blocks", None)
        found = [search_dataset(uri, name) for name in names]
    for path in (tmp_path / "out/index").glob("*.npy"):
        path.write_bytes(path.read_bytes()[:-1])
    assert [search_dataset(uri, name) for name in names] == found
    assert [len(each.places) for each in found] == [2, 2, 2, 1, 0]


def test_a_dataset_whose_files_are_gone_says_so(tmp_path):
    assert "files are gone" in search_dataset(str(tmp_path / "gone"), "a").detail
