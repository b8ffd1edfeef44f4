"""Misspelt settings are refused with the intended name, before anything is opened."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trainer_utils
from trainer_utils import ConfigError, ImageOptions, InputOptions

CALLS = {
    "load": lambda **s: trainer_utils.load("nowhere", **s),
    "input_fn": lambda **s: trainer_utils.input_fn("nowhere", **s),
    "plan": lambda **s: trainer_utils.plan("nowhere", **s),
    "measure_input": lambda **s: trainer_utils.monitoring.measure_input("nowhere", **s),
    "InputOptions": InputOptions,
    "replace": lambda **s: InputOptions().replace(**s),
}


def test_a_misspelt_setting_gets_a_suggestion(subtests):
    for call in CALLS.values():
        with subtests.test(call=call):
            with pytest.raises(ConfigError, match=r"'BatchSize'.* Did you mean 'batch_size'\?$"):
                call(BatchSize=8)
    with pytest.raises(ConfigError, match=r"'resise'.* Did you mean 'resize'\?"):
        ImageOptions(resise="crop")
    with pytest.raises(ConfigError, match="Did you mean 'split'"):
        trainer_utils.input_fn("nowhere", splits="train")


NAMES = [field.name for field in dataclasses.fields(InputOptions)]


@given(st.sampled_from(NAMES), st.data())
def test_a_missing_or_extra_letter_gets_a_suggestion(name, data):
    place = data.draw(st.integers(0, len(name) - 1))
    letters = st.sampled_from([name[:place] + name[place + 1 :], name[:place] + "x" + name[place:]])
    wrong = data.draw(letters)
    if wrong and wrong not in NAMES:
        with pytest.raises(ConfigError, match="Did you mean '"):
            InputOptions(**{wrong: 1})
