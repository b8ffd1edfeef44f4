"""Where a dataset lies, by the spellings that trainers and conversions have of it."""

import os

import pytest

from trainer_utils.dataset.location import newest_dataset, split_of, uri_of


@pytest.mark.parametrize(
    "spelling",
    [
        "{}",
        "{}/",
        "{}/Split-train",
        "{}/Split-train/*",
        "{}/Split-eval/*",
        "{}/Split-train/data_tfrecord-*",
    ],
)
def test_a_dataset_is_found_by_the_patterns_that_a_trainer_gets(spelling):
    assert uri_of(spelling.format("gs://bucket/examples/7")) == "gs://bucket/examples/7"


def test_a_folder_above_the_dataset_may_be_called_as_a_split_is():
    assert uri_of("gs://bucket/Split-up/7") == "gs://bucket/Split-up/7"


@pytest.mark.parametrize(
    ("pattern", "split"),
    [
        ("a/Split-train/*", "train"),
        ("a/Split-eval/data_tfrecord-*", "eval"),
        ("a/Split-train/", "train"),
        ("a", None),
        ("a/Split-up/7", None),
        (object(), None),
    ],
)
def test_a_pattern_names_its_split(pattern, split):
    assert split_of(pattern) == split


def test_the_newest_dataset_is_where_the_link_leads(tmp_path):
    made = tmp_path / "artifacts/ShardBalancer/balanced_examples/4"
    made.mkdir(parents=True)
    assert newest_dataset(str(tmp_path)) == str(tmp_path)
    os.symlink("artifacts/ShardBalancer/balanced_examples/4", tmp_path / "latest")
    assert newest_dataset(f"{tmp_path}/") == newest_dataset(f"{tmp_path}/latest") == str(made)
    (tmp_path / "manifest.json").touch()  # a dataset of its own
    assert newest_dataset(str(tmp_path)) == str(tmp_path)
    assert newest_dataset("gs://bucket/out") == "gs://bucket/out"
