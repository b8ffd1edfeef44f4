"""Callbacks like in Datum's and tf.data's guides, and other settings that change elements."""

import itertools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import trainer_utils
from tests.make import refusing
from trainer_utils import ConfigError, DatasetError, InputOptions, input_fn, iterate
from trainer_utils.format import Feature

FEATURES = {
    "id": Feature(type="int"),
    "label": Feature(type="int"),
    "weight": Feature(type="float"),
    "caption": Feature(type="string"),
    "values": Feature(type="float", shape=(2,)),
}


def rows(start: int, stop: int) -> list[dict[str, list[Any]]]:
    return [
        {
            "id": [n],
            "label": [n % 2],
            "weight": [n / 4],
            "caption": [b"%d" % (n % 3)],
            "values": [float(n), n / 2],
        }
        for n in range(start, stop)
    ]


@pytest.fixture(scope="module")
def uri(tmp_path_factory, write_dataset) -> str:
    splits = {"train": [rows(0, 4), rows(4, 10)], "eval": [rows(100, 103)]}
    return write_dataset(tmp_path_factory.mktemp("callbacks"), splits, FEATURES)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return {name: _plain(own) for name, own in value.items()}
    return np.asarray(value).tolist()


def read(uri: str, read_by: Any, split: str = "train", **settings: Any) -> list[Any]:
    settings = {"batch_size": 4, "shuffle": False, **settings}
    dataset = read_by(uri, split, **settings)
    return [_plain(b) for b in (dataset.as_numpy_iterator() if read_by is input_fn else dataset)]


both = pytest.mark.parametrize("read_by", [input_fn, iterate])
either = pytest.mark.parametrize("when", ["pre_batching_callback", "post_batching_callback"])


@either
def test_a_callback_may_change_its_dict(uri, when):
    def change(example: dict[str, Any]) -> dict[str, Any]:
        example.update({"id": example["id"] + 1})
        example.pop("caption")
        for name in {*example} - {"id"}:
            del example[name]
        return example

    assert read(uri, iterate, **{when: change}) == [
        {"id": [1, 2, 3, 4]}, {"id": [5, 6, 7, 8]}, {"id": [9, 10]}
    ]  # fmt: skip


def test_callbacks_take_tensors_before_and_after_batching(uri):
    def before(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        assert example["id"].shape == ()
        if example["id"] > 2:  # a condition on tensors, as in any tf.function
            example = {**example, "id": -example["id"]}
        return example

    def after(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {**batch, "id": batch["id"] * tf.size(batch["id"], tf.int64)}

    callbacks = {"pre_batching_callback": before, "post_batching_callback": after}
    found = read(uri, input_fn, "train[:6]", features="id", **callbacks)
    assert found == [[0, 4, 8, -12], [-8, -10]]


@both
@either
def test_a_returned_tuple_is_passed_to_the_trainer(uri, read_by, when):
    settings = {"features": ["id", "values"]}

    def pair(example: dict[str, Any]) -> Any:
        return {"double": example["id"] * 2}, example["values"]

    found = read(uri, read_by, "train[:6]", **{when: pair}, **settings)
    assert [features for features, _ in found] == [{"double": [0, 2, 4, 6]}, {"double": [8, 10]}]
    assert found[1][1] == [[4, 2], [5, 2.5]]
    padded = read(uri, read_by, "train[:6]", remainder="pad", **{when: pair}, **settings)
    assert padded[1][0]["double"][:2] == [8, 10]
    assert padded[1][2] == [1, 1, 0, 0]


def test_the_second_callback_takes_the_parts_of_the_firsts_tuple(uri):
    settings = {
        "pre_batching_callback": lambda example: (example["values"], example["id"]),
        "post_batching_callback": lambda values, ids: (values * 2, ids),
    }
    assert read(uri, iterate, "train[:2]", **settings) == [([[0, 0], [2, 1]], [0, 1])]
    del settings["post_batching_callback"]
    single = read(uri, iterate, "train[:2]", batch_size=None, **settings)
    assert single == [([0, 0], 0), ([1, 0.5], 1)]


@pytest.mark.parametrize(
    ("read_by", "when", "features"),
    [
        (input_fn, "pre_batching_callback", ["values"]),
        (iterate, "pre_batching_callback", "values"),
        (iterate, "post_batching_callback", None),
        (iterate, "post_batching_callback", "made"),
    ],
)
def test_a_callback_can_make_the_label(uri, read_by, when, features):
    def label(example: dict[str, Any]) -> dict[str, Any]:
        return {**example, "class": example["id"] % 2, "made": example["values"] * 0}

    found = read(uri, read_by, features=features, label="class", **{when: label})
    assert [labels for _, labels in found] == [[0, 1, 0, 1], [0, 1, 0, 1], [0, 1]]
    inputs = found[2][0]
    if features is None:
        assert sorted(inputs) == sorted([*FEATURES, "made"])
    else:
        wanted = [[0, 0]] * 2 if features == "made" else [[8, 4], [9, 4.5]]
        assert (inputs["values"] if isinstance(inputs, dict) else inputs) == wanted


def test_a_made_label_becomes_one_hot(uri):
    settings = {
        "features": "id",
        "label": "class",
        "pre_batching_callback": lambda example: {**example, "class": example["id"] % 2},
    }
    made = read(uri, iterate, "train[:2]", labels={"one_hot": True, "num_classes": 3}, **settings)
    assert made[0][1] == [[1, 0, 0], [0, 1, 0]]
    with refusing("num_classes"):
        read(uri, iterate, labels={"one_hot": True}, **settings)


def test_a_name_that_no_callback_makes_is_refused(uri, subtests):
    with pytest.raises(ConfigError, match="'class'"):
        read(uri, iterate, label="class", pre_batching_callback=dict)
    for settings in ({"features": ["captoin"]}, {"features": "id", "label": "captoin"}):
        with subtests.test(settings=settings):
            with pytest.raises(DatasetError, match=r"'captoin'.*Did you mean 'caption'\?"):
                read(uri, iterate, **settings)


@both
@either
def test_a_callback_that_returns_nothing_is_refused(uri, read_by, when):
    with pytest.raises(ConfigError, match="None"):
        read(uri, read_by, **{when: lambda example: None})


def test_mixing_a_tuple_of_a_callback_is_refused(tmp_path, write_dataset):
    from tests.trainer_utils.reading.jpegs import cuts, encode

    features = {
        "image": Feature(type="string", shape=(8, 8, 3)),
        "label": Feature(type="int", extra={"num_classes": 2}),
    }
    image = encode(cuts([(8, 8)])[0])
    uri = write_dataset(tmp_path, {"train": [[{"image": [image], "label": [1]}] * 4]}, features)
    callback = {"pre_batching_callback": lambda example: (example["image"], example["label"])}
    with pytest.raises(ConfigError, match="mixup"):
        input_fn(uri, batch_size=2, label="label", augment=["mixup"], **callback)


@either
def test_callbacks_by_split_accept_any_spelling(uri, when, subtests):
    def ids(split: str, hooks: dict[str, Any]) -> list[list[int]]:
        return read(uri, input_fn, split, features="id", **{when: hooks})

    hooks = {"train": lambda e: e, "val": lambda e: {**e, "id": -e["id"]}}
    assert ids("train[:2]", hooks) == [[0, 1]]
    assert ids("eval", hooks) == [[-100, -101, -102]]
    assert ids("eval", {"train": hooks["val"]}) == [[100, 101, 102]]
    with pytest.raises(ConfigError, match=f"^{when}: .*train, eval"):
        ids("train+eval", hooks)
    for read_by in (iterate, trainer_utils.plan):
        with subtests.test(read_by=read_by):
            with pytest.raises(ConfigError, match=rf"{when}\['trian'\]: .*Did you mean 'train'"):
                read_by(uri, "train", **{when: {"trian": dict}})
            read_by(uri, "train", **{when: {"train": dict, "validation": dict, "test": dict}})


# --- Echoing, weights, patterns and options ---


@both
def test_each_batch_is_echoed(uri, read_by):
    found = read(uri, read_by, "train[:6]", features="id", echoing=2)
    assert found == [[0, 1, 2, 3]] * 2 + [[4, 5]] * 2
    dataset = read_by(uri, echoing=3, batch_size=4)
    assert len(dataset) == len(list(dataset)) == 9
    made: list[Any] = []  # once each, although each batch comes twice
    note = {"pre_batching_callback": lambda example: made.append(example) or example}
    assert len(read(uri, iterate, "train[:6]", features="id", echoing=2, **note)) == 4
    assert len(made) == 6


def test_weights_come_third_and_padding_weighs_nothing(uri):
    def weights(split: str, **options: Any) -> Any:
        chosen = {"features": "id", "label": "label", **options}
        ((ids, labels, weights),) = read(uri, input_fn, split, **chosen)
        assert [n % 2 for n in ids] == labels
        return weights

    own = {"labels": {"sample_weight": "weight"}}
    assert weights("train[:3]", **own) == [0, 0.25, 0.5]
    assert weights("train[1:4]", remainder="pad", **own) == [0.25, 0.5, 0.75, 0]
    assert weights("train[1:4]", remainder="pad") == [1, 1, 1, 0]


def test_patterns_of_a_trainer_name_their_splits(uri):
    def ids(place: Any, split: str | None = None) -> list[int]:
        return list(itertools.chain(*read(place, iterate, split, features="id")))

    train, evaluation = f"{uri}/Split-train/*", f"{uri}/Split-eval/*"
    assert ids(evaluation) == [100, 101, 102]
    assert sorted(ids([train, evaluation])) == [*range(10), 100, 101, 102]
    # With a split, an artifact's patterns are the artifact, once.
    assert ids([train, evaluation], "train[:2]") == [0, 1]
    assert ids([uri, uri], "train[:2]") == [0, 1, 0, 1]


def test_keyword_arguments_override_options(uri):
    settings = {"features": "id", "batch_size": 4, "seed": 8}
    options = InputOptions(**settings)
    expected = [_plain(batch) for batch in input_fn(uri, **settings)]
    assert [_plain(batch) for batch in input_fn(uri, options=options)] == expected
    strategy = tf.distribute.get_strategy()
    distributed = trainer_utils.distribute(strategy, uri, options=options)
    assert [_plain(batch) for batch in distributed] == expected
    (batch,) = input_fn(uri, options=options, batch_size=10)
    assert sorted(batch.numpy()) == list(range(10))
    with pytest.raises(ConfigError, match="no_such_setting"):
        input_fn(uri, no_such_setting=1)
