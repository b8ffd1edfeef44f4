"""Test how names of files and folders determine splits."""

import re

import pytest

from trainer_utils.core.errors import InputError
from trainer_utils.format import split_of_name, split_of_path, splits_of_paths
from trainer_utils.format.split_words import SPLIT_WORD_PATTERN

NAMES = {
    "imagenet1k-validation-00.tar": "eval",
    "my_test_0.csv": "test",
    "Testing": "test",
    "train2017": "train",
    "trainA": "train",
    "dev-clean": "eval",
    "TRAIN": "train",
    "trainImages": "train",
    "train-00000-of-00001.parquet": "train",
    "ILSVRC2012_val_00000001.JPEG": "eval",
    "train_test_split.csv": None,
    "TrainVal": None,
    "trainval": None,
    "station": None,
    "validated.tsv": None,
    "contest": None,
    "": None,
}


@pytest.mark.parametrize(("name", "split"), NAMES.items())
def test_word_of_a_name_determines_its_split(name, split):
    assert split_of_name(name) == split
    assert split is None or re.search(SPLIT_WORD_PATTERN, name)


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("seg_train/seg_train/forest/1.jpg", "train"),
        ("data/train/a/0.jpg", "train"),
        ("val/images/val_0.JPEG", "eval"),
        ("cats/1.jpg", None),
    ],
)
def test_any_part_of_a_path_determines_its_split(path, split):
    assert split_of_path(path) == split


def test_a_path_of_two_splits_raises():
    with pytest.raises(InputError, match=r"'train' by 'train' and 'test' by 'test_1\.tar'"):
        split_of_path("train/test_1.tar")


def test_paths_with_and_without_splits_raise():
    assert splits_of_paths(["a.csv", "b.csv"]) == {"a.csv": None, "b.csv": None}
    paths = ["x/train_0.csv", "x/my_val_0.csv"]
    assert splits_of_paths(paths) == dict(zip(paths, ["train", "eval"], strict=True))
    with pytest.raises(InputError, match=r"b\.csv.*--ignore 'b\.csv'"):
        splits_of_paths(["train.csv", "b.csv"])
