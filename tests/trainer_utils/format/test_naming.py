"""Names of shards and splits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_utils.format import ConfigError, DatasetError, ShardName, canonical_split
from trainer_utils.format.naming import check_split_name, vocabulary_file, vocabulary_of

SPLITS = st.from_regex(r"[A-Za-z0-9_]+", fullmatch=True)


@given(SPLITS, st.integers(0, 10**6), st.integers(1, 10**6), st.booleans())
def test_a_name_is_parsed_from_the_path_that_it_makes(split, index, more, gzip):
    name = ShardName(split=split, shard_index=index, num_shards=index + more, gzip=gzip)
    assert ShardName.parse(name.path) == name


def test_the_path_is_tfxs():
    name = ShardName(split="train", shard_index=3, num_shards=8)
    assert name.path == "Split-train/data_tfrecord-00003-of-00008"


@pytest.mark.parametrize(
    "path",
    [
        "train/data_tfrecord-00000-of-00001",
        "Split-train/data_tfrecord-0-of-1",
        "Split-train/data_tfrecord-00001-of-00001.zip",
        "Split-train/data_tfrecord-00000-of-00001\n",
        "Split-tr/ain/data_tfrecord-00000-of-00001",
        "",
    ],
)
def test_another_path_is_refused(path):
    with pytest.raises(DatasetError):
        ShardName.parse(path)


@pytest.mark.parametrize(("index", "number"), [(-1, 1), (1, 1), (0, 0)])
def test_an_index_outside_the_shards_is_refused(index, number):
    with pytest.raises(ConfigError, match="shard_index"):
        ShardName(split="train", shard_index=index, num_shards=number)


@pytest.mark.parametrize("split", ["", "a b", "../up", "é", "a/b", "a-b", "a\n"])
def test_a_split_that_is_no_word_is_refused(split):
    with pytest.raises(ConfigError, match="split"):
        check_split_name(split)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("TRAIN", "train"),
        ("training", "train"),
        ("val", "eval"),
        ("Valid", "eval"),
        ("validation", "eval"),
        ("eval", "eval"),
        ("dev", "eval"),
        ("test", "test"),
        ("testing", "test"),
        ("holdout", None),
        ("trained", None),
        ("", None),
    ],
)
def test_spellings_of_splits(name, expected):
    assert canonical_split(name) == expected


def test_a_vocabulary_is_known_by_its_file():
    assert vocabulary_of(vocabulary_file("label")) == "label"
    assert vocabulary_of("vocabulary/label.txt") is None
