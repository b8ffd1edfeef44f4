"""The family of errors, sent anywhere; no name in them drives a terminal or makes a line."""

import copy
import json
import pickle
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_utils.format import ConfigError, CorruptShardError, DatasetError, InputError
from trainer_utils.format.printable import printable, printable_json
from trainer_utils.storage import MachineError

texts = st.text(max_size=30)
places = {
    "path": st.none() | texts,
    "record": st.none() | st.integers(0, 2**63),
    "offset": st.none() | st.integers(0, 2**63),
}
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
)
settings = {"setting": st.none() | texts, "value": values, "allowed": st.none() | texts}
DATA = {
    DatasetError: places,
    CorruptShardError: places,
    InputError: places,
    MachineError: {"path": st.none() | texts, "errno": st.none() | st.integers(1, 100)},
    ConfigError: places | settings,
}


@st.composite
def errors(draw):
    kind = draw(st.sampled_from(list(DATA)))
    return kind(draw(texts), **draw(st.fixed_dictionaries({}, optional=DATA[kind])))


def same(one, other):
    return type(one) is type(other) and (one.args, vars(one)) == (other.args, vars(other))


@given(errors())
def test_every_error_pickles_and_copies_with_its_data(error):
    assert same(pickle.loads(pickle.dumps(error)), error)
    assert same(copy.copy(error), error)


def test_a_setting_that_cannot_be_pickled_crosses_as_text():
    error = ConfigError.of("augment", lambda image: image, allowed="names")
    assert pickle.loads(pickle.dumps(error)).value == repr(error.value)
    assert (error.setting, error.allowed) == ("augment", "names")


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


@pytest.mark.parametrize("kind", DATA)
def test_an_error_is_one_line_whatever_it_names(kind):
    error = kind("shard a\x1b[2J\nError: forged\u2028")
    assert str(error) == f"{error}" == "shard a\\x1b[2J\\nError: forged\\u2028"
