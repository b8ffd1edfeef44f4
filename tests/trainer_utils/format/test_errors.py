"""The family of errors: each takes its message and its data wherever it is sent."""

import concurrent.futures
import copy
import json
import multiprocessing
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_utils.format import (
    ConfigError,
    CorruptShardError,
    DatasetError,
    InputError,
    RecordIndex,
    read_records,
)
from trainer_utils.format.errors import error_from_json, error_to_json
from trainer_utils.format.sealing import ChangedManifestError
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
    ChangedManifestError: places,
    ConfigError: places | settings,
}


@st.composite
def errors(draw):
    kind = draw(st.sampled_from(list(DATA)))
    return kind(draw(texts), **draw(st.fixed_dictionaries({}, optional=DATA[kind])))


def same(one, other):
    return (type(one), str(one), one.args, vars(one)) == (
        *(type(other), str(other), other.args),
        vars(other),
    )


@given(errors())
def test_every_error_pickles_copies_and_crosses_as_json_with_its_data(error):
    assert same(pickle.loads(pickle.dumps(error)), error)
    assert same(copy.copy(error), error)
    assert same(error_from_json(json.loads(json.dumps(error_to_json(error)))), error)


def test_all_classes_of_the_packages_are_tried():
    """Those that another module adds, too: private ones take what their parent does."""
    found, left = set(), [DatasetError]
    while left:
        kind = left.pop()
        found.add(kind)
        left += kind.__subclasses__()
    assert {kind for kind in found if not kind.__name__.startswith("_")} == set(DATA)
    assert all(issubclass(kind, ValueError) for kind in found)


def test_an_error_comes_home_from_another_process_as_it_is():
    """Spawned, as the processes of `verify` are."""
    with pytest.raises(CorruptShardError) as here:
        RecordIndex.from_bytes(b"nothing", path="a")
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        future = pool.submit(RecordIndex.from_bytes, b"nothing", path="a")
    with pytest.raises(CorruptShardError) as there:
        future.result()
    assert same(there.value, here.value)
    assert (there.value.path, there.value.offset) == ("a", 0)


def test_the_sentence_is_made_of_the_data():
    error = CorruptShardError.at("a", expected="b", got="c", record=3, offset=17, advice="D.")
    assert str(error) == "'a': expected b, got c (record 3, byte 17). D."
    assert str(InputError.at("a", expected="b", got="c")) == "'a': expected b, got c"
    assert str(ConfigError.of("a", 3, allowed="b")) == "a: expected b, got 3"


def test_a_setting_that_cannot_be_pickled_crosses_as_text():
    error = ConfigError.of("augment", lambda image: image, allowed="names")
    assert pickle.loads(pickle.dumps(error)).value == repr(error.value)
    assert error_from_json(error_to_json(error)).value == repr(error.value)
    assert (error.setting, error.allowed) == ("augment", "names")


def test_a_class_that_this_process_does_not_know_comes_as_the_root():
    error = error_from_json({"class": "Newer", "message": "bad", "data": {"path": "x"}})
    assert (type(error), str(error), error.path) == (DatasetError, "bad", "x")


def test_what_reads_a_shard_says_where_as_data():
    import io

    with pytest.raises(CorruptShardError) as found:
        list(read_records(io.BytesIO(b"short"), path="a/shard"))
    assert (found.value.path, found.value.record, found.value.offset) == ("a/shard", 0, 0)


@pytest.mark.parametrize("name", ["batch_size", "shuffle", "prefetch", "nothing_such"])
def test_a_refused_setting_says_which_as_data(name):
    code = (
        "from trainer_utils import ConfigError, InputOptions\n"
        f"try: InputOptions(**{{{name!r}: -1.5}})\n"
        "except ConfigError as error: print(error.setting, error.value, bool(error.allowed))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == f"{name} -1.5 True"
