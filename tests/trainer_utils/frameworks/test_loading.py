import numpy as np
import pytest

import trainer_utils
from trainer_utils.format import Feature


@pytest.fixture
def write(write_dataset, tmp_path):
    def write(name, **sizes):
        splits = {split: [[{"x": [n]} for n in range(size)]] for split, size in sizes.items()}
        return write_dataset(tmp_path / name, splits, {"x": Feature(type="int")})

    return write


def values(dataset):
    return sorted(np.concatenate(list(dataset.as_numpy_iterator())).tolist())


def test_every_split_comes_under_its_name(write):
    splits = trainer_utils.load(write("a", train=10, eval=4, test=3), batch_size=4, features="x")
    assert list(splits) == ["train", "eval", "test"]
    assert [len(split) for split in splits.values()] == [3, 1, 1]
    assert [values(split) for split in splits.values()] == [[*range(n)] for n in (10, 4, 3)]


def test_several_datasets_give_their_common_splits(write):
    uris = [write("a", train=3, eval=1), write("b", test=1, train=2)]
    splits = trainer_utils.load(uris, features="x", batch_size=8)
    assert {split: values(found) for split, found in splits.items()} == {"train": [0, 0, 1, 1, 2]}


def test_options_and_settings_apply_to_every_split(write):
    options = trainer_utils.InputOptions(batch_size=2, features="x", repeat=3, shuffle=False)
    splits = trainer_utils.load(write("a", train=4, eval=2), options=options, repeat=2)
    assert [len(split) for split in splits.values()] == [4, 2]


def test_datasets_that_cannot_be_loaded_are_named(write, tmp_path):
    with pytest.raises(trainer_utils.DatasetError, match="a split in common"):
        trainer_utils.load([write("a", train=1), write("b", test=1)])
    with pytest.raises(trainer_utils.DatasetError, match="expected the folder of a dataset"):
        trainer_utils.load(str(tmp_path / "none"))
    with pytest.raises(trainer_utils.ConfigError, match="batch_size"):
        trainer_utils.load(write("c", train=1), batch_size=0)
