"""Settings of TextExampleGen that are wrong, or do not fit the inputs."""

import pytest

from components import TextExampleGen
from trainer_utils.format import ConfigError, InputError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layout": "xml"}, "layout: expected one of auto, .*got 'xml'"),
        ({"columns": {"a": "integer"}}, r"columns\['a'\]: expected one of .*got 'integer'"),
        ({"columns": ["a"]}, "columns: expected kinds by column"),
        ({"column_names": ["a", "a"]}, "column_names: expected each once"),
        ({"column_names": "ab"}, "column_names: expected a list of texts"),
        ({"column_names": ["a", ""]}, "column_names: expected a list of texts"),
        ({"delimiter": "::"}, "delimiter: expected one ASCII character.*'::'"),
        ({"delimiter": ""}, "delimiter: expected one ASCII character"),
        ({"delimiter": '"'}, "delimiter: expected one ASCII character"),
        ({"delimiter": "\n"}, "delimiter: expected one ASCII character"),
        ({"delimiter": "§"}, "delimiter: expected one ASCII character.*'§'"),
        ({"encoding": "klingon"}, "encoding: expected one that Python knows.*'klingon'"),
        ({"encoding": "base64"}, "encoding: expected one that Python knows.*'base64'"),
        ({"encoding": "rot13"}, "encoding: expected one that Python knows.*'rot13'"),
        ({"normalize": "nfc"}, "normalize: expected one of .*'nfc'"),
        ({"lowercase": "yes"}, "lowercase: expected one of .*'yes'"),
        ({"deduplicate": 2}, "deduplicate: expected one of .*2"),
        ({"min_chars": -1}, "min_chars: expected int at least 0, got -1"),
        ({"max_chars": 0}, "max_chars: expected int at least 1, got 0"),
        ({"min_chars": 5, "max_chars": 4}, "max_chars: expected int at least 5, got 4"),
        ({"min_chars": 1.5}, "min_chars: expected int"),
        ({"stratify": "yes"}, "stratify: expected one of"),
        ({"group_by": ""}, "group_by: expected the name of a column"),
        ({"seed": 2**63}, "seed: expected int from"),
        ({"target_shard_bytes": 0}, "target_shard_bytes: expected int at least 1"),
        ({"compression": "zip"}, "compression: expected one of none, gzip, got 'zip'"),
        ({"max_reject_fraction": 1.5}, "max_reject_fraction: expected float from 0 to 1"),
        ({"vocabulary": ["a", "a"]}, "vocabulary.*'a' twice"),
        ({"vocabulary": {"label": []}}, r"vocabulary\['label'\]: expected labels, got \[\]"),
    ],
    ids=str,
)
def test_a_bad_setting_is_named_with_its_value_where_the_component_is_made(settings, message):
    with pytest.raises(ConfigError, match=message):
        TextExampleGen(input_base="texts/", **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"columns": {"nope": "int"}},
            r"columns: expected columns .*\(words, n, label\), got 'nope'",
        ),
        ({"columns": {"n": "split", "words": "split"}}, "columns: expected one 'split', got"),
        ({"group_by": "nope"}, "group_by: expected one of .*words, n, label, got 'nope'"),
        (
            {"vocabulary": {"n": ["1"]}},
            r"vocabulary\['n'\]: expected a feature of labels \(label\)",
        ),
        ({"lowercase": True}, r"expected a column with the texts, got words, n, label.*'text'"),
        ({"deduplicate": True}, r"expected a column with the texts"),
        ({"column_names": ["a"]}, "expected 1 fields"),
    ],
    ids=str,
)
def test_a_setting_that_does_not_fit_the_inputs_is_named(convert, settings, message):
    files = {"t.csv": "words,n,label\na,1,x\nb,2,y\n"}
    with pytest.raises((ConfigError, InputError), match=message):
        convert(files, **settings)


def test_classes_cannot_keep_their_shares_where_there_are_none(convert):
    with pytest.raises(ConfigError, match="stratify"):
        convert({"t.csv": "text,n\na,1\n"}, stratify=True)


def test_splits_of_the_inputs_and_of_a_setting_are_refused_together(convert, output_config):
    files = {"train.csv": "text,n\na,1\n", "test.csv": "text,n\nb,1\n"}
    with pytest.raises(ConfigError, match=r"output_config.*test, train"):
        convert(files, output_config=output_config(a=1, b=1))
