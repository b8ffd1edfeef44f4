"""Tables of delimited texts: headers, delimiters, quotes and empty fields."""

import pytest


def test_the_first_row_names_the_columns_whatever_stands_round_it(convert):
    dataset = convert({"t.csv": '\n\r\n text ,"the ""best"" label",größe\na,b,1\n'})
    assert dataset.by_id() == {
        "t.csv:1": {"text": [b"a"], 'the "best" label': [b"b"], "größe": [1]}
    }


@pytest.mark.parametrize("delimiter", [";", "\x01"])
def test_a_table_may_have_any_delimiter(convert, delimiter):
    text = f'text{delimiter}n\n"a{delimiter}b"{delimiter}1\nc,d{delimiter}2\n'
    dataset = convert({"t.csv": text}, delimiter=delimiter)
    assert dataset.by_id() == {
        "t.csv:1": {"text": [f"a{delimiter}b".encode()], "n": [1]},
        "t.csv:2": {"text": [b"c,d"], "n": [2]},
    }


def test_an_empty_field_is_missing_and_a_quoted_one_is_an_empty_text(convert):
    dataset = convert({"t.csv": 'a,b,n\n,x,1\n"",y,2\n'})
    assert dataset.by_id() == {
        "t.csv:1": {"b": [b"x"], "n": [1]},
        "t.csv:2": {"a": [b""], "b": [b"y"], "n": [2]},
    }
