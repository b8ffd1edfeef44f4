"""Test `croissant.json` with MLCommons' own library."""

import hashlib
import json
import re

import pytest

pytest.importorskip("mlcroissant", reason="the oracle")
import mlcroissant as mlc

from trainer_utils.format import Feature
from trainer_utils.format.croissant import render_croissant

HOSTILE = '</x> "split"\x1b{{a}}|\\ é/%41#?&'
FEATURES = {
    "image": Feature(type="string", shape=(3, 4, 3), extra={"formats": ["JPEG"]}),
    "audio": Feature(type="string"),
    "sample_rate": Feature(type="int"),
    "label": Feature(type="int"),
    "split": Feature(type="string"),
    HOSTILE: Feature(type="float", shape=(2,), dense=False),
}
LABELS = ["cat", "dog", HOSTILE]
FILES = {"vocab/label.txt": "cat\ndog\n", f"vocab/{HOSTILE}.txt": "é\n"}


@pytest.fixture(scope="module")
def dataset():
    text = render_croissant(
        FEATURES,
        {"train": 3, "eval": 1},
        vocabularies={"label": LABELS},
        files=FILES,
        fingerprint="0123456789abcdef",
    )
    return mlc.Dataset(jsonld=json.loads(text))  # raises if it is invalid


def test_every_feature_is_a_field_with_its_type(dataset):
    (examples,) = [one for one in dataset.metadata.record_sets if one.id == "examples"]
    kinds = {
        field.source.extract.column: [str(kind).rpartition("/")[2] for kind in field.data_types]
        for field in examples.fields[1:]
    }
    assert kinds == {
        "image": ["ImageObject"],
        "audio": ["AudioObject"],
        "sample_rate": ["Integer"],
        "label": ["Integer"],
        "split": ["Text"],
        HOSTILE: ["Float"],
    }
    repeated = {field.name for field in examples.fields if field.repeated}
    assert repeated == {HOSTILE}


def test_splits_and_classes_are_records(dataset):
    assert list(dataset.records("splits")) == [{"splits/name": "train"}, {"splits/name": "eval"}]
    classes = [
        (one["classes/label/id"], one["classes/label/name"])
        for one in dataset.records("classes/label")
    ]
    assert classes == list(enumerate(LABELS))


def test_files_have_their_checksums(dataset):
    sums = {one.name: one.sha256 for one in dataset.metadata.file_objects}
    assert sums == {p: hashlib.sha256(t.encode()).hexdigest() for p, t in FILES.items()}
    (shards,) = dataset.metadata.file_sets
    assert shards.includes == ["Split-train/data_tfrecord-*", "Split-eval/data_tfrecord-*"]
    (examples,) = [one for one in dataset.metadata.record_sets if one.id == "examples"]
    pattern = examples.fields[0].source.transforms[0].regex
    assert re.search(pattern, "/a/Split-eval/data_tfrecord-00000-of-00001")[1] == "eval"
