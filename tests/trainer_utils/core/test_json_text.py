"""Test that JSON files are parsed strictly, with errors that name the file."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_utils.core.errors import DatasetError
from trainer_utils.core.json_text import json_lines, parse_json_object, render_json
from trainer_utils.format import Manifest, parse_shard_info
from trainer_utils.format.datum import parse_features
from trainer_utils.format.tfds import parse_tfds_features, parse_tfds_splits

HOSTILE = {
    "nothing": "",
    "no JSON": "{",
    "a name twice": '{"a": 1, "a": 2}',
    "a name twice within": '{"a": {"b": 1, "b": 1}}',
    "NaN": '{"a": NaN}',
    "infinite": '{"a": -Infinity}',
    "too large a float": '{"a": 1e999}',
    "65 bits": '{"a": 18446744073709551616}',
    "a million digits": '{"a": ' + "9" * 10**6 + "}",
    "deep lists": '{"a": ' + "[" * 10**5 + "]" * 10**5 + "}",
    "deep objects": '{"a":' * 10**5 + "1" + "}" * 10**5,
    "half a pair": '{"a": "\\ud800"}',
    "half a pair as a name": '{"\\uDFFF": 1}',
    "two values": "{} {}",
    "a mark before it": "\ufeff{}",
}
PARSERS = [
    parse_json_object,
    parse_features,
    parse_shard_info,
    parse_tfds_splits,
    parse_tfds_features,
    Manifest.from_json,
]


@pytest.mark.parametrize("parse", PARSERS, ids=lambda parse: parse.__qualname__)
def test_ambiguous_json_raises(parse, subtests):
    for text in HOSTILE.values():
        with subtests.test(text=text):
            with pytest.raises(DatasetError, match="the/file") as raised:
                parse(text, path="the/file")
            assert len(str(raised.value)) < 2000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False,
    allow_infinity=False) | st.text(st.characters(blacklist_categories=("Cs",))),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(
    blacklist_categories=("Cs",))), inner),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.text(st.characters(blacklist_categories=("Cs",))), JSON))
def test_rendered_json_parses_to_the_same_value(value):
    assert parse_json_object(render_json(value), path="x") == value


def test_only_newlines_end_lines(subtests):
    text = "".join(json.dumps({"a": mark}, ensure_ascii=False) + "\n" for mark in "\u2028\x85\x0b")
    assert json_lines(text, path="x") == [{"a": mark} for mark in "\u2028\x85\x0b"]
    for bad in ("{}", "{}\n\n", "[]\n", "{}\n{"):
        with subtests.test(bad=bad), pytest.raises(DatasetError, match="x"):
            json_lines(bad, path="x")
