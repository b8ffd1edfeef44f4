"""Test the names of shards and splits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_utils.core.errors import ConfigError, DatasetError, InputError
from trainer_utils.format import ShardName, canonical_split
from trainer_utils.format.naming import (
    check_feature_names,
    check_inner_path,
    check_split_name,
    vocabulary_file,
    vocabulary_of,
)

SPLITS = st.from_regex(r"[A-Za-z0-9_]+", fullmatch=True)


@given(SPLITS, st.integers(0, 10**6), st.integers(1, 10**6), st.booleans())
def test_shard_name_survives_a_round_trip(split, index, more, gzip):
    name = ShardName(split=split, shard_index=index, num_shards=index + more, gzip=gzip)
    assert ShardName.parse(name.path) == name


def test_shard_path_follows_tfx():
    name = ShardName(split="train", shard_index=3, num_shards=8)
    assert name.path == "Split-train/data_tfrecord-00003-of-00008"


def test_invalid_path_index_or_split_raises(subtests):
    for path in (
        "train/data_tfrecord-00000-of-00001",
        "Split-train/data_tfrecord-0-of-1",
        "Split-train/data_tfrecord-00001-of-00001.zip",
        "Split-train/data_tfrecord-00000-of-00001\n",
        "Split-tr/ain/data_tfrecord-00000-of-00001",
        "",
    ):
        with subtests.test(path=path), pytest.raises(DatasetError):
            ShardName.parse(path)
    for index, number in ((-1, 1), (1, 1), (0, 0)):
        with subtests.test(index=index), pytest.raises(ConfigError, match="shard_index"):
            ShardName(split="train", shard_index=index, num_shards=number)
    for split in ("", "a b", "../up", "é", "a/b", "a-b", "a\n", "a" * 300):
        with subtests.test(split=split), pytest.raises(ConfigError, match="split"):
            check_split_name(split)


def test_split_spellings_are_canonicalized():
    spellings = {"TRAIN": "train", "training": "train", "val": "eval", "Valid": "eval"}
    spellings |= {"validation": "eval", "dev": "eval", "testing": "test", "trained": None, "": None}
    assert {name: canonical_split(name) for name in spellings} == spellings


HOSTILE = [
    "../../../x", "/etc/passwd", "..", ".", "...", ".hidden", "trailing.", " a ", "a/b", "a\\b",
    "C:\\x", "C:x", "nul\0here", "new\nline", "esc\x1b[2J", "\x9b2J", "\u2028", "\u202etxt.exe",
    "\ud800", "\udc80", "%2e%2e", "100%", "%", "a?b*c", "a:b", "<a>", 'a"b', "a|b", "objects/label",
    "~", "-rf", "$HOME", "é", "日本語", "نص", "👩‍👩‍👧", "a" * 200,
]  # fmt: skip


@given(st.text(st.characters(), min_size=1, max_size=20) | st.sampled_from(HOSTILE))
def test_vocabulary_file_of_any_feature_name_is_safe(feature):
    path = vocabulary_file(feature)
    assert vocabulary_of(path) == feature
    folder, name = path.split("/")  # exactly two parts
    assert folder == "vocab"
    assert check_inner_path(path) == path
    assert name == name.encode().decode(), "UTF-8, whatever the name is"
    assert not name.startswith((".", "~/"))
    assert not set(name) & set('\\<>:"|?*\0\n\r\x1b\x7f')


def test_impossible_feature_name_raises(subtests):
    for name in ("", "a" * 252, "é" * 130, "/" * 90):
        with subtests.test(name=name), pytest.raises(ConfigError):
            vocabulary_file(name)
    for name in ("", "\ud800", "a\udcffb"):
        with subtests.test(name=name), pytest.raises(InputError):
            check_feature_names(["label", name])
    check_feature_names(HOSTILE[:5])


def test_invalid_percent_escapes_name_no_vocabulary():
    assert vocabulary_of("vocab/%FF.txt") is None
    assert vocabulary_of("vocab/100%.txt") == "100%"


def test_path_that_may_leave_the_folder_raises(subtests):
    outside = "|/etc/passwd|../x|a/../../x|a/..|./a|a//b|a/|a\\..\\b|C:/x|gs://b/x|file:///x"
    odd = ["a\0b", "a\nb", "a\x1bb", "a\u202eb", "\ud800", "a" * 256]
    for path in (*outside.split("|"), *odd):
        with subtests.test(path=path):
            with pytest.raises(DatasetError, match=r"inside of the dataset's folder \(the-json\)"):
                check_inner_path(path, named_in="the-json")
