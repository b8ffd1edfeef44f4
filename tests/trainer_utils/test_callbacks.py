"""Callbacks as Datum's and tf.data's guides write them, the same for `input_fn` and `iterate`."""

from typing import Any

import numpy as np
import pytest

from trainer_utils import ConfigError, DatasetError, input_fn, iterate
from trainer_utils.format import Feature

FEATURES = {
    "id": Feature(type="int"),
    "caption": Feature(type="string"),
    "values": Feature(type="float", shape=(2,)),
}


@pytest.fixture(scope="module")
def uri(tmp_path_factory, write_dataset) -> str:
    rows = [
        {"id": [n], "caption": [b"%d" % (n % 3)], "values": [float(n), n / 2]} for n in range(10)
    ]
    folder = tmp_path_factory.mktemp("callbacks")
    return write_dataset(folder, {"train": [rows[:4], rows[4:]]}, FEATURES)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return {name: _plain(own) for name, own in value.items()}
    return np.asarray(value).tolist()


def read(uri: str, read_by: Any, split: str = "train", **settings: Any) -> list[Any]:
    settings = {"batch_size": 4, "shuffle": False, **settings}
    dataset = read_by(uri, split, **settings)
    rows = dataset.as_numpy_iterator() if read_by is input_fn else dataset
    return [_plain(row) for row in rows]


both = pytest.mark.parametrize("read_by", [input_fn, iterate])
either = pytest.mark.parametrize("when", ["pre_batching_callback", "post_batching_callback"])


@either
def test_a_callback_may_change_the_dict_that_it_is_given(uri, when):
    def change(example: dict[str, Any]) -> dict[str, Any]:
        example.update({"id": example["id"] + 1})
        example.pop("caption")
        del example["values"]
        return example

    assert read(uri, iterate, **{when: change}) == [
        {"id": [1, 2, 3, 4]}, {"id": [5, 6, 7, 8]}, {"id": [9, 10]}
    ]  # fmt: skip


@both
@either
def test_a_tuple_is_what_the_trainer_gets(uri, read_by, when):
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
def test_a_label_that_a_callback_makes_is_the_label(uri, read_by, when, features):
    def label(example: dict[str, Any]) -> dict[str, Any]:
        return {**example, "class": example["id"] % 2, "made": example["values"] * 0}

    found = read(uri, read_by, features=features, label="class", **{when: label})
    assert [labels for _, labels in found] == [[0, 1, 0, 1], [0, 1, 0, 1], [0, 1]]
    inputs = found[2][0]
    if features is None:
        assert sorted(inputs) == ["caption", "id", "made", "values"]
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
    with pytest.raises(ConfigError) as caught:
        read(uri, iterate, labels={"one_hot": True}, **settings)
    assert caught.value.setting == "num_classes"


def test_a_name_that_no_callback_makes_is_refused(uri):
    with pytest.raises(ConfigError, match="'class'"):
        read(uri, iterate, label="class", pre_batching_callback=dict)
    for settings in ({"features": ["captoin"]}, {"features": "id", "label": "captoin"}):
        with pytest.raises(DatasetError, match=r"'captoin'.*Did you mean 'caption'\?"):
            read(uri, iterate, **settings)


@both
@either
def test_a_callback_that_returns_nothing_is_refused(uri, read_by, when):
    with pytest.raises(ConfigError, match="None"):
        read(uri, read_by, **{when: lambda example: None})


def test_mixing_what_a_callback_made_a_tuple_is_refused(tmp_path, write_dataset):
    from tests.trainer_utils.reading.jpegs import cuts, encode

    features = {
        "image": Feature(type="string", shape=(8, 8, 3)),
        "label": Feature(type="int", extra={"num_classes": 2}),
    }
    image = encode(cuts([(8, 8)])[0])
    uri = write_dataset(tmp_path, {"train": [[{"image": [image], "label": [1]}] * 4]}, features)
    with pytest.raises(ConfigError, match="mixup"):
        input_fn(
            uri,
            batch_size=2,
            label="label",
            augment=["mixup"],
            pre_batching_callback=lambda example: (example["image"], example["label"]),
        )
