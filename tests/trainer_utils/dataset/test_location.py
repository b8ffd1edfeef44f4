"""Where a dataset lies, by the spellings that trainers and conversions have of it."""

import os

from trainer_utils.dataset.location import newest_dataset, uri_and_split


def test_a_dataset_and_its_split_are_found_by_the_patterns_that_a_trainer_gets():
    uri = "gs://bucket/Split-up/7"  # a folder above it is called as a split is
    for tail, split in {
        "": None,
        "/": None,
        "/Split-train": "train",
        "/Split-train/*": "train",
        "/Split-eval/data_tfrecord-*": "eval",
    }.items():
        assert uri_and_split(uri + tail) == (uri, split)


def test_the_newest_dataset_is_where_the_link_leads(tmp_path):
    made = tmp_path / "artifacts/ShardBalancer/balanced_examples/4"
    made.mkdir(parents=True)
    assert newest_dataset(str(tmp_path)) == str(tmp_path)
    os.symlink("artifacts/ShardBalancer/balanced_examples/4", tmp_path / "latest")
    assert newest_dataset(f"{tmp_path}/") == newest_dataset(f"{tmp_path}/latest") == str(made)
    (tmp_path / "manifest.json").touch()  # a dataset of its own
    assert newest_dataset(str(tmp_path)) == str(tmp_path)
    assert newest_dataset("gs://bucket/out") == "gs://bucket/out"
