"""Names and number of classes on the results of `input_fn`, `distribute` and `load`."""

import tensorflow as tf

import trainer_utils
from trainer_utils import DatasetWriter


def _write(folder, names: list[str]) -> str:
    with DatasetWriter(str(folder), vocabulary={"label": names}) as writer:
        for split in ("train", "eval"):
            for number in range(6):
                writer.write(split, {"x": number, "label": names[number % len(names)]})
    return str(folder)


def test_names_and_number_of_classes_and_features_are_attributes(tmp_path, subtests):
    names = ["y", "x", "z"]
    uri = _write(tmp_path / "set", names)
    read = {"batch_size": 2, "label": "label"}
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    made = [
        trainer_utils.input_fn(uri, **read),
        trainer_utils.input_fn(uri, batch_size=2),
        trainer_utils.distribute(strategy, uri, **read),
        trainer_utils.iterate(uri, **read),
        *trainer_utils.load(uri, **read).values(),
    ]
    assert len(made) == 6
    for dataset in made:
        with subtests.test(dataset=dataset):
            assert (dataset.class_names, dataset.num_classes) == (names, len(names))
            assert sorted(dataset.features) == ["label", "x"]
    assert [*trainer_utils.input_fn(uri, features="x").features] == ["x"]


def test_datasets_that_differ_have_no_class_names(tmp_path):
    first, second = _write(tmp_path / "one", ["a", "b"]), _write(tmp_path / "two", ["c", "d"])
    both = trainer_utils.input_fn([first, second], label="label")
    assert (both.class_names, both.num_classes) == (None, 2)
    none = trainer_utils.input_fn(first, features="x", label="x")
    assert (none.class_names, none.num_classes) == (None, None)
