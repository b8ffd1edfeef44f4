"""Which files are whose shards."""

import pytest

from trainer_utils.format import DatasetError
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


def test_shards_stand_in_the_order_of_their_names():
    names = [f"train-{number:05d}-of-00012.tfrecord" for number in range(12)]
    assert found(*reversed(names)) == {"train": names}


@pytest.mark.parametrize(
    "names",
    [
        ["train-00000-of-00003.tfrecord", "train-00002-of-00003.tfrecord"],
        ["Split-train/data-00000-of-00003.gz", "Split-train/data-00002-of-00003.gz"],
    ],
)  # fmt: skip
def test_a_gap_among_numbered_files_is_refused(names):
    with pytest.raises(DatasetError, match=r"00001-of-00003.*: is missing, one of 1"):
        found(*names)


def test_what_is_no_dataset_is_told_what_was_looked_for():
    with pytest.raises(DatasetError, match=r"'the-uri': expected a dataset \(manifest.json, .*"):
        found("readme.md")


def test_a_tfds_folder_above_the_version_is_told_of_it():
    with pytest.raises(DatasetError, match=r"Give the folder of one version: the-uri/3\.0\.1$"):
        found("3.0.1/dataset_info.json")


def test_an_unfinished_dataset_is_refused():
    with pytest.raises(DatasetError, match="never finished"):
        found(".tfx-shards-tmp/", "Split-train/data_tfrecord-00000-of-00001")
