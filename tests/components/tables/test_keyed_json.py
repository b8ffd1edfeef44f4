"""The keyed form of JSON, of which each entry is an example."""

import json


def test_the_keyed_form_has_a_feature_for_every_label(convert):
    entries = {
        "1": {"text": "I am the one", "label": {"polarity": 1, "topic": "self"}},
        "n": {"text": "Such a day", "label": {"polarity": 2, "topic": "weather"}},
    }
    dataset = convert({"train.json": json.dumps(entries)})
    assert dataset.splits.keys() == {"train"}
    assert dataset.by_id() == {
        "train.json:1": {"text": [b"I am the one"], "polarity": [1], "topic": [b"self"]},
        "train.json:n": {"text": [b"Such a day"], "polarity": [2], "topic": [b"weather"]},
    }


def test_a_split_of_keyed_json_may_have_several_files(convert):
    files = {
        f"{name}.json": json.dumps({"1": {"text": name, "label": {"polarity": 0}}})
        for name in ("train", "train_2", "train-00001", "val", "test.part")
    }
    dataset = convert(files)
    assert dataset.split_of() == {
        "train.json:1": "train",
        "train_2.json:1": "train",
        "train-00001.json:1": "train",
        "val.json:1": "eval",
        "test.part.json:1": "test",
    }


def test_keyed_json_may_be_a_list(convert):
    dataset = convert({"t.json": '[{"text": "a", "label": "x"}, {"text": "b", "label": "y"}]'})
    assert dataset.texts() == {"t.json:1": "a", "t.json:2": "b"}
    assert dataset.vocabulary() == ["x", "y"]


def test_keyed_json_may_be_a_line_an_entry(convert):
    text = '{"1": {"text": "a", "label": {"p": 1}},\n "2": {"text": "b", "label": {"p": 2}}}'
    assert convert({"t.json": text}).texts() == {"t.json:1": "a", "t.json:2": "b"}


def test_entries_by_numbers_may_have_features_that_are_numbered(convert):
    rows = {"0": {"0": "a", "1": 2}, "17": {"0": "b", "1": 3}}
    assert convert({"t.json": json.dumps(rows)}).by_id() == {
        "t.json:0": {"0": [b"a"], "1": [2]},
        "t.json:17": {"0": [b"b"], "1": [3]},
    }
