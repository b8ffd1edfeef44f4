"""The `repr` and the attributes of inputs."""

import pytest

import trainer_utils
from trainer_utils.reading.batch_iterator import SHOWN_OF_INPUT


def test_repr_lists_features_counts_order_and_rank(of_all_kinds):
    batches = trainer_utils.iterate(
        of_all_kinds,
        batch_size=4,
        features=["label", "tokens", "weight"],
        remainder="drop",
        seed=3,
        rank=1,
        world_size=2,
    )
    assert repr(batches) == (
        "BatchIterator: 11 records, 2 steps per epoch, rank 1 of 2\n"
        "  label: (2,) int64\n"
        "  tokens: (2, None) int64\n"
        "  weight: (2,) float32\n"
        "  order: shuffle=True, seed=3, remainder='drop'; starts at epoch 0, step 0"
    )


def test_repr_shows_where_a_resumed_input_starts(of_all_kinds):
    settings = {"batch_size": None, "features": ["label"], "repeat": 2, "shuffle": False}
    batches = trainer_utils.iterate(of_all_kinds, state=12, **settings)
    assert repr(batches) == (
        "BatchIterator: 11 records, 11 steps per epoch, rank 0 of 1\n"
        "  label: () int64\n"
        "  order: shuffle=False, seed=0, repeat=2; starts at epoch 1, step 1"
    )


def test_dir_lists_the_attributes_of_inputs(of_all_kinds):
    batches = trainer_utils.iterate(of_all_kinds, features="label")
    assert {*SHOWN_OF_INPUT, "order", "worker", "structure"} <= {*dir(batches)}


@pytest.mark.parametrize("name", ["input_fn", "distribute", "load"])
def test_datasets_of_tensorflow_describe_themselves(of_all_kinds, name):
    tf = pytest.importorskip("tensorflow")
    settings = {"batch_size": 4, "features": ["label", "tokens"], "remainder": "drop"}
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    make = {
        "input_fn": lambda: trainer_utils.input_fn(of_all_kinds, **settings),
        "distribute": lambda: trainer_utils.distribute(strategy, of_all_kinds, **settings),
        "load": lambda: trainer_utils.load(of_all_kinds, **settings)["train"],
    }
    dataset, batches = make[name](), trainer_utils.iterate(of_all_kinds, **settings)
    kind = "DistributedDataset" if name == "distribute" else "InputDataset"
    assert repr(dataset) == str(dataset) == repr(batches).replace("BatchIterator", kind, 1)
    assert {*SHOWN_OF_INPUT, "resumed_at"} <= {*dir(dataset)}
    assert isinstance(dataset, (tf.data.Dataset, tf.distribute.DistributedDataset))


def test_a_worker_of_tensorflow_shows_its_rank(of_all_kinds):
    tf = pytest.importorskip("tensorflow")
    context = tf.distribute.InputContext(2, 1, 2)
    dataset = trainer_utils.input_fn(of_all_kinds, features="label", input_context=context)
    assert "rank 1 of 2\n" in repr(dataset)
