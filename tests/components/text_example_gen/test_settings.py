"""Settings of TextExampleGen that do not fit the inputs."""

import pytest

from trainer_utils.format import ConfigError, InputError


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
