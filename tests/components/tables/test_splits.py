"""Which column says the split, and what its words mean."""

import pytest

from components.tables.splits import NoSplit, split_column, split_of_word
from trainer_utils.format import ConfigError

WORDS = {"set": ["TRAIN", "test", "", " Validation "], "half": ["train", "a"], "empty": [""]}


def column_of(*names: str, **given: str) -> str | None:
    return split_column(names, given=given, words_of=lambda name: WORDS.get(name, ["anything"]))


@pytest.mark.parametrize("name", ["split", "Split", "ML_USE"])
def test_a_column_of_a_split_s_name_is_one_whatever_stands_in_it(name):
    assert column_of("text", name) == name


def test_a_set_is_one_of_splits_only_where_each_of_its_values_names_one():
    assert column_of("text", "set") == "set"
    for words in (["train", "a"], ["", ""], []):
        names = ("text", "set")
        found = split_column(names, given={}, words_of=lambda _, words=words: words)
        assert found is None
    assert column_of("set", "split") == "split"


def test_what_the_user_says_goes_before_names_and_only_one_column_may_be_one():
    assert column_of("set", "split", other="split") == "other"
    assert column_of("split", split="string") is None
    assert column_of("set", set="label") is None
    with pytest.raises(ConfigError, match=r"expected one 'split', got a, b"):
        column_of("a", "b", a="split", b="split")


@pytest.mark.parametrize(
    ("word", "split"),
    [("TRAIN", "train"), (" val ", "eval"), ("test", "test"), ("Unassigned", None), ("", None)],
)
def test_words_of_splits(word, split):
    assert split_of_word(word, column="split") == split


@pytest.mark.parametrize(("word", "code"), [("night", "UNKNOWN_SPLIT"), ("DISCARD", None)])
def test_any_other_word_is_none_of_a_split(word, code):
    found = split_of_word(word, column="part")
    assert isinstance(found, NoSplit)
    assert found.code == code
    assert word in found.detail
    assert "part" in found.detail
