"""The family of errors: each takes its message and its data wherever it is sent."""

import copy
import pickle

from hypothesis import given
from hypothesis import strategies as st

from trainer_utils.format import ConfigError, CorruptShardError, DatasetError, InputError
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
