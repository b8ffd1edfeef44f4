"""Which files are whose shards."""

import json

import pytest

from tests.trainer_utils.format.test_manifest import MANIFEST
from trainer_utils.format import DatasetError, Manifest
from trainer_utils.format.checksums import FileDigest, seal
from trainer_utils.format.layouts import find_layout


def found(*paths: str, **texts: str) -> dict[str, list[str]]:
    files = dict.fromkeys([*paths, *texts], 1)
    layout = find_layout(files, lambda path: texts[path], uri="the-uri")
    return {split: [shard.path for shard in group] for split, group in layout.shards.items()}


@pytest.mark.parametrize(
    ("paths", "splits"),
    [
        (["a.tfrecord", "b.tfrecords", "c.tfrec", "notes.txt"], {"train": 3}),
        (["train-00000-of-00001.tfrecord.gz", "validation-00000-of-00001.tfrecord.gz"],
         {"train": 1, "validation": 1}),
        (["mnist-train.tfrecord-00000-of-00002", "mnist-train.tfrecord-00001-of-00002",
          "mnist-test.tfrecord-00000-of-00001"], {"train": 2, "test": 1}),
        (["val/x.tfrecord", "val/y.tfrecord", "Train/x.tfrecord"], {"val": 2, "train": 1}),
        (["Split-train/data_tfrecord-00000-of-00001.gz", "Split-eval/anything"],
         {"train": 1, "eval": 1}),
        (["other/deep/x.tfrecord", "x.tfrecord"], {"train": 1}),
    ],
)  # fmt: skip
def test_names_say_the_split(paths, splits):
    assert {split: len(shards) for split, shards in found(*paths).items()} == splits


@pytest.mark.parametrize(
    "names",
    [
        ["train-00000-of-00003.tfrecord", "train-00002-of-00003.tfrecord"],
        ["Split-train/data-00000-of-00003.gz", "Split-train/data-00002-of-00003.gz"],
    ],
)  # fmt: skip
def test_a_gap_among_numbered_files_is_refused(names):
    with pytest.raises(DatasetError, match=r"00001-of-00003.*: is missing, one of at most 1"):
        found(*names)


def test_an_unfinished_dataset_is_refused():
    with pytest.raises(DatasetError, match="never finished"):
        found(".tfx-shards-tmp/", "Split-train/data_tfrecord-00000-of-00001")


OUTSIDE = ["../secret.tfrecord", "/secret.tfrecord", "a/../../b", "gs://other/x", "x\0", "a\\b", ""]


@pytest.mark.parametrize("path", OUTSIDE)
def test_json_of_others_names_nothing_outside(path):
    split = {"name": "train", "shardLengths": ["1"], "filepathTemplate": path}
    texts = {
        "shard_info.json": json.dumps({"train": {path: 1}}),
        "dataset_info.json": json.dumps({"name": "set", "splits": [split]}),
    }
    if not path:  # which stands for TFDS's own template
        del texts["dataset_info.json"]
    for name, text in texts.items():
        with pytest.raises(DatasetError, match=rf"inside of the dataset's folder \(the-uri/{name}"):
            find_layout({name: 1}, {name: text}.__getitem__, uri="the-uri")


@pytest.mark.parametrize("split", ["../../x", "a/b", "..", "a\nb", ""])
def test_a_split_of_others_is_no_path(split):
    entry = {"name": split, "shardLengths": ["1"], "filepathTemplate": "x"}
    texts = {
        "shard_info.json": json.dumps({split: {"x": 1}}),
        "dataset_info.json": json.dumps({"name": "set", "splits": [entry]}),
    }
    for name, text in texts.items():
        with pytest.raises(DatasetError, match=f"expected .* \\(the-uri/{name}"):
            find_layout({name: 1}, {name: text}.__getitem__, uri="the-uri")


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_manifest_names_nothing_outside(path):
    value = json.loads(MANIFEST.to_json())
    value["shards"][0]["path"] = path
    text = seal(json.dumps(value, indent=2))
    with pytest.raises(DatasetError, match="inside of the dataset's folder"):
        find_layout({"manifest.json": 1}, lambda _: text, uri="the-uri")


@pytest.mark.parametrize("split", ["../../x", "a/b", "a b", ""])
def test_a_split_of_a_manifest_is_a_word(split):
    text = seal(MANIFEST.to_json().replace('"eval"', json.dumps(split)))
    with pytest.raises(DatasetError, match=r"the-uri/manifest\.json.*split '.*expected a name"):
        find_layout({"manifest.json": 1}, lambda _: text, uri="the-uri")


def test_schema_exports_artifact_describes_shards_that_lie_elsewhere():
    path = "../../examples/1/Split-train/data_tfrecord-00000-of-00001"
    texts = {"shard_info.json": json.dumps({"train": {path: 1}}), "example.schema.json": "{}"}
    layout = find_layout(dict.fromkeys(texts, 1), texts.__getitem__, uri="the-uri")
    assert [shard.path for shard in layout.shards["train"]] == [path]


def test_a_file_that_is_not_the_manifests_is_not_believed():
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
