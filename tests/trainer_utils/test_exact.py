"""Every record exactly once, on any number of workers, from any step on: by brute force."""

import collections
import itertools
import json
import shutil
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import trainer_utils
from trainer_utils import ConfigError, input_fn
from trainer_utils.format import Feature

FEATURES = {"id": Feature(type="int"), "label": Feature(type="int")}


def rows(start: int, stop: int) -> list[dict[str, list[int]]]:
    return [{"id": [number], "label": [number % 3]} for number in range(start, stop)]


@pytest.fixture(scope="module")
def uneven(tmp_path_factory, write_dataset) -> str:
    """53 records to train in 4 shards, one of them empty; 1 and no records in other splits."""
    bounds = [0, 30, 30, 31, 53]
    splits = {
        "train": [rows(start, stop) for start, stop in itertools.pairwise(bounds)],
        "one": [rows(0, 1)],
        "none": [[]],
    }
    return write_dataset(tmp_path_factory.mktemp("exact"), splits, FEATURES)


def workers_of(count: int, replicas: int | None = None) -> list[tf.distribute.InputContext]:
    return [tf.distribute.InputContext(count, index, replicas or count) for index in range(count)]


def read(uri: str, count: int, *, split: str = "train", epochs: int = 1, **options: Any) -> list:
    """What each worker yields, in each of the epochs: lists of batches."""
    options = {"features": "id", "batch_size": 24, "seed": 1, **options}
    datasets = [input_fn(uri, split, input_context=c, **options) for c in workers_of(count)]
    return [[list(d.as_numpy_iterator()) for d in datasets] for _ in range(epochs)]


def global_batches(workers: list[list[np.ndarray]]) -> list[list[int]]:
    assert len({len(batches) for batches in workers}) == 1
    return [sorted(np.concatenate(step).tolist()) for step in zip(*workers, strict=True)]


@pytest.mark.parametrize("shuffle", [True, "global"])
def test_global_batches_are_the_same_on_any_number_of_workers(uneven, shuffle):
    expected = [global_batches(w) for w in read(uneven, 1, shuffle=shuffle, epochs=2)]
    assert sorted(itertools.chain(*expected[0])) == list(range(53))
    for count in (2, 8):
        got = read(uneven, count, shuffle=shuffle, epochs=2)
        for epoch, workers in enumerate(got):
            assert global_batches(workers) == expected[epoch]
            last = [len(batches[-1]) for batches in workers]  # 5 records; of eight, three have none
            assert set(last) <= {5 // count, -(-5 // count)}


@pytest.mark.parametrize(("split", "count"), [("train", 3), ("one", 8), ("none", 1)])
def test_padding_shows_every_record_once_and_the_rest_weighs_nothing(uneven, count, split):
    records = {"train": 53, "one": 1, "none": 0}[split]
    (workers,) = read(uneven, count, split=split, remainder="pad", features=["id"])
    assert {len(batches) for batches in workers} == {-(-records // 24)}
    seen = []
    for batch in itertools.chain(*workers):
        assert batch["id"].shape == batch["mask"].shape == (24 // count,)
        assert batch["mask"].dtype == np.float32
        assert set(batch["mask"]) <= {0, 1}
        seen += batch["id"][batch["mask"] == 1].tolist()
    assert sorted(seen) == list(range(records))


@pytest.mark.parametrize("shuffle", [True, "global"])
def test_dropping_leaves_out_others_next_epoch(uneven, shuffle):
    epochs = read(uneven, 2, shuffle=shuffle, remainder="drop", epochs=6)
    left_out = []
    for workers in epochs:
        assert [len(batch) for batches in workers for batch in batches] == [12] * 4
        seen = collections.Counter(itertools.chain(*global_batches(workers)))
        assert max(seen.values()) == 1
        left_out.append(set(range(53)) - set(seen))
    assert {len(rest) for rest in left_out} == {5}
    assert len(set.union(*left_out)) > 12


def test_a_batch_that_no_plan_can_deal_is_refused_before_anything_is_read(uneven):
    for remainder in ("balance", "drop"):
        with pytest.raises(ConfigError):
            read(uneven, 8, split="one", remainder=remainder)


@pytest.mark.parametrize(
    ("shuffle", "remainder"), [(True, "drop"), (False, None), (20, "balance"), ("global", "pad")]
)
def test_a_new_process_goes_on_with_the_batches_that_would_have_come(uneven, shuffle, remainder):
    options: dict[str, Any] = {
        "features": ["id"], "batch_size": 8, "shuffle": shuffle, "remainder": remainder, "repeat": 3
    }  # fmt: skip
    whole = [batch["id"].tolist() for batch in input_fn(uneven, **options).as_numpy_iterator()]
    steps = len(whole) // 3
    for start in (1, steps - 1, steps, 2 * steps + 1, 3 * steps):
        dataset = input_fn(uneven, state=start, **options)
        assert int(dataset.cardinality()) == len(whole) - start
        assert [batch["id"].tolist() for batch in dataset.as_numpy_iterator()] == whole[start:]


def test_what_came_before_is_not_read(tmp_path, write_dataset):
    shards = [rows(start, start + 10) for start in range(0, 40, 10)]
    uri = write_dataset(tmp_path, {"train": shards}, FEATURES)
    for path in sorted((tmp_path / "Split-train").iterdir())[:2]:
        path.write_bytes(bytes(path.stat().st_size))
    options: dict[str, Any] = {"features": "id", "batch_size": 10, "shuffle": False}
    with pytest.raises(tf.errors.OpError, match="00001-of-00004"):
        list(input_fn(uri, state=1, **options))
    got = [batch.tolist() for batch in input_fn(uri, state=2, **options).as_numpy_iterator()]
    assert got == [list(range(20, 30)), list(range(30, 40))]


# --- Tokens ---


def test_a_token_is_small_and_goes_through_json(uneven):
    dataset = input_fn(uneven, batch_size=8, seed=4)
    token = dataset.state(9)
    assert (token.epoch, token.step, token.batch_size, token.seed) == (1, 2, 8, 4)
    assert len(token.to_json()) < 400
    assert trainer_utils.InputState.from_json(token.to_json()) == token
    for form in (token, token.to_json(), json.loads(token.to_json())):
        assert input_fn(uneven, batch_size=8, seed=4, state=form).input_start == token


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"seed": 5}, "seed"),
        ({"batch_size": 4}, "batch_size"),
        ({"shuffle": False}, "digest"),
        ({"remainder": "pad"}, "digest"),
        ({"split": "train[:50]"}, "digest"),
    ],
)
def test_a_token_of_another_input_is_refused(uneven, changed, name):
    token = input_fn(uneven, "train", batch_size=8, seed=4).state(3)
    settings = {"split": "train", "batch_size": 8, "seed": 4, "state": token, **changed}
    with pytest.raises(ConfigError, match=f"^state: expected the {name} of the token"):
        input_fn(uneven, **settings)


def test_a_token_of_a_changed_dataset_is_refused_and_of_a_moved_one_is_not(tmp_path, write_dataset):
    first = write_dataset(tmp_path / "first", {"train": [rows(0, 9)]}, FEATURES)
    moved = shutil.copytree(first, tmp_path / "moved")
    changed = write_dataset(tmp_path / "changed", {"train": [rows(1, 10)]}, FEATURES)
    uris = [first, str(moved), changed]
    token = input_fn(uris[0], batch_size=3).state(1)
    input_fn(uris[1], batch_size=3, state=token)
    with pytest.raises(ConfigError, match="digest"):
        input_fn(uris[2], batch_size=3, state=token)
