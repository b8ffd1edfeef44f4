"""`torch_dataset`: the steps that `input_fn` has, by any number of processes of a DataLoader.

PyTorch is gigabytes: where it is not installed, a module with the two names that are used of it
stands in, and `load` does what `DataLoader(dataset, batch_size=None)` documents: each process has a
copy of the dataset, and batches are taken from them in turn.
"""

import importlib.util
import pickle
import sys
import types

import numpy as np
import pytest

import trainer_utils
from trainer_utils import ConfigError

NUM, BATCH, STEPS = 50, 8, 7


class Info(types.SimpleNamespace):
    """As `torch.utils.data.get_worker_info()` gives it."""


@pytest.fixture
def turn(monkeypatch):
    """Sets which process of a DataLoader this is."""
    state = {"info": None}
    data = types.ModuleType("torch.utils.data")
    data.IterableDataset = type("IterableDataset", (), {})
    data.get_worker_info = lambda: state["info"]
    if importlib.util.find_spec("torch") is None:
        modules = {"torch": types.ModuleType("torch"), "torch.utils": types.ModuleType("utils")}
        for name, module in {**modules, "torch.utils.data": data}.items():
            monkeypatch.setitem(sys.modules, name, module)
    else:
        monkeypatch.setattr("torch.utils.data.get_worker_info", data.get_worker_info)
    from trainer_utils.arrays import torch_data

    torch_data._torch_class.cache_clear()
    yield lambda index=0, count=0: state.update(
        info=Info(id=index, num_workers=count) if count else None
    )
    torch_data._torch_class.cache_clear()


@pytest.fixture(scope="module")
def uri(tmp_path_factory, serialize):
    import tensorflow as tf

    folder = tmp_path_factory.mktemp("records")
    for index in range(5):
        with tf.io.TFRecordWriter(f"{folder}/train-{index}.tfrecord") as writer:
            for number in range(index * 10, index * 10 + 10):
                writer.write(serialize(id=[number]))
    return str(folder)


def ids(batches):
    return [np.asarray(batch["id"]).tolist() for batch in batches]


def load(dataset, processes, turn):
    """All batches, as a DataLoader of so many processes gives them."""
    if not processes:
        return ids(dataset)
    iterators = []
    for index in range(processes):
        turn(index, processes)
        iterators.append((index, iter(pickle.loads(pickle.dumps(dataset)))))
    found = []
    while iterators:
        index, iterator = iterators.pop(0)
        turn(index, processes)
        batch = next(iterator, None)
        if batch is not None:
            found.append(batch)
            iterators.append((index, iterator))
    turn()
    return ids(found)


SETTINGS = {"batch_size": BATCH, "seed": 3}


@pytest.mark.parametrize("shuffle", [True, "global", False])
@pytest.mark.parametrize("processes", [0, 2, 9])
def test_batches_are_those_of_input_fn(uri, turn, shuffle, processes):
    settings = {**SETTINGS, "shuffle": shuffle}
    expected = ids(trainer_utils.input_fn(uri, "train", **settings))
    dataset = trainer_utils.torch_dataset(uri, "train", **settings)
    assert isinstance(dataset, sys.modules["torch.utils.data"].IterableDataset)
    assert len(dataset) == len(expected) == STEPS
    assert load(dataset, processes, turn) == expected


def test_ranks_share_each_batch(uri, turn):
    import tensorflow as tf

    for rank in range(2):
        context = tf.distribute.InputContext(2, rank, 2)
        expected = ids(trainer_utils.input_fn(uri, "train", input_context=context, **SETTINGS))
        settings = {**SETTINGS, "worker": rank, "num_workers": 2}
        assert load(trainer_utils.torch_dataset(uri, "train", **settings), 3, turn) == expected


def test_epochs_follow_one_another(uri, turn):
    theirs = trainer_utils.input_fn(uri, "train", **SETTINGS)
    epochs = [ids(theirs) for _ in range(3)]
    dataset = trainer_utils.torch_dataset(uri, "train", **SETTINGS)
    assert [ids(dataset) for _ in range(3)] == epochs
    dataset.set_epoch(1)
    assert load(dataset, 2, turn) == epochs[1]
    twice = trainer_utils.torch_dataset(uri, "train", repeat=2, **SETTINGS)
    assert load(twice, 3, turn) == epochs[0] + epochs[1]
    with pytest.raises(ConfigError, match="epoch: expected an int"):
        dataset.set_epoch(-1)


@pytest.mark.parametrize("step", [1, 7, 11])
@pytest.mark.parametrize("processes", [0, 3])
def test_tokens_go_over_in_both_directions(uri, turn, step, processes):
    settings = {**SETTINGS, "repeat": 2}
    everything = ids(trainer_utils.input_fn(uri, "train", **settings))
    dataset = trainer_utils.torch_dataset(uri, "train", **settings)
    token = trainer_utils.input_fn(uri, "train", **settings).state(step)
    assert dataset.state(step) == token
    dataset.load_state_dict(token.to_json())
    assert load(dataset, processes, turn) == everything[step:]
    again = trainer_utils.input_fn(uri, "train", state=dataset.state(step), **settings)
    assert ids(again) == everything[step:]
    resumed = trainer_utils.torch_dataset(uri, "train", state=token, **settings)
    assert load(resumed, processes, turn) == everything[step:]


def test_each_process_of_a_loader_goes_on_by_itself(uri, turn):
    settings = {**SETTINGS, "repeat": 2}
    everything = ids(trainer_utils.input_fn(uri, "train", **settings))
    states, taken = [], {}
    for index, count in ((0, 3), (1, 2)):  # process 0 has given 3 batches, process 1 two
        turn(index, 2)
        dataset = trainer_utils.torch_dataset(uri, "train", **settings)
        iterator = iter(dataset)
        taken[index] = ids(next(iterator) for _ in range(count))
        states.append(dataset.state_dict())
    assert [*taken[0], *taken[1]] == [everything[n] for n in (0, 2, 4, 1, 3)]
    for index, first in ((0, 6), (1, 5)):
        turn(index, 2)
        dataset = trainer_utils.torch_dataset(uri, "train", **settings)
        dataset.load_state_dict(states[index])
        assert ids(dataset) == everything[first::2]
    turn()
    with pytest.raises(ConfigError, match="process and processes"):
        dataset.load_state_dict(states[0])


def test_a_token_of_another_order_is_refused(uri, turn):
    token = trainer_utils.input_fn(uri, "train", batch_size=BATCH, seed=4).state(3)
    with pytest.raises(ConfigError, match="the seed of the token, 4"):
        trainer_utils.torch_dataset(uri, "train", **SETTINGS).load_state_dict(token)


def test_without_pytorch_one_sentence_says_so(uri, monkeypatch):
    from trainer_utils.arrays import torch_data

    torch_data._torch_class.cache_clear()
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "torch.utils.data", None)
    with pytest.raises(ConfigError, match=r"expected PyTorch, found none.*iterate"):
        trainer_utils.torch_dataset(uri)
