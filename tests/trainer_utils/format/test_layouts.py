"""Test which files are recognized as shards."""

import json

import pytest

from tests.trainer_utils.format.test_manifest import MANIFEST
from trainer_utils.core.errors import DatasetError
from trainer_utils.format import Manifest
from trainer_utils.format.layouts import find_layout
from trainer_utils.format.manifest import FileDigest
from trainer_utils.format.sealing import seal


def found(*paths: str, **texts: str) -> dict[str, list[str]]:
    files = dict.fromkeys([*paths, *texts], 1)
    layout = find_layout(files, lambda path: texts[path], uri="the-uri")
    return {split: [shard.name for shard in group] for split, group in layout.shards.items()}


@pytest.mark.parametrize(
    ("paths", "splits"),
    [
        (["a.tfrecord", "b.tfrecords", "c.tfrec", "notes.txt"], {"train": 3}),
        (["train-00000-of-00001.tfrecord.gz", "validation-00000-of-00001.tfrecord.gz"],
         {"train": 1, "validation": 1}),
        (["mnist-train.tfrecord-00000-of-00002", "mnist-train.tfrecord-00001-of-00002",
          "mnist-test.tfrecord-00000-of-00001"], {"train": 2, "test": 1}),
        (["val/x.tfrecord", "val/y.tfrecord", "Train/x.tfrecord"], {"val": 2, "train": 1}),
        (["training/val-1.tfrecord", "training/x.tfrecord"], {"val": 1, "training": 1}),
        (["Split-train/data_tfrecord-00000-of-00001.gz", "Split-eval/anything"],
         {"train": 1, "eval": 1}),
        (["other/deep/x.tfrecord", "x.tfrecord"], {"train": 1}),
    ],
)  # fmt: skip
def test_splits_come_from_names(paths, splits):
    assert {split: len(shards) for split, shards in found(*paths).items()} == splits


def test_gap_in_numbered_files_raises(subtests):
    for name in ("train-0000{}-of-00003.tfrecord", "Split-train/data-0000{}-of-00003.gz"):
        with subtests.test(name=name), pytest.raises(DatasetError, match="00001-of-00003"):
            found(name.format(0), name.format(2))


def test_unfinished_dataset_raises():
    with pytest.raises(DatasetError, match="never finished"):
        found(".tfx-shards-tmp/", "Split-train/data_tfrecord-00000-of-00001")


OUTSIDE = ["../secret.tfrecord", "/secret.tfrecord", "a/../../b", "gs://other/x", "x\0", "a\\b", ""]


def check_refused(name: str, text: str) -> None:
    with pytest.raises(DatasetError, match=f"the-uri/{name}"):
        find_layout({name: 1}, {name: text}.__getitem__, uri="the-uri")


def test_json_with_outside_paths_raises():
    places = [("train", path) for path in OUTSIDE]
    for split, path in (*places, *((name, "x") for name in ("../../x", "a/b", "..", "a\nb", ""))):
        entry = {"name": split, "shardLengths": ["1"], "filepathTemplate": path}
        check_refused("shard_info.json", json.dumps({split: {path: 1}}))
        if path:  # "" selects TFDS's own template
            check_refused("dataset_info.json", json.dumps({"name": "set", "splits": [entry]}))
    for path in OUTSIDE:
        value = json.loads(MANIFEST.to_json())
        value["shards"][0]["path"] = path
        check_refused("manifest.json", seal(json.dumps(value, indent=2)))
    for split in ("../../x", "a/b", "a b", ""):
        text = seal(MANIFEST.to_json().replace('"eval"', json.dumps(split)))
        check_refused("manifest.json", text)


def test_schema_export_may_name_shards_elsewhere():
    path = "../../examples/1/Split-train/data_tfrecord-00000-of-00001"
    texts = {"shard_info.json": json.dumps({"train": {path: 1}}), "example.schema.json": "{}"}
    layout = find_layout(dict.fromkeys(texts, 1), texts.__getitem__, uri="the-uri")
    assert [shard.name for shard in layout.shards["train"]] == [path]


def test_file_that_differs_from_the_manifest_raises():
    types = '{"label": {"type": "int", "shape": [], "dense": true}}'
    files = {"datum_to_type_and_shape_mapping.json": FileDigest.of(types.encode())}
    manifest = Manifest(
        shards=(), accounting={}, producer="", config={}, input_fingerprint="", files=files
    )
    texts = {"manifest.json": manifest.to_json(), next(iter(files)): types}
    assert list(find_layout(dict.fromkeys(texts, 1), texts.__getitem__, uri="x").features or ())
    texts[next(iter(files))] = types.replace("label", "lapel")
    with pytest.raises(DatasetError, match=r"'x/datum_to_type.*expected \d+ bytes with checksum"):
        find_layout(dict.fromkeys(texts, 1), texts.__getitem__, uri="x")
