"""Whoever brings settings from another project is told what takes their place."""

import inspect

import pytest
import tensorflow as tf

import trainer_utils
from trainer_utils import ConfigError, InputOptions
from trainer_utils.replaced_settings import REPLACED_SETTINGS

KNOWN = set(inspect.signature(InputOptions).parameters)


@pytest.mark.parametrize("name", ["num_parallel_calls", "cycle_length", "deterministic"])
def test_knobs_of_tf_data_are_answered(name):
    for call in (InputOptions, lambda **s: trainer_utils.input_fn("x", **s)):
        with pytest.raises(ConfigError, match=f"setting '{name}': .*Leave it out: ") as caught:
            call(**{name: 4})
        assert (caught.value.setting, caught.value.value) == (name, 4)


def test_every_setting_of_datum_is_ours_or_answered():
    configs = pytest.importorskip("datum.configs")
    for cls in (configs.DatasetConfigs, configs.TFRReadConfigs, configs.BucketConfigs):
        theirs = {name for name, value in vars(cls).items() if isinstance(value, property)}
        # `tf.data.Options` and the seeds and switches that we have too
        assert theirs - KNOWN - set(REPLACED_SETTINGS) <= {"options"}


def test_every_knob_of_tf_data_is_ours_or_answered():
    for method in ("interleave", "map", "batch", "shuffle", "padded_batch", "prefetch", "repeat"):
        taken = set(inspect.signature(getattr(tf.data.Dataset, method)).parameters)
        taken -= {"self", "name", "map_func", "options"}
        assert taken - KNOWN - set(REPLACED_SETTINGS) == set(), method


def test_no_answer_is_about_a_setting_of_ours():
    assert not KNOWN & set(REPLACED_SETTINGS)
    assert all(answer[0].isupper() and answer[-1] != "." for answer in REPLACED_SETTINGS.values())
