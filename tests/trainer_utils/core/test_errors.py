"""Test that errors cross processes, and that their text is safe for terminals and logs."""

import contextlib
import copy
import json
import pickle
import traceback
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trainer_utils
from trainer_utils.core.errors import (
    ConfigError,
    CorruptShardError,
    DatasetError,
    InputError,
    TfxShardsError,
)
from trainer_utils.core.printable import printable, printable_json
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


def test_skipping_dataset_errors_does_not_hide_config_errors(subtests):
    assert not issubclass(ConfigError, DatasetError)
    assert issubclass(ConfigError, TfxShardsError)
    assert issubclass(ConfigError, ValueError)
    for kind in (CorruptShardError, InputError, MachineError):
        with subtests.test(kind=kind):
            assert issubclass(kind, DatasetError)
    with pytest.raises(ConfigError), contextlib.suppress(DatasetError):
        trainer_utils.iterate("anywhere", bach_size=3)


@pytest.mark.parametrize("path", ["/data/a", "/data/it's", "/data/two\nlines"])
@pytest.mark.parametrize("offset", [None, 12])
def test_error_from_a_loader_process_keeps_lines_and_location(path, offset):
    cause = CorruptShardError.at(path, expected="x", got="y", record=3, offset=offset, advice="Do.")
    lines = "".join(traceback.format_exception(CorruptShardError, cause, None))
    message = 'Original Traceback (most recent call last):\n  File "a.py", line 1\n' + lines
    error = CorruptShardError(
        f"Caught CorruptShardError in DataLoader worker process 0.\n{message}"
    )
    assert (error.path, error.record, error.offset) == (path, 3, offset)
    assert str(error).count("\n") == 4
    assert same(pickle.loads(pickle.dumps(error)), error)


def test_unpicklable_setting_is_pickled_as_its_repr():
    error = ConfigError.of("augment", lambda image: image, allowed="names")
    assert pickle.loads(pickle.dumps(error)).value == repr(error.value)
    assert (error.setting, error.allowed) == ("augment", "names")


ANY = st.text(st.characters())
BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(ANY)
def test_printable_removes_control_characters(text):
    shown = printable(text)
    assert shown.encode().decode() == shown
    assert len(shown.splitlines()) <= 1
    assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cs", "Zl", "Zp"}
    assert not {unicodedata.bidirectional(c) for c in shown} & BIDI
    assert printable(shown) == shown


@given(st.text(st.characters(blacklist_categories=("Cc", "Cs", "Cf", "Zl", "Zp"))))
def test_printable_keeps_letters_of_any_script(text):
    assert printable(text) == text


@given(ANY)
def test_printable_json_is_equivalent(text):
    whole = json.dumps({"a": [text, {text: 1}]}, indent=2, ensure_ascii=False)
    shown = printable_json(whole)
    assert json.loads(shown) == json.loads(whole)
    assert printable(shown, keep="\n") == shown
    assert len(shown.splitlines()) == shown.count("\n") + 1


def test_escapes_match_python():
    assert printable("\x1b[2J\n\x9b\u2028\udc80\U000e0041") == (
        "\\x1b[2J\\n\\x9b\\u2028\\udc80\\U000e0041"
    )
    assert printable("a\nb\x07", keep="\n") == "a\nb\\x07"


@pytest.mark.parametrize("kind", DATA)
def test_error_text_is_one_line_for_any_name(kind):
    error = kind("shard a\x1b[2J\nError: forged\u2028")
    assert str(error) == f"{error}" == "shard a\\x1b[2J\\nError: forged\\u2028"
