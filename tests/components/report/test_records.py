"""Test that records are found, shown and exported, against TensorFlow's and other readers."""

import csv
import gzip
import io
import json
import struct
import wave
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import trainer_utils
from components.report import records
from components.report.display import describe_value, export_examples
from components.report.inspection import feature_row
from components.report.records import Value, find_places, read_examples
from tests.make import wav
from trainer_utils.core.errors import DatasetError
from trainer_utils.core.printable import image_extent
from trainer_utils.dataset import open_dataset
from trainer_utils.format import Feature

NAMES = {"filename": Feature(type="string"), "id": Feature(type="string")}


def encoded(pixels: np.ndarray, kind: str) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


@pytest.fixture
def dataset(photos, write_dataset, tmp_path):
    """Write shards of 4 and 3 `train` records and one `eval` record, with every kind of value."""
    examples = [
        {
            "image": [encoded(photos[n], "JPEG" if n % 2 else "PNG")],
            "label": [n % 2],
            "text": [f"text number {n}".encode()],
            "sound": [wav(n, frames=100 + n)],
            "boxes": [0.5, 0.25 * n],
            "pixels": [photos[n].tobytes()],
            "many": list(range(20)),
        }
        for n in range(8)
    ]
    raw = Feature(type="string", extra={"encoding": "raw", "image_shape": [40, 48, 3]})
    uri = write_dataset(
        tmp_path / "dataset",
        {"train": [examples[:4], examples[4:7]], "eval": [examples[7:]]},
        {"pixels": raw, "label": Feature(type="int")},
    )
    (tmp_path / "dataset/vocab").mkdir()
    (tmp_path / "dataset/vocab/label.txt").write_text("cat\ndog\n")
    return uri


def test_slices_select_records(dataset, subtests):
    for split, count, expected in (
        (None, 2, [("train", 0), ("train", 1)]),
        ("train", 20, [("train", n) for n in range(7)]),
        ("train[3:5]", 20, [("train", 3), ("train", 4)]),
        ("train[-1:]+val", 20, [("train", 6), ("eval", 0)]),
        ("train[3:3]", 20, []),
    ):
        with subtests.test(split=split):
            found = list(read_examples(dataset, split, count=count))
            assert [(example.split, example.number) for example in found] == expected
            texts = [7 if split == "eval" else number for split, number in expected]
            assert [e.values["text"].to_json() for e in found] == [
                f"text number {n}" for n in texts
            ]


def test_gzip_and_third_party_datasets_are_shown(write_dataset, tmp_path):
    uri = write_dataset(
        tmp_path / "gzip", {"train": [[{"x": [n]} for n in range(5)]]}, {}, gzip=True
    )
    bare = tmp_path / "bare"
    bare.mkdir()
    with tf.io.TFRecordWriter(str(bare / "some.tfrecord")) as writer:
        feature = {"x": tf.train.Feature(int64_list=tf.train.Int64List(value=[41]))}
        record = tf.train.Example(features=tf.train.Features(feature=feature))
        writer.write(record.SerializeToString())
    assert [e.values["x"].values for e in read_examples(uri, "train[3:]")] == [[3], [4]]
    assert [e.values["x"].values for e in read_examples(str(bare))] == [[41]]


def test_exported_files_are_readable_by_other_libraries(dataset, photos, tmp_path):
    folder = tmp_path / "looked-at"
    assert export_examples(read_examples(dataset, "train"), str(folder)) == 7
    with (folder / "examples.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["record"] for row in rows] == list("0123456")
    assert [row["text"] for row in rows] == [f"text number {n}" for n in range(7)]
    assert json.loads(rows[3]["boxes"]) == [0.5, 0.75]
    for number, row in enumerate(rows):
        assert (np.asarray(Image.open(folder / row["pixels"])) == photos[number]).all()
        if not number % 2:
            assert (np.asarray(Image.open(folder / row["image"])) == photos[number]).all()
        with wave.open(str(folder / row["sound"])) as reader:
            assert reader.getnframes() == 100 + number


def test_feature_names_are_not_used_as_paths(write_dataset, tmp_path):
    examples = [{"../../outside": [b"\x89PNG\r\n\x1a\n\xff"], "split": [b"x" * 40_000]}]
    uri = write_dataset(tmp_path / "odd", {"train": [examples]}, {})
    folder = tmp_path / "a/b/c"
    export_examples(read_examples(uri), str(folder))
    assert sorted(path.suffix for path in folder.iterdir()) == [".bin", ".csv", ".txt"]
    assert not list(tmp_path.rglob("outside*"))
    assert (folder / "train-00000000-1.txt").read_bytes() == b"x" * 40_000
    with pytest.raises(DatasetError):  # a folder that is not empty is left unchanged
        export_examples(read_examples(uri), str(folder))


def test_export_contains_texts_with_nul_and_long_texts(write_dataset, tmp_path):
    texts = ["plain", 'a "quote", and\r\nlines', "a\0b", "x" * 40_000]
    examples = [{"text": [text.encode()]} for text in texts]
    uri = write_dataset(tmp_path / "texts", {"train": [examples]}, {})
    assert export_examples(read_examples(uri), str(tmp_path / "out")) == len(texts)
    with open(tmp_path / "out/examples.csv", encoding="utf-8", newline="") as stream:
        cells = [row["text"] for row in csv.DictReader(stream)]
    assert cells[:2] == texts[:2]
    assert [(tmp_path / "out" / name).read_bytes().decode() for name in cells[2:]] == texts[2:]


def record_at(shard: Path, offset: int) -> bytes:
    """Return the payload of the frame at an offset, parsed by the format's specification."""
    data = shard.read_bytes()
    data = gzip.decompress(data) if shard.suffix == ".gz" else data
    (length,) = struct.unpack_from("<Q", data, offset)
    return data[offset + 12 : offset + 12 + length]


def places(uri, name):
    return [(place.split, place.record) for place in find_places(open_dataset(str(uri)), name)]


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
def test_each_record_is_found_where_tensorflow_reads_it(tmp_path, write_dataset, compressed):
    # Each name is a prefix of another and occurs in another's image: only the feature counts.
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


def test_duplicate_non_utf8_and_integer_names_are_found(tmp_path, write_dataset):
    rows = [{"filename": [name]} for name in (b"a", b"caf\xe9.jpg", b"a")]
    write_dataset(tmp_path / "a", {"train": [rows], "eval": [rows[:1]]}, NAMES)
    assert places(tmp_path / "a", "a") == [("train", 0), ("train", 2), ("eval", 0)]
    assert places(tmp_path / "a", "caf\udce9.jpg") == [("train", 1)]
    numbers = [{"id": [n]} for n in (7, -3)]
    write_dataset(tmp_path / "b", {"train": [numbers]}, {"id": Feature(type="int")})
    assert places(tmp_path / "b", "-3") == [("train", 1)]


def test_third_party_datasets_are_searched(tmp_path, serialize):
    (tmp_path / "Split-train").mkdir()
    with tf.io.TFRecordWriter(str(tmp_path / "Split-train" / "data.gz"), "GZIP") as writer:
        for name in (b"a", b"b"):
            writer.write(serialize(filename=[name], weight=[0.5]))
    assert places(tmp_path, "b") == [("train", 1)]


def test_names_are_found_with_and_without_the_index(tmp_path, monkeypatch):
    uri = str(tmp_path / "out")
    with trainer_utils.DatasetWriter(uri, num_shards={"train": 3, "eval": 1}) as writer:
        for number in range(60):
            split = "eval" if number % 4 == 0 else "train"
            writer.write(split, {"id": f"{number % 50}", "text": f"{number} 7 8"})
    names, dataset = ["0", "7", "8", "49", "50"], open_dataset(uri)
    with monkeypatch.context() as patch:
        patch.setattr(records, "read_shard_blocks", None)
        found = [find_places(dataset, name) for name in names]
    assert [len(each) for each in found] == [2, 2, 2, 1, 0]
    indices = [path for path in (tmp_path / "out/index").rglob("*") if path.is_file()]
    assert len(indices) == 4
    for path in indices:
        path.unlink()
    read, blocks = [], records.read_shard_blocks
    monkeypatch.setattr(
        records,
        "read_shard_blocks",
        lambda *args, **kwargs: read.append(1) or blocks(*args, **kwargs),
    )
    assert [find_places(open_dataset(uri), name) for name in names] == found
    assert len(read) == 4 * len(names), "every shard is read for each name"


def test_all_messages_give_the_image_width_first():
    value = Value(values=[b"x"], kind="image", format="JPEG", shape=(121, 68, 3))
    assert describe_value(value).startswith("JPEG, 68 x 121 x 3, ")
    feature = Feature(type="string", shape=(121, 68, 3), extra={"sizes": "fixed"})
    assert feature_row("image", feature, {})[2] == "68 x 121, 3 channels"
    assert image_extent(121, 68) == "68 x 121"  # the same text as in an audit
