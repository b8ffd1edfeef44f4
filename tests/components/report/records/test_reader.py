"""`show` against the values that were written, and files that other libraries read back."""

import csv
import json
import wave

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from components.report.records import export_examples, read_examples
from trainer_utils.format import DatasetError


def test_the_records_of_a_slice(dataset):
    for split, count, expected in (
        (None, 2, [("train", 0), ("train", 1)]),
        ("train", 20, [("train", n) for n in range(7)]),
        ("train[3:5]", 20, [("train", 3), ("train", 4)]),
        ("train[-1:]+val", 20, [("train", 6), ("eval", 0)]),
        ("train[3:3]", 20, []),
    ):
        found = list(read_examples(dataset, split, count=count))
        assert [(example.split, example.number) for example in found] == expected
        texts = [7 if split == "eval" else number for split, number in expected]
        assert [e.values["text"].to_json() for e in found] == [f"text number {n}" for n in texts]


def test_gzip_and_datasets_of_others_are_shown(write_dataset, tmp_path):
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


def test_exported_files_are_what_other_libraries_read(dataset, photos, tmp_path):
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


def test_names_of_features_make_no_paths(write_dataset, tmp_path):
    examples = [{"../../outside": [b"\x89PNG\r\n\x1a\n\xff"], "split": [b"x" * 40_000]}]
    uri = write_dataset(tmp_path / "odd", {"train": [examples]}, {})
    folder = tmp_path / "a/b/c"
    export_examples(read_examples(uri), str(folder))
    assert sorted(path.suffix for path in folder.iterdir()) == [".bin", ".csv", ".txt"]
    assert not list(tmp_path.rglob("outside*"))
    assert (folder / "train-00000000-1.txt").read_bytes() == b"x" * 40_000
    with pytest.raises(DatasetError):  # a folder with something in it is left alone
        export_examples(read_examples(uri), str(folder))


def test_an_export_holds_every_text_a_nul_among_them(write_dataset, tmp_path):
    texts = ["plain", 'a "quote", and\r\nlines', "a\0b", "x" * 40_000]
    examples = [{"text": [text.encode()]} for text in texts]
    uri = write_dataset(tmp_path / "texts", {"train": [examples]}, {})
    assert export_examples(read_examples(uri), str(tmp_path / "out")) == len(texts)
    with open(tmp_path / "out/examples.csv", encoding="utf-8", newline="") as stream:
        cells = [row["text"] for row in csv.DictReader(stream)]
    assert cells[:2] == texts[:2]
    assert [(tmp_path / "out" / name).read_bytes().decode() for name in cells[2:]] == texts[2:]
