"""Hooks, echoing, sample weights, patterns and options, as they show in what is read."""

import itertools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import trainer_utils
from trainer_utils import ConfigError, InputOptions, input_fn
from trainer_utils.format import Feature

FEATURES = {
    "id": Feature(type="int"),
    "label": Feature(type="int"),
    "weight": Feature(type="float"),
}


def rows(start: int, stop: int) -> list[dict[str, list[Any]]]:
    return [{"id": [n], "label": [n % 2], "weight": [n / 4]} for n in range(start, stop)]


@pytest.fixture(scope="module")
def uri(tmp_path_factory, write_dataset) -> str:
    splits = {"train": [rows(0, 6), rows(6, 10)], "eval": [rows(100, 103)]}
    return write_dataset(tmp_path_factory.mktemp("hooks"), splits, FEATURES)


def read(uri: str, split: str = "train", **options: Any) -> list[Any]:
    options = {"features": "id", "batch_size": 4, "shuffle": False, **options}
    return [
        b.tolist() if isinstance(b, np.ndarray) else b
        for b in input_fn(uri, split, **options).as_numpy_iterator()
    ]


def flat(batches: list[list[int]]) -> list[int]:
    return list(itertools.chain.from_iterable(batches))


def test_hooks_change_examples_before_and_batches_after_they_are_batched(uri):
    def before(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        assert example["id"].shape == ()
        if example["id"] > 2:  # a condition on tensors, as in any tf.function
            example = {**example, "id": -example["id"]}
        return example

    def after(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {**batch, "id": batch["id"] * tf.size(batch["id"], tf.int64)}

    both = {"pre_batching_callback": before, "post_batching_callback": after}
    assert read(uri, "train[:6]", **both) == [[0, 4, 8, -12], [-8, -10]]


def test_hooks_are_chosen_by_split_whatever_its_spelling(uri):
    hooks = {"train": lambda e: e, "val": lambda e: {**e, "id": -e["id"]}}
    for name in ("pre_batching_callback", "post_batching_callback"):
        assert read(uri, "train[:2]", **{name: hooks}) == [[0, 1]]
        assert read(uri, "eval", **{name: hooks}) == [[-100, -101, -102]]
        assert read(uri, "eval", **{name: {"train": hooks["val"]}}) == [[100, 101, 102]]
        with pytest.raises(ConfigError, match=f"^{name}: .*train, eval"):
            read(uri, "train+eval", **{name: hooks})


@pytest.mark.parametrize("name", ["pre_batching_callback", "post_batching_callback"])
def test_a_hook_for_a_split_that_there_is_not_is_refused(uri, name):
    for read_by in (trainer_utils.iterate, trainer_utils.plan):
        with pytest.raises(ConfigError, match=rf"{name}\['trian'\]: .*Did you mean 'train'"):
            read_by(uri, "train", **{name: {"trian": dict}})
        read_by(uri, "train", **{name: {"train": dict, "validation": dict, "test": dict}})


def test_each_batch_is_echoed(uri):
    assert read(uri, "train[:6]", echoing=2) == [[0, 1, 2, 3]] * 2 + [[4, 5]] * 2
    dataset = input_fn(uri, echoing=3, batch_size=4)
    assert int(dataset.cardinality()) == len(list(dataset)) == 9


def test_sample_weights_come_third_and_padding_weighs_nothing(uri):
    options = {"label": "label", "labels": {"sample_weight": "weight"}}
    ((ids, labels, weights),) = read(uri, "train[:3]", **options)
    assert (ids.tolist(), labels.tolist()) == ([0, 1, 2], [0, 1, 0])
    assert weights.tolist() == [0, 0.25, 0.5]
    ((_, _, weights),) = read(uri, "train[1:4]", remainder="pad", **options)
    assert weights.tolist() == [0.25, 0.5, 0.75, 0]


def test_patterns_of_a_trainer_name_their_splits(uri):
    train, evaluation = f"{uri}/Split-train/*", f"{uri}/Split-eval/*"
    assert flat(read(evaluation, None)) == [100, 101, 102]
    assert sorted(flat(read([train, evaluation], None))) == [*range(10), 100, 101, 102]
    # Where the split is said, an artifact's patterns are the artifact, once.
    assert flat(read([train, evaluation], "train[:2]")) == [0, 1]
    assert flat(read([uri, uri], "train[:2]")) == [0, 1, 0, 1]


def test_options_are_the_same_as_keyword_arguments_which_go_before_them(uri):
    options = InputOptions(features="id", batch_size=4, seed=8)
    expected = [
        b.tolist() for b in input_fn(uri, features="id", batch_size=4, seed=8).as_numpy_iterator()
    ]
    assert [b.tolist() for b in input_fn(uri, options=options).as_numpy_iterator()] == expected
    strategy = tf.distribute.get_strategy()
    distributed = trainer_utils.distribute(strategy, uri, options=options)
    assert [b.numpy().tolist() for b in distributed] == expected
    (batch,) = input_fn(uri, options=options, batch_size=10)
    assert sorted(batch.numpy()) == list(range(10))
    with pytest.raises(ConfigError, match="no_such_setting"):
        input_fn(uri, no_such_setting=1)
