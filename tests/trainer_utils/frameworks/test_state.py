"""The position of `iterate` and `jax_batches` is saved and loaded with a model's state."""

import itertools
import json

import numpy as np
import pytest

import trainer_utils
from trainer_utils import ConfigError

SETTINGS = {"batch_size": 8, "seed": 3, "features": "id"}


def ids(batches):
    return [np.asarray(batch).tolist() for batch in batches]


@pytest.mark.parametrize("taken", [0, 3, 19, 25, 38])
@pytest.mark.parametrize("processes", [0, 2])
def test_a_loaded_state_resumes_after_the_last_batch(numbered, taken, processes):
    settings = {**SETTINGS, "repeat": 2}
    whole = ids(trainer_utils.iterate(numbered, "train", **settings))
    source = trainer_utils.iterate(numbered, "train", **settings)
    assert ids(itertools.islice(source, taken)) == whole[:taken]
    kept = json.dumps(source.state_dict())
    resumed = trainer_utils.iterate(numbered, "train", **settings, processes=processes)
    resumed.load_state_dict(json.loads(kept))
    assert ids(resumed) == whole[taken:]


def test_a_state_is_loaded_by_another_number_of_ranks(numbered):
    whole = ids(trainer_utils.iterate(numbered, "train", **SETTINGS))
    source = trainer_utils.iterate(numbered, "train", **SETTINGS, rank=1, world_size=2)
    for _ in itertools.islice(source, 5):
        pass
    found = []
    for rank in range(4):
        own = trainer_utils.iterate(numbered, "train", **SETTINGS, rank=rank, world_size=4)
        own.load_state_dict(source.state_dict())
        found.append(ids(own))
    rest = [[n for part in parts for n in part] for parts in zip(*found, strict=True)]
    assert rest == whole[5:]


def test_each_epoch_resumes_without_repeat(numbered):
    source, epochs = trainer_utils.iterate(numbered, "train", **SETTINGS), []
    for _ in range(3):
        epochs.append(ids(source))
    again = trainer_utils.iterate(numbered, "train", **SETTINGS)
    assert ids(again) == epochs[0]
    resumed = trainer_utils.iterate(numbered, "train", **SETTINGS)
    resumed.load_state_dict(again.state_dict())
    assert [ids(resumed), ids(resumed)] == epochs[1:]


def test_an_epoch_that_is_set_goes_before_a_loaded_one(numbered):
    source = trainer_utils.iterate(numbered, "train", **SETTINGS)
    third = trainer_utils.iterate(numbered, "train", **SETTINGS)
    third.next_epoch = 2
    expected = ids(third)
    for _ in itertools.islice(source, 5):
        pass
    resumed = trainer_utils.iterate(numbered, "train", **SETTINGS)
    resumed.load_state_dict(source.state_dict())
    resumed.next_epoch = 2
    assert resumed.state_dict() == {"input_state": source.state(2 * 19).to_json()}
    assert ids(resumed) == expected


@pytest.mark.parametrize("other", [{"seed": 4}, {"batch_size": 10}])
def test_a_state_of_another_input_is_refused(numbered, other):
    source = trainer_utils.iterate(numbered, "train", **SETTINGS)
    for _ in itertools.islice(source, 5):
        pass
    with pytest.raises(ConfigError, match=next(iter(other))):
        trainer_utils.iterate(numbered, "train", **SETTINGS | other).load_state_dict(
            source.state_dict()
        )
    with pytest.raises(ConfigError, match="input_state"):
        source.load_state_dict({"epoch": 1})


@pytest.mark.parametrize("taken", [5, 18, 20])
def test_orbax_saves_and_restores_the_position(numbered, tmp_path, taken):
    jax = pytest.importorskip("jax")
    ocp = pytest.importorskip("orbax.checkpoint")
    from trainer_utils.frameworks.orbax import InputRestore, InputSave

    settings = {**SETTINGS, "repeat": 2, "sharding": None}
    whole = ids(trainer_utils.jax_batches(numbered, "train", **settings))
    batches = trainer_utils.jax_batches(numbered, "train", **settings)
    assert ids(itertools.islice(batches, taken)) == whole[:taken]
    model = {"weight": jax.numpy.arange(3.0)}
    with ocp.CheckpointManager(tmp_path / "kept") as manager:
        arguments = ocp.args.Composite(model=ocp.args.StandardSave(model), input=InputSave(batches))
        assert manager.save(taken, args=arguments)
    resumed = trainer_utils.jax_batches(numbered, "train", **settings)
    with ocp.CheckpointManager(tmp_path / "kept") as manager:
        arguments = ocp.args.Composite(
            model=ocp.args.StandardRestore(model), input=InputRestore(resumed)
        )
        restored = manager.restore(manager.latest_step(), args=arguments)
    assert restored.model["weight"].tolist() == [0, 1, 2]
    assert restored.input is resumed
    assert ids(resumed) == whole[taken:]
