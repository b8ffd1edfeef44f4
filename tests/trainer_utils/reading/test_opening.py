"""`plan` matches the files, computed by hand."""

import json
import re

import pytest

import trainer_utils
from tests.make import refusing
from trainer_utils import DatasetError
from trainer_utils.format import Feature

IDS = {"id": Feature(type="int")}


@pytest.fixture(scope="module")
def three_shards(tmp_path_factory, write_dataset) -> str:
    """Write shards of 10, 0 and 13 records to train, and an empty split."""
    ids = [{"id": [number]} for number in range(23)]
    splits = {"train": [ids[:10], [], ids[10:]], "empty": [[]]}
    return write_dataset(tmp_path_factory.mktemp("three"), splits, IDS)


def test_a_plan_counts_each_workers_records(three_shards):
    plan = trainer_utils.plan(three_shards, workers=2, batch_size=8, remainder="pad")
    assert (plan.records, plan.steps, plan.dropped, plan.padded) == (23, 3, 0, 1)
    assert [worker.records for worker in plan.workers] == [11, 12]
    assert [worker.padded for worker in plan.workers] == [1, 0]
    told = json.loads(json.dumps(plan.to_dict()))
    assert [worker["records"] for worker in told["workers"]] == [11, 12]


@pytest.mark.parametrize(
    ("remainder", "steps", "dropped", "padded"),
    [(None, 3, 0, 0), ("drop", 2, 7, 0), ("pad", 3, 0, 1), ("balance", 3, 0, 0)],
)
def test_the_rest_of_an_epoch_is_counted(three_shards, remainder, steps, dropped, padded):
    plan = trainer_utils.plan(three_shards, workers=2, batch_size=8, remainder=remainder)
    assert (plan.steps, plan.dropped, plan.padded) == (steps, dropped, padded)
    assert sum(worker.records for worker in plan.workers) == 23 - dropped


def test_an_empty_split_has_no_steps(three_shards, subtests):
    for remainder in (None, "drop", "pad", "balance"):
        with subtests.test(remainder=remainder):
            plan = trainer_utils.plan(
                three_shards, "empty", workers=3, batch_size=3, remainder=remainder
            )
            assert (plan.records, plan.steps) == (0, 0)
            assert [worker.records for worker in plan.workers] == [0, 0, 0]


@pytest.mark.parametrize("read", [trainer_utils.input_fn, trainer_utils.iterate])
def test_an_empty_input_warns_and_cannot_repeat_forever(three_shards, read, our_messages, subtests):
    for split in ("empty", "train[:0]", "empty+train[:0]"):
        with subtests.test(split=split):
            assert list(read(three_shards, split, batch_size=2, repeat=3)) == []
            assert f"split {split!r} has no records" in our_messages()[-1]
            with pytest.raises(
                DatasetError, match=f"split '{re.escape(split)}': expected records to"
            ):
                read(three_shards, split, batch_size=2, repeat=True)
    told = len(our_messages())
    assert len(list(read(three_shards, "empty+train[:1]", batch_size=2))) == 1
    assert len(our_messages()) == told


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"workers": 3, "batch_size": 8}, "batch_size"),
        ({"workers": 3, "replicas": 4, "batch_size": 8}, "workers"),
        ({"batch_size": 24, "remainder": "drop"}, "batch_size"),
        (
            {"workers": 8, "batch_size": 8, "split": "train[:3]", "remainder": "balance"},
            "remainder",
        ),
        ({"workers": 2, "batch_size": 8, "remainder": "keep"}, "remainder"),
        ({"workers": 0}, "workers"),
        ({"replicas": 0}, "replicas"),
    ],
)
def test_an_impossible_plan_names_the_setting_to_change(three_shards, settings, setting):
    with refusing(setting):
        trainer_utils.plan(three_shards, **{"split": "train", **settings})
