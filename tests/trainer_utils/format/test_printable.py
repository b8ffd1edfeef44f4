"""No name of the data drives a terminal, or makes a line of its own."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_utils.format import ConfigError, CorruptShardError, DatasetError, InputError
from trainer_utils.format.printable import printable, printable_json

ANY = st.text(st.characters())
BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(ANY)
def test_nothing_is_left_that_is_no_sign(text):
    shown = printable(text)
    assert shown.encode().decode() == shown
    assert len(shown.splitlines()) <= 1
    assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cs", "Zl", "Zp"}
    assert not {unicodedata.bidirectional(c) for c in shown} & BIDI
    assert printable(shown) == shown


@given(st.text(st.characters(blacklist_categories=("Cc", "Cs", "Cf", "Zl", "Zp"))))
def test_signs_of_any_script_stay(text):
    assert printable(text) == text


@given(ANY)
def test_json_says_the_same(text):
    whole = json.dumps({"a": [text, {text: 1}]}, indent=2, ensure_ascii=False)
    shown = printable_json(whole)
    assert json.loads(shown) == json.loads(whole)
    assert printable(shown, keep="\n") == shown
    assert len(shown.splitlines()) == shown.count("\n") + 1


def test_escapes_are_pythons():
    assert printable("\x1b[2J\n\x9b\u2028\udc80\U000e0041") == (
        "\\x1b[2J\\n\\x9b\\u2028\\udc80\\U000e0041"
    )
    assert printable("a\nb\x07", keep="\n") == "a\nb\\x07"


@pytest.mark.parametrize("kind", [DatasetError, CorruptShardError, ConfigError, InputError])
def test_an_error_is_one_line_whatever_it_names(kind):
    error = kind("shard a\x1b[2J\nError: forged\u2028")
    assert str(error) == f"{error}" == "shard a\\x1b[2J\\nError: forged\\u2028"
